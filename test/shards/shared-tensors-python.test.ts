/** The mode `python` of `src/shared-tensors.ts`: the cases, and the same questions asked of Python. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Dtype } from '../../src/format/dtype.js';
import { planSharing } from '../../src/shards/shared-tensors.js';
import type { TensorMemory } from '../../src/shards/tensor-extents.js';
import { findPython, isSkipped, titleWith } from '../support/python.js';
import {
  askHub,
  type DedupeAnswer,
  type DedupeQuestion,
  shardingCases,
  view,
} from './sharding-cases.js';

const python = findPython('huggingface_hub', 'torch', 'numpy');

const REFUSAL = expect.objectContaining({ code: 'SAFETENSORS_SHARED_TENSORS' });

const ITEM_BYTES: Readonly<Record<string, number>> = { F32: 4, I32: 4, F64: 8, U8: 1, C128: 16 };

function memoriesOf({ tensors }: DedupeQuestion): TensorMemory[] {
  return tensors.map((tensor) => ({
    name: tensor.name,
    storage: tensor.storage,
    storageByteLength: tensor.storage_nbytes,
    byteOffset: tensor.storage_offset * (ITEM_BYTES[tensor.dtype] ?? Number.NaN),
    dtype: tensor.dtype as Dtype,
    shape: tensor.shape,
    strides: tensor.stride,
  }));
}

/** Dropped names by kept one, sorted, as Python answers. */
function askPythonMode(question: DedupeQuestion): [string, string[]][] {
  const { kept, dropped } = planSharing(memoriesOf(question), 'python', {
    discardNames: new Set(question.discard_names),
    preferredNames: new Set(question.preferred_names),
  });
  expect(kept).toEqual(question.tensors.map(({ name }) => name).filter((n) => !dropped.has(n)));
  const byKept = new Map<string, string[]>();
  for (const [name, by] of dropped) byKept.set(by, [...(byKept.get(by) ?? []), name]);
  return [...byKept].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

describe('mode python', () => {
  it.each(shardingCases.dedupe)('$id: $note', ({ input, hub }) => {
    if (hub.expected !== undefined) expect(askPythonMode(input)).toEqual(hub.expected);
    else if (input.tensors.some(({ dtype }) => dtype === 'C128')) {
      expect(() => askPythonMode(input)).toThrow('dtype of tensor "c" must be one of DTYPES');
    } else expect(() => askPythonMode(input)).toThrow(REFUSAL);
  });

  it('compares with the end of the view before, not with the farthest', () => {
    const hidden = [view('a', 0, 12), view('b', 1, 2), view('c', 4, 6)];
    expect(() => planSharing(hidden, 'python')).toThrow(
      'no tensor covers the whole of its memory: ["c"]',
    );
    // Of views that begin together the short one comes first, and hides nothing.
    const seen = [view('a', 0, 12), view('b', 0, 2), view('c', 4, 6)];
    expect(planSharing(seen, 'python').kept).toEqual(['a']);
  });

  it('takes any stride of a dimension with one element', () => {
    const column = view('b', 0, 12, { shape: [3, 1, 4], strides: [4, 9, 1] });
    expect(planSharing([column, view('a', 0, 12)], 'python').kept).toEqual(['a']);
  });

  it('does not take as many bytes from another place for the whole', () => {
    const spread = view('a', 1, 2, { shape: [12], strides: [0] });
    expect(() => planSharing([spread], 'python')).toThrow(REFUSAL);
  });

  it('passes over memory without bytes, wherever a tensor lies in it', () => {
    const nothing = view('a', 2, 2, { storageByteLength: 0 });
    expect(planSharing([nothing], 'python').kept).toEqual(['a']);
  });

  it('refuses a tensor beside its transpose, naming it', () => {
    const tensors = [
      view('t', 0, 12, { shape: [3, 4] }),
      view('t.T', 0, 12, { shape: [4, 3], strides: [1, 4] }),
    ];
    expect(() => planSharing(tensors, 'python')).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_SHARED_TENSORS', tensor: 't.T' }),
    );
  });

  it.skipIf(isSkipped(python))(
    titleWith(python, 'drops and refuses what Python does, for random views'),
    { timeout: 60_000 },
    () => {
      const tensor = fc
        .record({
          name: fc.constantFrom('a', 'b', 'c', 'B', 'é', '\uff21', '😀', 'a.1', 'a.10', 'a.2'),
          storage: fc.constantFrom('S', 'S', 'T'),
          dtype: fc.constantFrom('F32', 'F32', 'I32', 'F64', 'U8'),
          storage_offset: fc.constantFrom(0, 0, 0, 1, 2),
          shape: fc.constantFrom<number[]>(
            [12],
            [3, 4],
            [2, 6],
            [6],
            [4],
            [1, 12],
            [0],
            [3, 0],
            [],
            [2, 3],
          ),
          order: fc.constantFrom('C', 'C', 'C', 'F', 'wide', 'still'),
        })
        .map(({ order, ...facts }) => {
          const { shape } = facts;
          let step = 1;
          const sizes = order === 'F' ? shape : shape.toReversed();
          const steps = sizes.map((size) => {
            const own = step;
            step *= Math.max(size, 1);
            return order === 'still' ? 0 : order === 'wide' ? own * 2 : own;
          });
          const stride = order === 'F' ? steps : steps.toReversed();
          return { ...facts, stride, storage_nbytes: facts.storage === 'S' ? 48 : 96 };
        })
        .filter(({ shape, stride, storage_offset, dtype, storage_nbytes }) => {
          const last = shape.reduce((sum, size, i) => sum + (size - 1) * (stride[i] ?? 0), 0);
          return (storage_offset + last + 1) * (ITEM_BYTES[dtype] ?? 0) <= storage_nbytes;
        });
      const question = fc.record({
        tensors: fc.uniqueArray(tensor, {
          selector: ({ name }) => name,
          minLength: 1,
          maxLength: 5,
        }),
      });
      const questions = fc.sample(question, 1_000);
      const answers = askHub<DedupeAnswer>(python, 'dedupe', questions);
      let dropped = 0;
      answers.forEach(({ result, error }, i) => {
        const asked = questions[i] as DedupeQuestion;
        const shown = JSON.stringify(asked);
        if (result === undefined) {
          expect(error, shown).toBe('RuntimeError');
          expect(() => askPythonMode(asked), shown).toThrow(REFUSAL);
        } else {
          expect(askPythonMode(asked), shown).toEqual(result);
          if (result.length > 0) dropped++;
        }
      });
      expect(dropped).toBeGreaterThan(20);
    },
  );
});
