/** Files of safetensors: the header that is usual and read fast, the scanner, and the reference agree. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type Checkpoint, DTYPES, parse, safeOpen } from 'safetensors-mmap';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import type { PythonAnswer } from '../oracle.js';
import { type Corpus, codeOf, type Place, Problem, type Target } from '../target.js';

/** The contents of a file as comparable text, or the code of its error. */
interface Reading {
  readonly code: string | undefined;
  readonly facts: string;
}

/** Tensors and metadata in the reference's form. */
interface ReferenceReading {
  readonly tensors: readonly (readonly [string, string, readonly number[], string])[];
  readonly metadata: Readonly<Record<string, string>> | null;
}

const WORDS: readonly string[] = [
  ...Object.keys(DTYPES).map((dtype) => `"${dtype}"`),
  '"dtype":', '"shape":', '"data_offsets":', '"__metadata__":{', '"__metadata__":null', ',"x":1', ',"x":1e400',
  '{', '}', '[', ']', '[]', '{}', ',', ':', '"', '\\', '\\u0061', '\\ud83d\\ude00', '\\ud800', '\\"', 'null', 'true',
  ' ', '\n', '\t', '\r', '\v', '\0', '\xef\xbb\xbf', '\xc3\xa9', '\xed\xa0\x80', '\xff', '[0,0]', '[0,1]', '-0',
  '1.7976931348623158e308', '"k":"v"', '"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}',
]; // biome-ignore format: a table

/** Codes of headers that only the reference accepts: the table of docs/internals/design-notes.md. */
const STRICTER: readonly string[] = [
  'SAFETENSORS_INVALID_HEADER_START',
  'SAFETENSORS_DUPLICATE_KEY',
];

function fileOf(header: Buffer, data: Buffer): Buffer {
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(header.length);
  return Buffer.concat([prefix, header, data]);
}

/** Header and data; undefined when the file is no such. */
function partsOf(file: Buffer): [header: Buffer, data: Buffer] | undefined {
  if (file.length < 8 || file.readUInt32LE(4) !== 0) return undefined;
  const end = 8 + file.readUInt32LE();
  return end > file.length ? undefined : [file.subarray(8, end), file.subarray(end)];
}

interface HeaderCase {
  readonly header_text?: string;
  readonly buffer_len?: number;
  readonly bytes_hex?: string;
}

function seeds(): Buffer[] {
  const url = new URL('../../fixtures/header-cases.json', import.meta.url);
  const { cases } = JSON.parse(readFileSync(url, 'utf8')) as { cases: readonly HeaderCase[] };
  return cases.flatMap(({ header_text: text, buffer_len: length = 0, bytes_hex: hex }) => {
    if (hex !== undefined) return hex.length < 20_000 ? [Buffer.from(hex, 'hex')] : [];
    if (text === undefined || text.length > 10_000 || length > 10_000) return [];
    return [fileOf(Buffer.from(text), Buffer.alloc(length, 3))];
  });
}

/** Dimensions whose product is above 2^64 soon; a zero among them says that there are no bytes. */
function vastShape(random: Random): number[] {
  const shape = Array.from({ length: random.from(1, 4) }, () => {
    return random.pick([1, 2 ** 20, 2 ** 31, 2 ** 32, 2 ** 40, Number.MAX_SAFE_INTEGER]);
  });
  return shape.toSpliced(random.below(shape.length + 1), 0, 0);
}

/** Tensors end to end, as writers spell them; now and then a part is spelt otherwise. */
function madeFile(random: Random): Buffer {
  const dtypes = Object.entries(DTYPES);
  let end = 0;
  const odd = random.below(12);
  const tensors = Array.from({ length: random.below(6) }, (_, i) => {
    const [dtype, { bits }] = random.pick(dtypes);
    const shape = random.chance(0.03)
      ? vastShape(random)
      : Array.from({ length: random.below(5) }, () => random.pick([0, 1, 2, 2, 3, 8]));
    if (bits % 8 !== 0) shape.push(4);
    const begin = end;
    end += (shape.reduce((product, n) => product * n, 1) * bits) / 8;
    const name = random.pick([`t${i}`, `model.layers.${i}.weight`, 'a', '', '__proto__', 'é']);
    const offsets = odd === 0 ? [end, begin] : [begin, end + (odd === 1 ? 1 : 0)];
    return `"${name}":{"dtype":"${dtype}","shape":[${shape}],"data_offsets":[${offsets}]}`;
  });
  if (odd === 2) tensors.reverse();
  const metadata = random.chance(0.3) ? [`"__metadata__":{"format":"pt","k":"${odd}"}`] : [];
  const header = `{${[...metadata, ...tensors].join(odd === 3 ? ' , ' : ',')}}${' '.repeat(odd)}`;
  return fileOf(Buffer.from(header), Buffer.alloc(end + (odd === 4 ? 1 : 0), 5));
}

function make(random: Random, corpus: Corpus): Buffer {
  const file = random.chance(0.5) ? madeFile(random) : corpus.pick(random);
  if (random.chance(0.1)) return BYTES.mutate(file, corpus.pick(random), random, WORDS);
  const [header, data] = partsOf(file) ?? [file, Buffer.alloc(0)];
  const [other = file] = partsOf(corpus.pick(random)) ?? [];
  const changed = random.chance(0.1) ? header : BYTES.mutate(header, other, random, WORDS);
  return fileOf(changed, random.chance(0.1) ? Buffer.alloc(random.below(20)) : data);
}

function readingOf(open: () => Checkpoint): Reading {
  try {
    const file = open();
    try {
      file.offsetKeys();
      const tensors = Array.from(file, ([name, { dtype, shape, bytes }]) => {
        const sha256 = createHash('sha256').update(bytes).digest('hex');
        return [name, dtype, shape, sha256];
      });
      for (const name of file.keys()) {
        if (!file.has(name) || file.getTensor(name).name !== name) {
          throw new Problem(`'${name}' is not found`);
        }
        file.info(name);
      }
      return { code: undefined, facts: JSON.stringify([tensors, [...(file.metadata ?? [])]]) };
    } finally {
      file.close();
    }
  } catch (error) {
    return { code: codeOf(error), facts: '' };
  }
}

function compare(what: string, one: Reading, other: Reading): void {
  if (one.code === other.code && one.facts === other.facts) return;
  const shown = ({ code, facts }: Reading): string => code ?? facts;
  throw new Problem(`${what} differ:\n${shown(one)}\n${shown(other)}`);
}

/** Whether docs/internals/design-notes.md lists that the reference accepts what this package rejects with that code. */
function isKnownToBeStricter(code: string, header: Buffer): boolean {
  if (STRICTER.includes(code)) return true;
  if (code === 'SAFETENSORS_VALIDATION_OVERFLOW') return /\d{16}/.test(header.toString('latin1'));
  const values = Object.values(JSON.parse(header.toString()) as Record<string, { dtype: unknown }>);
  return values.some((value) => Array.isArray(value) || typeof value?.dtype === 'object');
}

function isAtLargestNumber(header: Buffer): boolean {
  const numbers = header.toString('latin1').match(/-?\d[\d.]*e\+?\d+/gi) ?? [];
  return numbers.some((text) => Math.abs(Number(text)) === Number.MAX_VALUE);
}

function judge(input: Buffer, here: Reading, { found }: PythonAnswer<ReferenceReading>): void {
  const [header = Buffer.alloc(0)] = partsOf(input) ?? [];
  if (found === undefined) {
    if (here.code === undefined && !isAtLargestNumber(header)) {
      throw new Problem('accepted here, refused by the reference');
    }
    return;
  }
  if (here.code !== undefined) {
    if (isKnownToBeStricter(here.code, header)) return;
    throw new Problem(`${here.code} here, accepted by the reference`);
  }
  const byName = <Item extends readonly [string, ...unknown[]]>(items: readonly Item[]): string =>
    JSON.stringify(items.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const [tensors, metadata] = JSON.parse(here.facts) as [[string], [string, string][]];
  const theirs = [byName(found.tensors), byName(Object.entries(found.metadata ?? {}))];
  const ours = [byName(tensors as never), byName(metadata)];
  if (`${ours}` !== `${theirs}`) throw new Problem(`the reference reads\n${theirs}\nhere\n${ours}`);
}

function check(input: Buffer, place: Place): string {
  const bytes = new Uint8Array(input);
  const here = readingOf(() => parse(bytes));
  const parts = partsOf(input);
  if (parts?.[0][0] === 0x7b) {
    // JSON allows white space there and no writer writes it, so these headers go to the scanner.
    const [header, data] = parts;
    const spaced = Buffer.concat([Buffer.from('{ '), header.subarray(1)]);
    const scanned = readingOf(() => parse(new Uint8Array(fileOf(spaced, data))));
    compare('the usual header and the scanner', here, scanned);
  }
  // Only some inputs are opened as files, since the parser is the same.
  if ((input.at(-1) ?? 0) % 16 === 5) {
    const path = place.file(input);
    compare(
      'memory and file',
      here,
      readingOf(() => safeOpen(path)),
    );
  }
  // Sizes are where readers go wrong, and nothing here but the reference checks them.
  const isVast = /\d{6}/.test(input.toString('latin1'));
  place.ask<ReferenceReading>('header', (answer) => judge(input, here, answer), isVast);
  return here.code ?? 'tensors';
}

export const header: Target = {
  name: 'header',
  about: 'files of safetensors, with the reference; the usual header with the scanner',
  sources: /^header\/(json\/|header|canonical-header|header-parser|header-checks|tensor-columns)/,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 64 * 2 ** 20 },
  batchLength: 1000,
  outcomes: ['tensors', 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION', 'SAFETENSORS_DUPLICATE_KEY'],
  asksPythonOf: 100,
  seeds,
  make,
  check,
};
