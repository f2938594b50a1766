/** Zip archives with every possible fault, made field by field, with right checksums. */
import { crc32, deflateRawSync } from 'node:zlib';
import type { Random } from '../support/random.js';

/** A file of an archive, as both headers have it. */
export interface ArchiveFile {
  /** One character is one byte. */
  name: string;
  /** Its bytes before they are deflated. */
  data: Buffer;
  isDeflated: boolean;
}

/** A number in the archive: its place, width, name and usual value. */
interface Field {
  readonly at: number;
  readonly byteLength: number;
}

/** How headers are written: as torch does, or Python's zipfile. */
type Layout = 'torch' | 'python' | 'stream' | 'wide';

/** The differences from a regular archive. */
interface Faults {
  readonly layout: Layout;
  readonly flags: number;
  /** Whether the checksums belong to other bytes. */
  readonly isChecksumOld: boolean;
  readonly gap: boolean;
  readonly extra: Buffer;
  readonly comment: Buffer;
  readonly attributes: number;
}

/** Writes archives and remembers where the fields are. */
class Writer {
  readonly fields: Field[] = [];
  readonly #parts: Buffer[] = [];
  length = 0;

  bytes(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.length += bytes.length;
  }

  /** Little-endian numbers, each with its width. */
  numbers(...numbers: readonly (readonly [value: number, byteLength: number])[]): void {
    for (const [value, byteLength] of numbers) {
      this.fields.push({ at: this.length, byteLength });
      const bytes = Buffer.alloc(byteLength);
      if (byteLength === 8) bytes.writeBigUInt64LE(BigInt(value));
      else bytes.writeUIntLE(value, 0, byteLength);
      this.bytes(bytes);
    }
  }

  whole(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

interface Placed {
  readonly name: Buffer;
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly stored: number;
  readonly whole: number;
  readonly at: number;
}

function writeFile(writer: Writer, file: ArchiveFile, faults: Faults): Placed {
  const name = Buffer.from(file.name, 'latin1');
  const data = file.isDeflated ? deflateRawSync(file.data) : file.data;
  const isOpen = faults.layout === 'torch' || faults.layout === 'stream';
  const flags = faults.flags | (isOpen && data.length > 0 ? 0x808 : 0x800);
  const method = file.isDeflated ? 8 : 0;
  const crc = crc32(faults.isChecksumOld ? Buffer.from('old') : file.data);
  const at = writer.length;
  const isLeftOpen = (flags & 8) !== 0;
  const shown = isLeftOpen ? [0, 0, 0] : [crc, data.length, file.data.length];
  const [shownCrc = 0, stored = 0, whole = 0] = shown;
  const isWide = faults.layout === 'wide' && !isLeftOpen;
  const begin = at + 30 + name.length;
  const padding = faults.layout === 'torch' ? (64 - ((begin + 4) % 64)) % 64 : 0;
  const extraLength =
    faults.extra.length + (faults.layout === 'torch' ? 4 + padding : 0) + (isWide ? 20 : 0);
  writer.numbers([0x04034b50, 4], [0, 2], [flags, 2], [method, 2], [0, 2], [0, 2], [shownCrc, 4]);
  writer.numbers([isWide ? 0xffffffff : stored, 4], [isWide ? 0xffffffff : whole, 4]);
  writer.numbers([name.length, 2], [extraLength, 2]);
  writer.bytes(name);
  if (isWide) writer.numbers([1, 2], [16, 2], [whole, 8], [stored, 8]);
  if (faults.layout === 'torch') {
    writer.numbers([0x4246, 2], [padding, 2]);
    writer.bytes(Buffer.alloc(padding, 'Z'));
  }
  writer.bytes(faults.extra);
  writer.bytes(data);
  if (isLeftOpen) {
    writer.numbers([0x08074b50, 4], [crc, 4], [data.length, 4], [file.data.length, 4]);
  }
  return { name, flags, method, crc, stored: data.length, whole: file.data.length, at };
}

function writeDirectory(writer: Writer, placed: readonly Placed[], faults: Faults): void {
  const begin = writer.length;
  for (const { name, flags, method, crc, stored, whole, at } of placed) {
    writer.numbers([0x02014b50, 4], [0, 2], [0, 2], [flags, 2], [method, 2], [0, 2], [0, 2]);
    writer.numbers([crc, 4], [stored, 4], [whole, 4], [name.length, 2], [faults.extra.length, 2]);
    writer.numbers([0, 2], [0, 2], [0, 2], [faults.attributes, 4], [at, 4]);
    writer.bytes(name);
    writer.bytes(faults.extra);
  }
  const byteLength = writer.length - begin;
  const count = placed.length;
  if (faults.layout === 'torch') {
    const wideAt = writer.length;
    writer.numbers(
      [0x06064b50, 4],
      [44, 8],
      [0, 2],
      [0, 2],
      [0, 4],
      [0, 4],
      [count, 8],
      [count, 8],
    );
    writer.numbers([byteLength, 8], [begin, 8]);
    writer.numbers([0x07064b50, 4], [0, 4], [wideAt, 8], [1, 4]);
  }
  writer.numbers(
    [0x06054b50, 4],
    [0, 2],
    [0, 2],
    [count, 2],
    [count, 2],
    [byteLength, 4],
    [begin, 4],
  );
  writer.numbers([faults.comment.length, 2]);
  writer.bytes(faults.comment);
}

const LAYOUTS: readonly Layout[] = ['torch', 'torch', 'python', 'stream', 'wide'];

/** An archive of the files without a fault. */
export function writeArchive(files: readonly ArchiveFile[], random: Random): Buffer {
  const layout = random.pick(LAYOUTS);
  return write(files, random, { ...NO_FAULTS, layout }).whole();
}

const NO_FAULTS: Omit<Faults, 'layout'> = {
  flags: 0,
  isChecksumOld: false,
  gap: false,
  extra: Buffer.alloc(0),
  comment: Buffer.alloc(0),
  attributes: 0,
};

function write(files: readonly ArchiveFile[], random: Random, faults: Faults): Writer {
  const writer = new Writer();
  const placed = files.map((file) => {
    const made = writeFile(writer, file, faults);
    if (faults.gap && random.chance(0.3))
      writer.bytes(random.bytes(random.pick([1, 4, 12, 16, 30])));
    return made;
  });
  writeDirectory(writer, random.chance(0.1) ? placed.toReversed() : placed, faults);
  return writer;
}

/** An archive of the files with one or several faults, of names, order, fields or bytes. */
export function writeFaultyArchive(files: readonly ArchiveFile[], random: Random): Buffer {
  const changed = files.map((file) => ({ ...file }));
  if (changed.length > 0 && random.chance(0.5)) changeFiles(changed, random);
  const rarely = <Value>(usual: Value, other: () => Value): Value =>
    random.chance(0.06) ? other() : usual;
  const writer = write(changed, random, {
    layout: random.pick(LAYOUTS),
    flags: rarely(0, () => 1 << random.below(16)),
    isChecksumOld: random.chance(0.02),
    gap: random.chance(0.03),
    extra: rarely(NO_FAULTS.extra, () => anyExtra(random)),
    comment: rarely(NO_FAULTS.comment, () => random.bytes(random.pick([1, 22, 40]))),
    attributes: rarely(0, () => random.pick([0xa1ff0000, 0x81a40000, 0x41ed0010, 16])),
  });
  const bytes = writer.whole();
  if (random.chance(0.5)) changeFields(bytes, writer.fields, random);
  return changeBytes(bytes, random);
}

function anyExtra(random: Random): Buffer {
  const field = (id: number, data: Buffer): Buffer => {
    const head = Buffer.alloc(4);
    head.writeUInt16LE(id);
    head.writeUInt16LE(random.chance(0.1) ? random.below(100) : data.length, 2);
    return Buffer.concat([head, data]);
  };
  return random.do(
    () => field(1, random.bytes(random.pick([0, 8, 16, 24, 28]))),
    () => field(1, Buffer.alloc(random.pick([8, 16, 24]))),
    () => field(0x7075, Buffer.concat([random.bytes(5), Buffer.from('archive/data.pkl')])),
    () => field(0x5455, random.bytes(5)),
    () => random.bytes(random.below(12)),
    () => Buffer.concat([field(0x4246, Buffer.alloc(3)), field(0x4246, Buffer.alloc(2))]),
  );
}

function changeFiles(files: ArchiveFile[], random: Random): void {
  const one = random.pick(files);
  const other = random.pick(files);
  const at = random.below(files.length);
  random.do(
    () => files.splice(at, 1),
    () => files.splice(at, 0, { ...one }),
    () => files.splice(at, 0, { ...other, name: one.name }),
    () => files.splice(at, 0, { ...one, name: one.name.toUpperCase() }),
    () => files.splice(at, 0, { ...one, data: Buffer.alloc(0), name: `${one.name}/` }),
    () => files.splice(at, 0, { ...one, name: `x/${one.name}` }),
    () => files.reverse(),
    () => {
      [one.data, other.data] = [other.data, one.data];
    },
    () => {
      [one.name, other.name] = [other.name, one.name];
    },
    () => {
      one.name = random.pick([
        one.name.toUpperCase(),
        `../${one.name}`,
        `/${one.name}`,
        `${one.name}\n`,
      ]);
    },
    () => {
      one.name = random.pick([
        '',
        '\xff\xfe',
        '\xc3\xa9',
        'archive\\data.pkl',
        'C:x',
        'archive//x',
      ]);
    },
    () => {
      one.name += random.pick(['.npy', ' ', '.', '\0', '\xc3\xa9', 'x'.repeat(5000)]);
    },
    () => {
      one.isDeflated = !one.isDeflated;
    },
    () => {
      for (const file of files) file.isDeflated = true;
    },
    () => {
      one.data = one.data.subarray(random.below(3), one.data.length - random.below(3));
    },
    () => {
      one.data = Buffer.concat([one.data, random.bytes(random.from(1, 8))]);
    },
  );
}

/** Gives some numbers other values: near ones, edges, or those of other fields. */
function changeFields(bytes: Buffer, fields: readonly Field[], random: Random): void {
  for (let count = random.pick([1, 1, 2, 3]); count > 0; count--) {
    const { at, byteLength } = random.pick(fields);
    const width = Math.min(byteLength, 4);
    const other = random.pick(fields);
    const value = random.chance(0.2)
      ? bytes.readUIntLE(other.at, Math.min(other.byteLength, width))
      : random.number(bytes.readUIntLE(at, width));
    bytes.writeUIntLE(value % 2 ** (8 * width), at, width);
    if (byteLength === 8 && random.chance(0.2)) bytes.writeUInt32LE(random.number(0), at + 4);
  }
}

/** Cuts bytes off or adds some, now and then. */
export function changeBytes(bytes: Buffer, random: Random): Buffer {
  if (!random.chance(0.08)) return bytes;
  const at = random.below(bytes.length + 1);
  return random.do(
    () => bytes.subarray(0, at),
    () => bytes.subarray(random.below(8)),
    () => Buffer.concat([bytes, random.bytes(random.pick([1, 22, 64]))]),
    () => Buffer.concat([random.bytes(random.pick([1, 30, 64])), bytes]),
    () => Buffer.concat([bytes, bytes]),
    () =>
      Buffer.concat([bytes.subarray(0, at), random.bytes(random.from(1, 8)), bytes.subarray(at)]),
    () => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + random.from(1, 8))]),
    () => {
      const copy = Buffer.from(bytes);
      for (let count = random.from(1, 8); count > 0; count--) {
        copy[random.below(copy.length)] = random.below(256);
      }
      return copy;
    },
  );
}
