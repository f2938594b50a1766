import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SafetensorsError } from '../../src/errors/errors.js';
import type { Dtype } from '../../src/format/dtype.js';
import { planSharing, type SharedMode } from '../../src/shards/shared-tensors.js';
import { view } from './sharding-cases.js';

const REFUSAL = expect.objectContaining({ code: 'SAFETENSORS_SHARED_TENSORS' });

describe('mode dedupe', () => {
  it('keeps the smallest name of equal tensors, records the others', () => {
    const tensors = [
      view('c', 0, 12),
      view('x', 0, 12, { storage: 'T' }),
      view('a', 0, 12),
      view('b', 0, 12),
    ];
    expect(planSharing(tensors, 'dedupe')).toEqual({
      kept: ['x', 'a'],
      dropped: new Map([
        ['b', 'a'],
        ['c', 'a'],
      ]),
      overlaps: [],
      disjoint: [],
    });
  });

  it('goes by code points, by preference first', () => {
    const tensors = ['😀', '\uff21', 'z'].map((name) => view(name, 0, 12));
    const keptOf = (preferred: string[], discard: string[]): string[] =>
      planSharing(tensors, 'dedupe', {
        preferredNames: new Set(preferred),
        discardNames: new Set(discard),
      }).kept;
    expect(keptOf([], [])).toEqual(['z']);
    expect(keptOf([], ['z'])).toEqual(['\uff21']);
    expect(keptOf([], ['z', '\uff21', '😀', 'no'])).toEqual(['z']);
    expect(keptOf(['😀', 'no'], ['😀'])).toEqual(['😀']);
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
    expect(plan.kept).toHaveLength(others.length);
    expect(plan.overlaps).toEqual([['F32', 'I32', 'later', 'less', 'shape', 'transpose']]);
  });

  it('reports what is written twice, and what only lies in one memory', () => {
    const parts = [view('q', 0, 4), view('k', 4, 8), view('v', 8, 12)];
    expect(planSharing(parts, 'dedupe')).toEqual({
      kept: ['q', 'k', 'v'],
      dropped: new Map(),
      overlaps: [],
      disjoint: [['k', 'q', 'v']],
    });
    const whole = planSharing([...parts, view('qkv', 0, 12), view('q2', 0, 4)], 'dedupe');
    expect([...whole.dropped]).toEqual([['q2', 'q']]);
    expect(whole.overlaps).toEqual([['k', 'q', 'qkv', 'v']]);
    expect(whole.disjoint).toEqual([]);
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
    expect(plan.disjoint).toEqual([['behind', 'inside', 'left']]);
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
      const { kept, overlaps, disjoint } = planSharing(tensors, mode);
      expect(kept).toEqual(['a', 'b', 'c', 'd', 'e']);
      expect([overlaps, disjoint]).toEqual([[], []]);
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
        const { kept, dropped, overlaps } = planSharing(tensors, 'dedupe');
        const isEqual = (i: number, j: number): boolean =>
          facts[i]?.length !== 0 && JSON.stringify(facts[i]) === JSON.stringify(facts[j]);
        for (let i = 0; i < facts.length; i++) {
          const least = facts.findIndex((_, j) => j === i || isEqual(j, i));
          expect(dropped.get(String(i))).toBe(least === i ? undefined : String(least));
          expect(kept.includes(String(i))).toBe(least === i);
        }
        const touches = (a: number, b: number): boolean => {
          const [x, y] = [facts[a], facts[b]];
          if (x === undefined || y === undefined || x.storage !== y.storage) return false;
          return Math.max(x.first, y.first) < Math.min(x.first + x.length, y.first + y.length);
        };
        const overlapping = kept.filter((a) =>
          kept.some((b) => a !== b && touches(Number(a), Number(b))),
        );
        expect(overlaps.flat().toSorted()).toEqual(overlapping.toSorted());
      }),
      { numRuns: 300 },
    );
  });
});

describe('mode error', () => {
  it('takes what only lies in one memory', () => {
    const parts = [view('q', 0, 4), view('k', 4, 8)];
    expect(planSharing(parts, 'error')).toEqual({
      kept: ['q', 'k'],
      dropped: new Map(),
      overlaps: [],
      disjoint: [],
    });
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

describe('planSharing', () => {
  it('writes all names of a memory with copy', () => {
    const tensors = [view('b', 0, 12), view('a', 0, 12), view('c', 3, 5)];
    expect(planSharing(tensors, 'copy')).toEqual({
      kept: ['b', 'a', 'c'],
      dropped: new Map(),
      overlaps: [],
      disjoint: [],
    });
  });

  it('keeps names that objects treat in their own way', () => {
    const tensors = ['__proto__', '10', 'constructor'].map((name) => view(name, 0, 12));
    const { kept, dropped } = planSharing(tensors, 'dedupe');
    expect(kept).toEqual(['10']);
    expect([...dropped]).toEqual([
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
    'with %s goes through 100 000 tensors of one memory',
    (mode) => {
      const count = 100_000;
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
          return planSharing(tensors, mode).kept.length;
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
