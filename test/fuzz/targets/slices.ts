/**
 * Slices and rows of tensors, against numpy: the same values, or both reject. Packed dtypes, which numpy lacks, against
 * the same slice of numbers.
 */

import { createHash } from 'node:crypto';
import {
  DTYPES,
  parse,
  type SliceIndex,
  type SliceIndices,
  serialize,
  type Tensor,
} from 'safetensors-mmap';
import type { RowIndices } from '../../../src/tensor/rows.js';
import type { Random } from '../../support/random.js';
import type { PythonAnswer } from '../oracle.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';
import { inputOf, TREE, type Tree, treeOf } from '../tree.js';

/** The request to a tensor of U16 that counts from 0: one of the three. */
interface Question {
  readonly shape: readonly number[];
  readonly index?: readonly SliceIndex[];
  readonly text?: string;
  readonly rows?: readonly number[];
}

/** Shape and values. */
interface Answer {
  readonly shape: readonly number[];
  readonly sha256: string;
}

/** Packed elements share bytes: two of 4 bits share one, four of 6 bits share three. */
const PACKED = ['F4', 'F6_E3M2'] as const;

const MISALIGNED = 'SAFETENSORS_MISALIGNED_SLICE';

/** Larger tensors show nothing that smaller ones do not. */
const MAX_ELEMENTS = 4096;

const WORDS: readonly string[] = [
  '...',
  ':',
  '::',
  '::-1',
  ',',
  '1:2',
  '-1',
  '::2',
  ' ',
  '1:',
  ':-2',
  '0',
  '5:1:-2',
];

function makeItem(size: number, random: Random): Tree {
  const bound = (): Tree => (random.chance(0.3) ? null : random.from(-size - 2, size + 2));
  return random.do<Tree[]>(
    () => null,
    () => random.from(-size - 1, size),
    () => [bound(), bound()],
    () => [bound(), bound(), random.pick([1, 2, 3, -1, -2, -7, null])],
  );
}

function make(random: Random, corpus: Corpus): Buffer {
  if (random.chance(0.4))
    return TREE.mutate(corpus.pick(random), corpus.pick(random), random, WORDS);
  const shape = Array.from({ length: random.below(5) }, () => random.pick([0, 1, 2, 3, 4, 5, 8]));
  const items: Tree[] = shape.slice(random.below(2)).map((size) => makeItem(size, random));
  if (random.chance(0.3)) items.splice(random.below(items.length + 1), random.below(3), '...');
  if (random.chance(0.05)) items.push(null);
  return random.do(
    () => inputOf({ shape, index: items }),
    () => inputOf({ shape, text: items.map(textOf).join(random.pick([',', ', '])) }),
    () => {
      const [size = 1] = shape;
      const rows = Array.from({ length: random.below(8) }, () => random.from(-size, size - 1));
      return inputOf({ shape, rows: random.chance(0.1) ? [...rows, size] : rows });
    },
  );
}

function textOf(item: Tree): string {
  if (item === null) return ':';
  return Array.isArray(item) ? item.map((bound) => bound ?? '').join(':') : String(item);
}

function isQuestion(value: unknown): value is Question {
  const { shape, index, text, rows } = Object(value) as Partial<Question>;
  if (!Array.isArray(shape) || shape.length > 8) return false;
  if (!shape.every((size) => Number.isInteger(size) && size >= 0 && size <= MAX_ELEMENTS))
    return false;
  if (shape.reduce((product, size) => product * size, 1) > MAX_ELEMENTS) return false;
  // Of the text, Python sees what is between the brackets: numbers, colons and commas; it calculates nothing.
  if (typeof text === 'string') {
    return /^[\d:,.\s-]*$/.test(text) && !/[\d.-]\s*-|-\s/.test(text) && text.length < 100;
  }
  return Array.isArray(index) || (Array.isArray(rows) && shape.length > 0);
}

function answerOf({ shape, data }: Tensor): Answer {
  const bytes = data as Uint16Array;
  const sha256 = createHash('sha256').update(
    new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength),
  );
  return { shape, sha256: sha256.digest('hex') };
}

/** The code of an error of an argument, or of this package. */
function codeOf(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  if (typeof code === 'string') return code;
  throw error;
}

/** Both ways to slice, and all ways to take. */
function answersOf(tensor: Tensor, { index, text, rows }: Question): (() => Tensor)[] {
  if (rows !== undefined) {
    const typed = Float64Array.from(rows) as unknown as RowIndices;
    const isExact = rows.every((row) => Number.isInteger(row) && Math.abs(row) < 2 ** 31);
    return [
      () => tensor.take(rows as RowIndices),
      () => tensor.take(isExact ? Int32Array.from(rows) : (rows as RowIndices)),
      () => tensor.take(isExact ? BigInt64Array.from(rows, BigInt) : typed),
    ].slice(0, isExact ? 3 : 1);
  }
  const items = (): SliceIndices => (text === undefined ? (index ?? []) : [text]);
  return [
    () => tensor.slice(...items()),
    // A copy has its bytes in order, whatever the slice.
    () => tensor.slice(...items()).copy(),
  ];
}

function judge(here: Answer | string, { found, error }: PythonAnswer<Answer>): void {
  if (typeof here === 'string') {
    if (found === undefined) return;
    throw new Problem(`${here} here, numpy takes ${JSON.stringify(found)}`);
  }
  if (found === undefined)
    throw new Problem(`numpy refuses: ${error}, here ${JSON.stringify(here)}`);
  if (JSON.stringify(here) === JSON.stringify(found)) return;
  throw new Problem(`numpy takes ${JSON.stringify(found)}, here ${JSON.stringify(here)}`);
}

/**
 * Whether the request means the same to Python: a boolean is a mask in numpy, JSON writes 1e21 as a float, `007`,
 * which reads as 7 here, is no Python, and the only index is read as numpy's notation here if it is a text.
 */
function saysTheSame({ index = [], text = '' }: Question): boolean {
  if (/(?<!\d)0+[1-9]/.test(text)) return false;
  if (index.length === 1 && typeof index[0] === 'string') return false;
  return index.flat().every((item) => {
    return typeof item === 'number' ? Math.abs(item) < 1e21 : typeof item !== 'boolean';
  });
}

/** The tensor, or the code of the error. */
function outcomeOf(ask: () => Tensor): Tensor | string {
  try {
    return ask();
  } catch (error) {
    return codeOf(error);
  }
}

/** A run of neighbouring elements: the first, and the one after the last. */
function runsOf(elements: Uint16Array): [first: number, end: number][] {
  const runs: [number, number][] = [];
  for (const element of elements) {
    const last = runs.at(-1);
    if (last?.[1] === element) last[1]++;
    else runs.push([element, element + 1]);
  }
  return runs;
}

/**
 * The numbers that are selected say which elements of a packed tensor are: their bytes, or a refusal when they begin
 * or end within one. Whether rows do depends on the tensor only, not on the selected rows.
 */
function checkPacked(question: Question, count: number, numbers: Tensor | string): void {
  for (const dtype of PACKED) {
    const share = DTYPES[dtype].bits / 8;
    if (!Number.isInteger(count * share)) continue;
    const data = Uint8Array.from({ length: count * share }, (_, i) => 37 * i + 11);
    const { shape } = question;
    const tensor = parse(serialize({ t: { dtype, shape, data } })).getTensor('t');
    const rowLength = count === 0 ? 0 : count / (shape[0] ?? 1);
    const isWhole = question.rows === undefined || Number.isInteger(rowLength * share);
    let expected: Uint8Array | string = isWhole ? String(numbers) : MISALIGNED;
    if (isWhole && typeof numbers !== 'string') {
      const runs = runsOf(numbers.data as Uint16Array).map((run) => run.map((at) => at * share));
      expected = runs.flat().every(Number.isInteger)
        ? Uint8Array.from(runs.flatMap(([first, end]) => [...data.subarray(first, end)]))
        : MISALIGNED;
    }
    for (const ask of answersOf(tensor, question)) {
      const outcome = outcomeOf(ask);
      const found = typeof outcome === 'string' ? outcome : outcome.bytes;
      if (String(found) === String(expected)) continue;
      throw new Problem(`${dtype}: '${expected}' is expected, found '${found}'`);
    }
  }
}

function check(input: Buffer, place: Place): string {
  const question = treeOf(input);
  if (!isQuestion(question)) return 'no question';
  const { shape } = question;
  const count = shape.reduce((product, size) => product * size, 1);
  const data = Uint16Array.from({ length: count }, (_, i) => i);
  const tensor = parse(serialize({ t: { dtype: 'U16', shape, data } })).getTensor('t');
  const outcomes = answersOf(tensor, question).map(outcomeOf);
  const [first = '', ...others] = outcomes.map((outcome) => {
    return typeof outcome === 'string' ? outcome : answerOf(outcome);
  });
  for (const other of others) {
    if (JSON.stringify(other) === JSON.stringify(first)) continue;
    throw new Problem(`one way gives ${JSON.stringify(first)}, another ${JSON.stringify(other)}`);
  }
  checkPacked(question, count, outcomes[0] ?? '');
  // Values that are no index in JavaScript, such as a text, may be one in numpy.
  if (first !== 'ERR_INVALID_ARG_TYPE' && saysTheSame(question)) {
    place.ask<Answer>('slice', (answer) => judge(first, answer));
  }
  return typeof first === 'string' ? first : 'values';
}

export const slices: Target = {
  name: 'slices',
  about: 'slice, of text too, and take, with numpy',
  sources: /^tensor\/(slice|gather|rows|take|storage-range|tensor)$/,
  form: TREE,
  budget: { milliseconds: 1000, byteLength: 64 * 2 ** 20 },
  batchLength: 500,
  outcomes: [
    'values',
    'SAFETENSORS_SLICE_OUT_OF_RANGE',
    'ERR_OUT_OF_RANGE',
    'ERR_INVALID_ARG_TYPE',
  ],
  asksPythonOf: 10,
  seeds: () => [
    inputOf({ shape: [2, 3, 4], index: [0, '...', [null, null, -1]] }),
    inputOf({ shape: [2, 3, 4], text: '1:, ..., ::-2' }),
    inputOf({ shape: [5, 2], rows: [0, -1, 3] }),
  ],
  make,
  check,
};
