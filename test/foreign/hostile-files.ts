/** Hostile files that are about as long as the limits allow: they make a reader repeat its most expensive steps. */

import { constants, crc32, deflateRawSync } from 'node:zlib';
import { Random } from '../support/random.js';
import { type ArchiveFile, writeArchive } from './generated-archive.js';
import { headerOf, npy } from './numpy/arrays.js';
import { integer, text } from './pickle-mutations.js';

const MIB = 2 ** 20;

/** A checkpoint with one storage, of six numbers. */
function checkpoint(pickle: Buffer): Buffer {
  const files: ArchiveFile[] = [
    { name: 'm/data.pkl', data: pickle, isDeflated: pickle.length > MIB },
    { name: 'm/data/0', data: Buffer.alloc(24), isDeflated: false },
    { name: 'm/version', data: Buffer.from('3\n'), isDeflated: false },
  ];
  return writeArchive(files, new Random(1, 0));
}

/** A pickle with a part again and again. */
function repeated(
  head: string,
  count: number,
  part: (index: number) => string,
  tail: string,
): Buffer {
  const pieces = [Buffer.from(`\x80\x02${head}`, 'latin1')];
  for (let begin = 0; begin < count; begin += MIB) {
    const length = Math.min(MIB, count - begin);
    const parts = Array.from({ length }, (_, i) => part(begin + i));
    pieces.push(Buffer.from(parts.join(''), 'latin1'));
  }
  return Buffer.concat([...pieces, Buffer.from(`${tail}.`, 'latin1')]);
}

/** Number 0 of the memo is the function, 1 the storage, 2 a shape, 3 strides, 4 a dict, 5 a tensor. */
const HEAD =
  `ctorch._utils\n_rebuild_tensor_v2\nq\x000(${text('storage')}ctorch\nFloatStorage\n${text('0')}` +
  `${text('cpu')}${integer(6)}tQq\x010K\x06\x85q\x020K\x01\x85q\x030}q\x040` +
  'h\0(h\x01K\0h\x02h\x03\x89h\x04tRq\x050';

/** A tensor of its own, and one with the shape and the strides that are numbers 6 and 7. */
const TENSOR = 'h\0(h\x01K\0h\x02h\x03\x89h\x04tR';
const SHAPED = 'h\0(h\x01K\0h\x06h\x07\x89h\x04tR';

/** Number 6 is the function that makes parameters, 7 a state of so many attributes. */
function withState(count: number, value: string): string {
  const attributes = Array.from({ length: count }, (_, i) => shortText(`x${i}`) + value);
  return `${HEAD}ctorch._utils\n_rebuild_parameter_with_state\nq\x060}(${attributes.join('')}uq\x070`;
}

function shortText(value: number | string): string {
  const shown = typeof value === 'number' ? value.toString(36) : value;
  return `\x8c${String.fromCharCode(shown.length)}${shown}`;
}

function uint32(value: number): string {
  return String.fromCharCode(value & 255, (value >> 8) & 255, (value >> 16) & 255, value >>> 24);
}

/** A dict with the keys of numbers. */
function dict(count: number, value: string, head = HEAD): Buffer {
  return checkpoint(repeated(`${head}}`, count, (i) => `${shortText(i)}${value}s`, ''));
}

/** A list, with a tensor at its end. */
function list(count: number, item: string | ((index: number) => string), head = ''): Buffer {
  const part = typeof item === 'string' ? () => `${item}a` : (i: number) => `${item(i)}a`;
  return checkpoint(repeated(`${HEAD}${head}]`, count, part, 'h\x05a'));
}

/** A repeated part that leaves nothing behind. */
function passing(count: number, part: string, head = ''): Buffer {
  return checkpoint(repeated(HEAD + head, count, () => part, 'h\x05'));
}

/** Dicts within each other, and the innermost with many tensors: all keys are in all names. */
function deep(depth: number, key: string, count: number): Buffer {
  const head = `${HEAD}${`}${shortText(key)}`.repeat(depth)}}`;
  return checkpoint(repeated(head, count, (i) => `${shortText(i)}h\x05s`, 's'.repeat(depth)));
}

/** Names as long as in models of many experts. */
const LONG_NAME = 'model.layers.00.mlp.experts.000.shared.down_proj.weight_scale.';

/** As many tensors as a checkpoint may have at least. */
export const LARGE_CHECKPOINT_SIZE = 60_000;

/** A checkpoint with them, in the words of torch, each in its own memo numbers. */
export function largeCheckpoint(): Buffer {
  const put = (i: number, part: number): string => `r${uint32(7 + i * 7 + part)}`;
  const tensor = (i: number): string =>
    `${text(LONG_NAME + i.toString(36))}${put(i, 0)}h\0((h\x02K\0t${put(i, 1)}0h\x01K\0K\x06\x85` +
    `${put(i, 2)}K\x01\x85${put(i, 3)}\x89h\x06)R${put(i, 4)}t${put(i, 5)}R${put(i, 6)}s`;
  const head = `${HEAD}ccollections\nOrderedDict\nq\x060}`;
  return checkpoint(repeated(head, LARGE_CHECKPOINT_SIZE, tensor, ''));
}

/** The files by what is hostile about them. */
export const HOSTILE_FILES: Readonly<Record<string, () => Buffer>> = {
  'one tensor under many names': () => dict(1_300_000, 'h\x05'),
  'many tensors': () => dict(300_000, TENSOR),
  'expanded tensors of many dimensions': () =>
    dict(
      300_000,
      SHAPED,
      `${HEAD}(${'K\x01'.repeat(60)}${'K\x02'.repeat(4)}tq\x060(${'K\0'.repeat(64)}tq\x070`,
    ),
  'short keys of many dicts within each other': () => deep(480, '', 100_000),
  'long keys of many dicts within each other': () => deep(190, 'k'.repeat(255), 4000),
  'keys that take long to compare': () =>
    checkpoint(
      repeated(
        `${HEAD}C\xff${'\xff'.repeat(255)}q\x060(${'h\x06'.repeat(13)}tq\x070}`,
        380_000,
        (i) => `h\x07J${uint32(i)}\x86h\x05s`,
        '',
      ),
    ),
  'large numbers as keys': () =>
    checkpoint(
      repeated(
        `${HEAD}G\x7f\xe0\0\0\0\0\0\0q\x060(${'h\x06'.repeat(15)}tq\x070}`,
        380_000,
        () => 'h\x07Ns',
        '',
      ),
    ),
  'dicts of nothing': () => dict(1_300_000, 'N'),
  'empty tuples': () => list(2_000_000, ')'),
  'empty sets': () => list(2_000_000, '\x8f'),
  'empty bytes': () => list(900_000, 'C\0'),
  'tuples of numbers': () => list(1_000_000, 'G\x3f\xf0\0\0\0\0\0\x01\x85'),
  'texts of wide characters': () => list(225_000, `\x8c\x66${'\xc4\x80'.repeat(51)}`),
  'integers of 255 bytes': () => dict(80_000, `\x8a\xff${'\x7f'.repeat(255)}`),
  'many calls with many arguments': () =>
    passing(
      20_000,
      'h\x06h\x07R0',
      `ctorch._utils\n_rebuild_sparse_tensor\nq\x060(${'N'.repeat(1_000_000)}tq\x070`,
    ),
  'one value under many memo numbers': () => passing(9_900_000, '\x94', ')'),
  'one global named again and again': () => passing(1_400_000, 'ctorch\nfloat32\n0'),
  'globals that are all different': () => list(900_000, (i) => `cm\n${i.toString(36)}\n`),
  'an opcode that does nothing': () => passing(11 * MIB, 'N0'),
  'one long line': () =>
    Buffer.concat([Buffer.from('\x80\x02cposix\n', 'latin1'), Buffer.alloc(64 * MIB, 'x')]),
  'pickles one after the other': () => Buffer.alloc(64 * MIB, Buffer.from('\x80\x02N.', 'latin1')),
  'as many entries as an archive without extensions has': () =>
    manyEntries(65_000, (index) => `m/data/${index}`, Buffer.alloc(0)),
  'as many arrays as an archive may have': () => manyArrays(40_000),
  'arrays with headers as long as all may be together': () =>
    manyEntries(40_000, (index) => `a${index}.npy`, paddedArray(244, 4)),
  'deflated arrays with longer headers than they may have': () =>
    deflatedArrays(paddedArray(9000, 4)),
  'arrays of which the first deflated bytes become many': () =>
    deflatedArrays(paddedArray(230, 400_000, new Random(3, 0))),
  'deflated entries that become many bytes and break': () =>
    manyEntries(40_000, (index) => `a${index}`, Buffer.alloc(400_000), brokenDeflated(400_000)),
  'entries over the same deflated bytes, which become nothing': () =>
    manyEntries(10_000, (index) => `a${index}`, Buffer.from('a'), deflatedNothing(4 * MIB), 1),
  'arrays over the same deflated bytes': () => {
    const array = npy(headerOf('|u1', `(${16 * MIB},)`), Buffer.alloc(16 * MIB));
    return manyEntries(9000, (index) => `a${index}.npy`, array, deflateRawSync(array), 1);
  },
  'shapes of numbers as long as they may be': () => {
    const shape = `(${`\x8a\xff${'\x7f'.repeat(255)}`.repeat(64)}tq\x06h\x06`;
    return dict(1400, `h\0(h\x01K\0${shape}\x89h\x04tR`);
  },
  'one absurd shape of many tensors': () =>
    dict(90_000, SHAPED, `${HEAD}(${`\x8a\x08${'\xff'.repeat(7)}\x7f`.repeat(64)}tq\x06q\x070`),
  'as many tensors as are left out': () =>
    dict(
      26_000,
      'h\x06(h\x07))\x89tR',
      `${HEAD}ctorch._utils\n_rebuild_meta_tensor_no_storage\nq\x060ctorch\nfloat32\nq\x070`,
    ),
  'too many tensors to be left out': () =>
    dict(
      300_000,
      'h\x06(h\x07))\x89tR',
      `${HEAD}ctorch._utils\n_rebuild_meta_tensor_no_storage\nq\x060ctorch\nfloat32\nq\x070`,
    ),
  'one state of many tensors': () =>
    dict(100_000, 'h\x06(h\x05\x89h\x04h\x07tR', withState(250, 'N')),
  'many states, each with a long list of its own tensors': () =>
    dict(
      60_000,
      `h\x06(h\x05\x89h\x04}${shortText('m')}h\x08stR`,
      `${withState(1, 'N')}](${'h\x04'.repeat(200_000)}h\x05eq\x080`,
    ),
  'two names of every tensor in many dicts within each other': () => {
    const key = 'k'.repeat(100);
    const inner = `}${shortText('a.b')}h\x05s${shortText('a')}}${shortText('b')}h\x05ss`;
    const nested = `${`}${shortText(key)}`.repeat(100)}](${inner.repeat(200)}e${'s'.repeat(100)}`;
    return checkpoint(repeated(HEAD, 1, () => nested, ''));
  },
};

/** An `.npz` of arrays of three numbers. */
export function manyArrays(count: number): Buffer {
  const data = npy(headerOf('<f4', '(3,)'), Buffer.alloc(12));
  return manyEntries(count, (index) => `a${index}.npy`, data);
}

/** An array of so many bytes, with blanks in its header: all alike, or in no order. */
function paddedArray(headerByteLength: number, byteLength: number, random?: Random): Buffer {
  let header = headerOf('<f4', `(${byteLength / 4},)`);
  while (header.length < headerByteLength) header += random?.pick([' ', '\t']) ?? ' ';
  return npy(header, Buffer.alloc(byteLength));
}

function deflatedArrays(array: Buffer): Buffer {
  return manyEntries(40_000, (index) => `a${index}.npy`, array, deflateRawSync(array));
}

/** Zeros as they are deflated, and then a block of a type that does not exist. */
function brokenDeflated(byteLength: number): Buffer {
  const options = { finishFlush: constants.Z_SYNC_FLUSH };
  return Buffer.concat([deflateRawSync(Buffer.alloc(byteLength), options), Buffer.from([7])]);
}

/** A letter as deflate writes it, behind blocks of no bytes. */
function deflatedNothing(blockCount: number): Buffer {
  const nothing = Buffer.alloc(5 * blockCount, '000000ffff', 'hex');
  return Buffer.concat([nothing, deflateRawSync(Buffer.from('a'))]);
}

/**
 * An archive of entries that all have these bytes, stored or as they were deflated. The bytes are there so many times:
 * further entries begin where the last of them does.
 */
function manyEntries(
  count: number,
  name: (index: number) => string,
  data: Buffer,
  deflated?: Buffer,
  copies = count,
): Buffer {
  const stored = deflated ?? data;
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50);
  local.writeUInt16LE(deflated === undefined ? 0 : 8, 8);
  local.writeUInt32LE(crc32(data), 14);
  local.writeUInt32LE(stored.length, 18);
  local.writeUInt32LE(data.length, 22);
  const entries: Buffer[] = [];
  const directory: Buffer[] = [];
  let position = 0;
  let last = 0;
  for (let index = 0; index < count; index++) {
    const nameBytes = Buffer.from(name(index));
    const header = Buffer.from(local);
    header.writeUInt16LE(nameBytes.length, 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50);
    // The version that is needed, flags, method, time, checksum, lengths.
    header.copy(central, 6, 4, 30);
    if (index < copies) {
      last = position;
      entries.push(header, nameBytes, stored);
      position += header.length + nameBytes.length + stored.length;
    }
    central.writeUInt32LE(last, 42);
    directory.push(central, nameBytes);
  }
  const end = Buffer.alloc(22);
  const directoryBytes = Buffer.concat(directory);
  end.writeUInt32LE(0x06054b50);
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(directoryBytes.length, 12);
  end.writeUInt32LE(position, 16);
  return Buffer.concat([...entries, directoryBytes, end]);
}
