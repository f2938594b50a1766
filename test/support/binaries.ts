/** Imports and exports of compiled files: ELF, Mach-O and PE, of 64 bits, little-endian. */
import { createHash } from 'node:crypto';

/** A file of machine code, as its headers describe it. */
export interface Binary {
  /** Names of the libraries that must be loaded with it. */
  readonly libraries: readonly string[];
  /** Names that it imports. */
  readonly imports: readonly string[];
  /** Names that it exports. */
  readonly exports: readonly string[];
  /** Versions of names that it asks for, such as `GLIBC_2.28`. ELF alone has them. */
  readonly versions: readonly string[];
}

/** Numbers and texts of a file at any position. */
class Reader {
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  u8 = (at: number): number => this.#bytes.readUInt8(at);
  u16 = (at: number): number => this.#bytes.readUInt16LE(at);
  u32 = (at: number): number => this.#bytes.readUInt32LE(at);
  u64 = (at: number): number => Number(this.#bytes.readBigUInt64LE(at));

  text(at: number): string {
    return this.#bytes.toString('latin1', at, this.#bytes.indexOf(0, at));
  }
}

/** Every position of a table. */
function positions(begin: number, count: number, size: number): number[] {
  return Array.from({ length: count }, (_, i) => begin + i * size);
}

function readElf(file: Reader): Binary {
  const sections = positions(file.u64(0x28), file.u16(0x3c), file.u16(0x3a)).map((at) => ({
    type: file.u32(at + 4),
    offset: file.u64(at + 24),
    size: file.u64(at + 32),
    link: file.u32(at + 40),
  }));
  const entriesOf = (type: number, size: number): { at: number; text: (at: number) => string }[] =>
    sections
      .filter((section) => section.type === type)
      .flatMap((section) => {
        const strings = sections[section.link]?.offset ?? 0;
        const text = (at: number): string => file.text(strings + at);
        return positions(section.offset, section.size / size, size).map((at) => ({ at, text }));
      });
  const symbols = entriesOf(11, 24)
    .slice(1)
    .map(({ at, text }) => ({ name: text(file.u32(at)), isUndefined: file.u16(at + 6) === 0 }));
  const versions: string[] = [];
  for (const section of sections.filter(({ type }) => type === 0x6ffffffe)) {
    const strings = sections[section.link]?.offset ?? 0;
    for (let need = section.offset; ; need += file.u32(need + 12)) {
      for (let aux = need + file.u32(need + 8); ; aux += file.u32(aux + 12)) {
        versions.push(file.text(strings + file.u32(aux + 8)));
        if (file.u32(aux + 12) === 0) break;
      }
      if (file.u32(need + 12) === 0) break;
    }
  }
  return {
    libraries: entriesOf(6, 16)
      .filter(({ at }) => file.u64(at) === 1)
      .map(({ at, text }) => text(file.u64(at + 8))),
    imports: symbols.flatMap(({ name, isUndefined }) => (isUndefined ? [name] : [])),
    exports: symbols.flatMap(({ name, isUndefined }) => (isUndefined ? [] : [name])),
    versions,
  };
}

function readMachO(file: Reader): Binary {
  const commands: { kind: number; at: number }[] = [];
  for (let at = 32; commands.length < file.u32(16); at += file.u32(at + 4)) {
    commands.push({ kind: file.u32(at), at });
  }
  const symbols = commands
    .filter(({ kind }) => kind === 2)
    .flatMap(({ at }) =>
      positions(file.u32(at + 8), file.u32(at + 12), 16).map((entry) => ({
        name: file.text(file.u32(at + 16) + file.u32(entry)),
        type: file.u8(entry + 4),
      })),
    )
    // The exported names. A C function `x` is `_x` here.
    .filter(({ type }) => (type & 1) === 1)
    .map(({ name, type }) => ({ name: name.replace(/^_/, ''), isUndefined: (type & 0xe) === 0 }));
  return {
    libraries: commands
      .filter(({ kind }) => kind === 0xc)
      .map(({ at }) => file.text(at + file.u32(at + 8))),
    imports: symbols.flatMap(({ name, isUndefined }) => (isUndefined ? [name] : [])),
    exports: symbols.flatMap(({ name, isUndefined }) => (isUndefined ? [] : [name])),
    versions: [],
  };
}

function readPe(file: Reader): Binary {
  const header = file.u32(0x3c);
  const optional = header + 24;
  const sections = positions(optional + file.u16(header + 20), file.u16(header + 6), 40).map(
    (at) => ({ size: file.u32(at + 8), address: file.u32(at + 12), offset: file.u32(at + 20) }),
  );
  const fileOffset = (address: number): number => {
    const section = sections.find((s) => address >= s.address && address < s.address + s.size);
    if (section === undefined) throw new Error(`no section has the address ${address}`);
    return address - section.address + section.offset;
  };
  const [exportTable, importTable] = [optional + 112, optional + 120].map((at) =>
    fileOffset(file.u32(at)),
  ) as [number, number];
  const libraries: string[] = [];
  const imports: string[] = [];
  for (let at = importTable; file.u32(at + 12) !== 0; at += 20) {
    libraries.push(file.text(fileOffset(file.u32(at + 12))));
    for (let entry = fileOffset(file.u32(at)); file.u64(entry) !== 0; entry += 8) {
      imports.push(file.text(fileOffset(file.u64(entry)) + 2));
    }
  }
  const names = fileOffset(file.u32(exportTable + 32));
  return {
    libraries,
    imports,
    exports: positions(names, file.u32(exportTable + 24), 4).map((at) =>
      file.text(fileOffset(file.u32(at))),
    ),
    versions: [],
  };
}

/** Reads the headers. Throws for any other kind of file. */
export function readBinary(bytes: Buffer): Binary {
  const file = new Reader(bytes);
  if (file.u32(0) === 0x464c457f && file.u8(4) === 2) return readElf(file);
  if (file.u32(0) === 0xfeedfacf) return readMachO(file);
  if (file.u16(0) === 0x5a4d && file.u16(file.u32(0x3c) + 24) === 0x20b) return readPe(file);
  throw new Error('neither ELF, Mach-O nor PE of 64 bits');
}

/** Whether a Mach-O file has a signature by the linker alone, and the signed hash of every page is right. */
export function hasLinkersSignature(bytes: Buffer): boolean {
  const file = new Reader(bytes);
  let command = 32;
  for (let i = 0; i < file.u32(16) && file.u32(command) !== 0x1d; i++)
    command += file.u32(command + 4);
  if (file.u32(command) !== 0x1d) return false;
  // From here on the highest byte comes first.
  const signature = file.u32(command + 8);
  const directory = signature + bytes.readUInt32BE(signature + 16);
  const at = (offset: number): number => bytes.readUInt32BE(directory + offset);
  const [isDirectory, isByLinker] = [at(0) === 0xfade0c02, at(12) === 0x20002];
  const [hashes, count, signed] = [directory + at(16), at(28), at(32)];
  const pageLength = 2 ** bytes.readUInt8(directory + 39);
  const pages = positions(0, count, pageLength);
  const isRight = (page: number, i: number): boolean => {
    const content = bytes.subarray(page, Math.min(page + pageLength, signed));
    const expected = bytes.subarray(hashes + 32 * i, hashes + 32 * (i + 1));
    return createHash('sha256').update(content).digest().equals(expected);
  };
  return isDirectory && isByLinker && signed === signature && pages.every(isRight);
}
