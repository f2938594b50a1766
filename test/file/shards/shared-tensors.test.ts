import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SafetensorsError } from '../../../src/errors/errors.js';
import {
  type FirstBy,
  planSharing as planYielding,
  type SharedMode,
  type SharingPlan,
  type TensorMemory,
} from '../../../src/file/shards/shared-tensors.js';
import type { Dtype } from '../../../src/header/dtype.js';
import { runSync } from '../../../src/work/work.js';
import { nightly } from '../../support/nightly.js';
import { findPython, isSkipped, titleWith } from '../../support/python.js';
import {
  askHub,
  type DedupeAnswer,
  type DedupeQuestion,
  shardingCases,
  view,
} from './sharding-cases.js';

const REFUSAL = expect.objectContaining({ code: 'SAFETENSORS_SHARED_TENSORS' });

function planSharing(
  tensors: readonly TensorMemory[],
  mode: SharedMode,
  firstBy?: FirstBy,
): SharingPlan {
  return runSync(planYielding(tensors, mode, firstBy));
}

/** Names that are written, in the order of the tensors. */
function keptOf(tensors: readonly TensorMemory[], mode: SharedMode): string[] {
  const { dropped } = planSharing(tensors, mode);
  return tensors.map(({ name }) => name).filter((name) => !dropped.has(name));
}

describe('mode dedupe', () => {
  it('keeps the smallest name of equal tensors, records the others', () => {
    const tensors = [
      view('c', 0, 12),
      view('x', 0, 12, { storage: 'T' }),
      view('a', 0, 12),
      view('b', 0, 12),
    ];
    expect(planSharing(tensors, 'dedupe')).toEqual({
      dropped: new Map([
        ['b', 'a'],
        ['c', 'a'],
      ]),
      overlaps: [],
    });
  });

  it('keeps the first of equal tensors when it goes by their order', () => {
    const tensors = [view('wte', 0, 12), view('part', 0, 4), view('head', 0, 12)];
    expect(planSharing(tensors, 'dedupe', 'order')).toEqual({
      dropped: new Map([['head', 'wte']]),
      overlaps: [['part', 'wte']],
    });
  });

  it('goes by code points', () => {
    const tensors = ['😀', '\uff21', 'z'].map((name) => view(name, 0, 12));
    expect(keptOf(tensors, 'dedupe')).toEqual(['z']);
    expect(keptOf(tensors.slice(0, 2), 'dedupe')).toEqual(['\uff21']);
  });

  it('knows equal tensors by dtype, shape, place and strides; a single element has no stride', () => {
    const same = [
      view('a', 0, 12, { shape: [1, 12], strides: [5, 1] }),
      view('b', 0, 12, { shape: [1, 12] }),
    ];
    expect([...planSharing(same, 'dedupe').dropped]).toEqual([['b', 'a']]);
    const others = [
      view('F32', 0, 12),
      view('I32', 0, 12, { dtype: 'I32' }),
      view('shape', 0, 12, { shape: [3, 4] }),
      view('transpose', 0, 12, { shape: [3, 4], strides: [1, 3] }),
      view('less', 0, 11),
      view('later', 1, 12),
    ];
    const plan = planSharing(others, 'dedupe');
    expect(plan.dropped.size).toBe(0);
    expect(plan.overlaps).toEqual([['F32', 'I32', 'later', 'less', 'shape', 'transpose']]);
  });

  it('reports what is written twice, but not what only lies in one memory', () => {
    const parts = [view('q', 0, 4), view('k', 4, 8), view('v', 8, 12)];
    expect(planSharing(parts, 'dedupe')).toEqual({
      dropped: new Map(),
      overlaps: [],
    });
    const whole = planSharing([...parts, view('qkv', 0, 12), view('q2', 0, 4)], 'dedupe');
    expect([...whole.dropped]).toEqual([['q2', 'q']]);
    expect(whole.overlaps).toEqual([['k', 'q', 'qkv', 'v']]);
  });

  it('sees the next view behind a short one inside of a long one', () => {
    const tensors = [view('long', 0, 12), view('short', 1, 2), view('next', 4, 6)];
    expect(planSharing(tensors, 'dedupe').overlaps).toEqual([['long', 'next', 'short']]);
  });

  it('counts strides, and the halves of bytes', () => {
    const columns = [
      view('left', 0, 0, { shape: [3], strides: [4] }),
      view('behind', 9, 12),
      view('inside', 8, 9),
    ];
    const plan = planSharing(columns, 'dedupe');
    expect(plan.overlaps).toEqual([['inside', 'left']]);
    const packed = [
      view('a', 0, 0, { dtype: 'F4', shape: [7] }),
      view('b', 0, 0, { dtype: 'U8', byteOffset: 3, shape: [1] }),
    ];
    expect(planSharing(packed, 'dedupe').overlaps).toEqual([['a', 'b']]);
  });

  it('leaves tensors without elements and memory without bytes alone', () => {
    const tensors = [
      view('a', 4, 4),
      view('b', 4, 4),
      view('c', 0, 12),
      view('d', 0, 0, { storage: 'E', storageByteLength: 0 }),
      view('e', 0, 0, { storage: 'E', storageByteLength: 0 }),
    ];
    for (const mode of ['dedupe', 'error', 'copy'] as const) {
      expect(planSharing(tensors, mode)).toEqual({ dropped: new Map(), overlaps: [] });
    }
  });

  it('agrees with a comparison of all pairs', () => {
    const tensor = fc.record({
      storage: fc.constantFrom('S', 'T'),
      first: fc.nat(9),
      length: fc.nat(4),
      dtype: fc.constantFrom<Dtype>('F32', 'I32'),
    });
    fc.assert(
      fc.property(fc.array(tensor, { maxLength: 9 }), (facts) => {
        const tensors = facts.map(({ first, length, dtype, storage }, i) =>
          view(String(i), first, first + length, { dtype, storage, storageByteLength: 64 }),
        );
        const { dropped, overlaps } = planSharing(tensors, 'dedupe');
        const isEqual = (i: number, j: number): boolean =>
          facts[i]?.length !== 0 && JSON.stringify(facts[i]) === JSON.stringify(facts[j]);
        for (let i = 0; i < facts.length; i++) {
          const least = facts.findIndex((_, j) => j === i || isEqual(j, i));
          expect(dropped.get(String(i))).toBe(least === i ? undefined : String(least));
        }
        const touches = (a: number, b: number): boolean => {
          const [x, y] = [facts[a], facts[b]];
          if (x === undefined || y === undefined || x.storage !== y.storage) return false;
          return Math.max(x.first, y.first) < Math.min(x.first + x.length, y.first + y.length);
        };
        const written = Array.from(facts.keys()).filter((i) => !dropped.has(String(i)));
        const overlapping = written
          .filter((a) => written.some((b) => a !== b && touches(a, b)))
          .map(String);
        expect(overlaps.flat().toSorted()).toEqual(overlapping.toSorted());
      }),
      { numRuns: 300 },
    );
  });
});

describe('mode error', () => {
  it('takes what only lies in one memory', () => {
    const parts = [view('q', 0, 4), view('k', 4, 8)];
    expect(planSharing(parts, 'error')).toEqual({ dropped: new Map(), overlaps: [] });
  });

  it('refuses equal tensors and overlaps, with their names in order', () => {
    const tensors = [view('b', 0, 6), view('a', 0, 6), view('d', 7, 9), view('c', 8, 12)];
    expect(() => planSharing(tensors, 'error')).toThrow(
      'tensors share memory: ["a", "b"], ["c", "d"]; ',
    );
    expect(() => planSharing(tensors, 'error')).toThrow(SafetensorsError);
  });

  it('shows few of many names', () => {
    const tensors = Array.from({ length: 1_000 }, (_, i) => view(`t${i}`, i % 12, (i % 12) + 1));
    const caught = (() => {
      try {
        planSharing(tensors, 'error');
      } catch (error) {
        return error as Error;
      }
      return undefined;
    })();
    expect(caught?.message).toContain('"t0", "t108", "t12", "t120", "t132" and 79 more]');
    expect(caught?.message).toContain(' and 7 more;');
    expect(caught?.message.length).toBeLessThan(500);
  });
});

const python = findPython('huggingface_hub', 'torch', 'numpy');

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
  const { dropped } = planSharing(memoriesOf(question), 'python');
  const byKept = new Map<string, string[]>();
  for (const [name, by] of dropped) byKept.set(by, [...(byKept.get(by) ?? []), name]);
  return [...byKept].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

describe('mode python', () => {
  // This package has no option for the name that is kept.
  const cases = shardingCases.dedupe.filter(
    ({ input }) => input.discard_names === undefined && input.preferred_names === undefined,
  );

  it('has the cases of the collection', () => {
    expect(cases.length).toBe(18);
  });

  it.each(cases)('$id: $note', ({ input, hub }) => {
    if (hub.expected !== undefined) expect(askPythonMode(input)).toEqual(hub.expected);
    else if (input.tensors.some(({ dtype }) => dtype === 'C128')) {
      expect(() => askPythonMode(input)).toThrow('dtype of tensor "c" must be one of BOOL, F4, ');
    } else expect(() => askPythonMode(input)).toThrow(REFUSAL);
  });

  it('compares with the end of the view before, not with the farthest', () => {
    const hidden = [view('a', 0, 12), view('b', 1, 2), view('c', 4, 6)];
    expect(() => planSharing(hidden, 'python')).toThrow(
      'no tensor covers the whole of its memory: ["c"]',
    );
    // Of views that begin together the short one comes first, and hides nothing.
    const seen = [view('a', 0, 12), view('b', 0, 2), view('c', 4, 6)];
    expect(keptOf(seen, 'python')).toEqual(['a']);
  });

  it('takes any stride of a dimension with one element', () => {
    const column = view('b', 0, 12, { shape: [3, 1, 4], strides: [4, 9, 1] });
    expect(keptOf([column, view('a', 0, 12)], 'python')).toEqual(['a']);
  });

  it('does not take as many bytes from another place for the whole', () => {
    const spread = view('a', 1, 2, { shape: [12], strides: [0] });
    expect(() => planSharing([spread], 'python')).toThrow(REFUSAL);
  });

  it('passes over memory without bytes, wherever a tensor lies in it', () => {
    const nothing = view('a', 2, 2, { storageByteLength: 0 });
    expect(keptOf([nothing], 'python')).toEqual(['a']);
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
      const questions = fc.sample(question, 3_000);
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

describe('planSharing', () => {
  it('writes all names of a memory with copy', () => {
    const tensors = [view('b', 0, 12), view('a', 0, 12), view('c', 3, 5)];
    expect(planSharing(tensors, 'copy')).toEqual({ dropped: new Map(), overlaps: [] });
  });

  it('keeps names that objects treat in their own way', () => {
    const tensors = ['__proto__', '10', 'constructor'].map((name) => view(name, 0, 12));
    expect([...planSharing(tensors, 'dedupe').dropped]).toEqual([
      ['__proto__', '10'],
      ['constructor', '10'],
    ]);
  });

  it('refuses an unknown mode', () => {
    expect(() => planSharing([], 'dedup' as SharedMode)).toThrow(
      'shared must be one of copy, dedupe, error, python, but is "dedup"',
    );
  });

  it.each(['dedupe', 'python', 'error'] as const)(
    'with %s goes through tens of thousands of tensors of one memory',
    (mode) => {
      const count = nightly(100_000, 30_000);
      const facts = { storageByteLength: 4, byteOffset: 0, shape: [1] };
      const equal = Array.from({ length: count }, (_, i) => view(`t${i}`, 0, 1, facts));
      const apart = Array.from({ length: count }, (_, i) =>
        view(`t${i}`, i, i + 1, { storageByteLength: 4 * count }),
      );
      const nested = Array.from({ length: count }, (_, i) =>
        view(`t${i}`, 0, i + 1, { storageByteLength: 4 * count }),
      );
      const keptCounts = [equal, apart, nested].map((tensors) => {
        try {
          return count - planSharing(tensors, mode).dropped.size;
        } catch (error) {
          expect(error).toEqual(REFUSAL);
          return null;
        }
      });
      const expected = {
        dedupe: [1, count, count],
        python: [1, null, 1],
        error: [null, count, null],
      };
      expect(keptCounts).toEqual(expected[mode]);
    },
  );
});
