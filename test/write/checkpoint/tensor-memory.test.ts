import { describe, expect, it } from 'vitest';
import type { TensorMemory } from '../../../src/file/shards/shared-tensors.js';
import { planSharing } from '../../../src/file/shards/shared-tensors.js';
import { runSync } from '../../../src/work/work.js';
import { memoryOfEntry } from '../../../src/write/checkpoint/save.js';
import { readTensorsAndStreams } from '../../../src/write/input/tensor-input.js';
import { type Checkpoint, type OpenOptions, parse, safeOpen } from '../../support/api.js';
import { type Entry, fileBytes, writeTemporary } from '../../support/make-file.js';
import type { Tensors } from '../../support/saved-tensors.js';

const ENTRIES: Entry[] = [
  { name: 'a', dtype: 'U8', shape: [4, 2] },
  { name: 'b', dtype: 'U8', shape: [4] },
  { name: 'empty', dtype: 'U8', shape: [0] },
];

function memories(tensors: Tensors): TensorMemory[] {
  return readTensorsAndStreams(tensors).map((entry, i) => memoryOfEntry(entry, tensors[i]?.[1]));
}

function dedupe(tensors: Tensors): { dropped: object; overlaps: string[][] } {
  const { dropped, overlaps } = runSync(planSharing(memories(tensors), 'dedupe'));
  return { dropped: Object.fromEntries(dropped), overlaps };
}

const OPENERS: [string, () => Checkpoint][] = [
  ...(['mmap', 'read'] as const).map((storage): [string, () => Checkpoint] => {
    const options: OpenOptions = { storage };
    return [`a file, storage ${storage}`, () => safeOpen(writeTemporary(ENTRIES), options)];
  }),
  ['parsed bytes', () => parse(fileBytes(ENTRIES))],
];

describe.each(OPENERS)('tensors of %s', (_, openFile) => {
  it.each([false, true])('share with their slices and themselves (used before: %s)', (isUsed) => {
    using file = openFile();
    const a = file.getTensor('a');
    const b = file.getTensor('b');
    if (isUsed) a.bytes;
    const found = dedupe([
      ['a', a],
      ['same', a],
      ['rows', a.slice([1, 3])],
      ['same rows', a.slice([1, 3])],
      ['b', b],
      ['empty', file.getTensor('empty')],
      ['gathered', a.slice(null, 0)],
    ]);
    expect(found).toEqual({
      dropped: { same: 'a', 'same rows': 'rows' },
      overlaps: [['a', 'rows']],
    });
  });

  it('cover their memory, whatever is around it', () => {
    using file = openFile();
    const tensors: Tensors = [
      ['a', file.getTensor('a')],
      ['b', file.getTensor('b')],
    ];
    expect(runSync(planSharing(memories(tensors), 'python')).dropped.size).toBe(0);
    for (const { bytes } of file.getTensors().values()) void bytes;
    expect(runSync(planSharing(memories(tensors), 'python')).dropped.size).toBe(0);
  });
});

it('asks for no memory of a file', () => {
  using file = safeOpen(writeTemporary(ENTRIES));
  const tensors: Tensors = [
    ['a', file.getTensor('a')],
    ['rows', file.getTensor('a').slice([0, 1])],
  ];
  memories(tensors);
  const kinds = readTensorsAndStreams(tensors).map(({ payload }) => payload.kind);
  expect(kinds).toEqual(['file', 'file']);
});

it('sees a tensor of a file and a new one over its buffer', () => {
  using file = safeOpen(writeTemporary(ENTRIES));
  const a = file.getTensor('a');
  const { data, dtype, shape } = a;
  expect(
    dedupe([
      ['a', a],
      ['new', { dtype, shape, data }],
    ]).dropped,
  ).toEqual({ new: 'a' });
});

it('sees typed arrays of one buffer, and never streams', () => {
  const buffer = new ArrayBuffer(16);
  const stream = (): Uint8Array => new Uint8Array(4);
  expect(
    dedupe([
      ['whole', { dtype: 'F32', shape: [4], data: buffer }],
      ['array', { dtype: 'F32', shape: [4], data: new Float32Array(buffer) }],
      ['end', { dtype: 'F32', shape: [1], data: new Float32Array(buffer, 12) }],
      ['one', { dtype: 'U8', shape: [4], data: stream }],
      ['other', { dtype: 'U8', shape: [4], data: stream }],
    ]),
  ).toEqual({ dropped: { whole: 'array' }, overlaps: [['array', 'end']] });
});
