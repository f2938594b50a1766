/** NumPy arrays made from a grammar, with a wrong part now and then. */

import type { Random } from '../support/random.js';
import type { ArchiveFile } from './generated-archive.js';

/** Types of items, and their lengths in bytes. */
const TYPES: readonly (readonly [descr: string, itemByteLength: number])[] = [
  ['<f4', 4],
  ['<f8', 8],
  ['<f2', 2],
  ['>f4', 4],
  ['>i2', 2],
  ['<i8', 8],
  ['|i1', 1],
  ['|u1', 1],
  ['<u4', 4],
  ['|b1', 1],
  ['<c8', 8],
  ['>c8', 8],
  ['=f4', 4],
  ['|V2', 2],
  ['<c16', 16],
  ['|O', 8],
  ['<U2', 8],
  ['|S3', 3],
  ['<M8[s]', 8],
  ['f4', 4],
  ['|f4', 4],
  ['<f3', 3],
  ['<i16', 16],
  ['<b1', 1],
  ['|b4', 4],
];

/** Texts that stand where a header has others. */
const ODDITIES: readonly string[] = [
  '',
  ' ',
  ',',
  "'",
  '(',
  ')',
  '}',
  'None',
  'True',
  'L',
  '-1',
  '1e3',
  '0x10',
  '1_000',
  '007',
  '99999999999999999999',
  '9223372036854775807',
  '"<f4"',
  "b'<f4'",
  "'<f4' 'x'",
  "'\\x3cf4'",
  '(2,)*3',
  '[2, 3]',
  '(2, 3',
  '(2 3)',
  '(,)',
  '(True,)',
  "[('a', '<f4')]",
  '\u0000',
  '\u00e9',
  '#',
  "'descr': '<f8',",
];

/** The bytes of one `.npy` array. */
export function makeArray(random: Random): Buffer {
  const [descr, itemByteLength] = random.pick(random.chance(0.75) ? TYPES.slice(0, 13) : TYPES);
  const shape = Array.from({ length: random.pick([0, 1, 1, 2, 2, 3, 5]) }, () => random.below(5));
  const count = shape.reduce((product, size) => product * size, 1);
  let header = headerOf(descr, shape, random);
  if (random.chance(0.35)) header = changeHeader(header, random);
  const version = random.chance(0.05) ? random.below(256) : random.pick([1, 1, 1, 2, 3]);
  const isWide = version !== 1;
  const start = 8 + (isWide ? 4 : 2);
  const padding = (64 - ((start + header.length + 1) % 64)) % 64;
  const text = Buffer.from(`${header}${' '.repeat(padding)}\n`, version === 3 ? 'utf8' : 'latin1');
  const length = random.chance(0.03) ? random.number(text.length) : text.length;
  const head = Buffer.alloc(start);
  head.write('\x93NUMPY', 'latin1');
  head.writeUInt8(version, 6);
  head.writeUInt8(random.chance(0.02) ? random.below(256) : 0, 7);
  if (isWide) head.writeUInt32LE(length, 8);
  else head.writeUInt16LE(length & 0xffff, 8);
  const lie = random.chance(0.05) ? random.from(-2, 2) : 0;
  const body = random.bytes(Math.max(0, count * itemByteLength + lie));
  if (descr.endsWith('b1')) for (let i = 0; i < body.length; i++) (body[i] as number) &= 1;
  return Buffer.concat([head, text, body]);
}

function headerOf(descr: string, shape: readonly number[], random: Random): string {
  const long = random.chance(0.05) ? 'L' : '';
  const sizes = shape.map((size) => `${size}${long}`);
  const tuple = sizes.length === 1 ? `(${sizes[0]},)` : `(${sizes.join(', ')})`;
  const pairs = [
    `'descr': '${descr}'`,
    `'fortran_order': ${random.pick(['False', 'False', 'True'])}`,
    `'shape': ${tuple}`,
  ];
  if (random.chance(0.1)) pairs.push(pairs.shift() ?? '');
  if (random.chance(0.03)) pairs.push(random.pick(pairs));
  if (random.chance(0.03)) pairs.pop();
  return `{${pairs.join(', ')}${random.pick([', ', '', ','])}}`;
}

function changeHeader(header: string, random: Random): string {
  const at = random.below(header.length + 1);
  const end = Math.min(header.length, at + random.below(5));
  const pieces = header.split(/(?<=[ :,{}()])|(?=[ :,{}()])/);
  return random.do(
    () => header.slice(0, at) + random.pick(ODDITIES) + header.slice(at),
    () => header.slice(0, at) + random.pick(ODDITIES) + header.slice(end),
    () => header.slice(0, at) + header.slice(end),
    () => {
      pieces.splice(random.below(pieces.length), 1, random.pick(ODDITIES));
      return pieces.join('');
    },
    () => {
      pieces.splice(random.below(pieces.length), 0, random.pick(pieces));
      return pieces.join('');
    },
    () => header.replaceAll("'", '"'),
    () => header.replaceAll(' ', random.pick(['', '\t', '\n', '\f', '\v', '\u00a0', '#\n'])),
    () => `${header}${' '.repeat(random.pick([100, 12_000]))}`,
  );
}

/** The members of an `.npz` archive. */
export function makeArrays(random: Random): ArchiveFile[] {
  const isDeflated = random.chance(0.4);
  return Array.from({ length: random.below(5) }, (_, index) => ({
    name: random.chance(0.9)
      ? `a${index}.npy`
      : random.pick(['a0.npy', 'a0', 'x/y.npy', '.npy', 'x']),
    data: random.chance(0.95) ? makeArray(random) : random.bytes(20),
    isDeflated: random.chance(0.1) ? !isDeflated : isDeflated,
  }));
}
