import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  FETCHED_PIECE_BYTE_LENGTH,
  planPieces,
  type RequestedCopy,
} from '../../src/remote/fetch-plan.js';
import { gather } from '../../src/tensor/gather.js';
import { planSlice } from '../../src/tensor/slice.js';
import { countedFile } from '../support/counted-source.js';
import { naivePositions, shapeAndIndex } from '../tensor/slice-oracle.js';

const FILE = countedFile(new Uint8Array(0)).file('model.safetensors');

/** A wanted run of bytes. */
function run(begin: number, end: number, file = FILE): RequestedCopy {
  const byteLength = end - begin;
  const copy = { byteLength, byteOffset: begin, runByteLength: byteLength, loops: [] };
  return { file, copy, memory: { tensor: 't', bytes: new Uint8Array(0) } };
}

function rangesOf(wanted: readonly RequestedCopy[], maxGap: number): number[][] {
  return Array.from(planPieces(wanted, maxGap), ({ begin, end }) => [begin, end]);
}

describe('planPieces', () => {
  it('joins what is at most a gap apart, and nothing that is further', () => {
    expect(rangesOf([run(0, 10), run(20, 30)], 10)).toEqual([[0, 30]]);
    expect(rangesOf([run(0, 10), run(20, 30)], 9)).toEqual([
      [0, 10],
      [20, 30],
    ]);
    expect(rangesOf([run(20, 30), run(0, 10)], 10)).toEqual([[0, 30]]);
  });

  it('joins nothing of different files, and leaves out what is empty', () => {
    const other = countedFile(new Uint8Array(0)).file('other');
    expect(rangesOf([run(0, 10), run(10, 10), run(10, 20, other)], 10)).toEqual([
      [0, 10],
      [10, 20],
    ]);
    expect(rangesOf([run(5, 5)], 10)).toEqual([]);
  });

  it('cuts long runs, and fills pieces with the beginning of the next run', () => {
    const long = 2 * FETCHED_PIECE_BYTE_LENGTH;
    expect(rangesOf([run(0, 10), run(10, long), run(long, long + 5)], 0)).toEqual([
      [0, FETCHED_PIECE_BYTE_LENGTH],
      [FETCHED_PIECE_BYTE_LENGTH, long],
      [long, long + 5],
    ]);
  });

  it('gives every byte of a slice once, and none further than the gap from another', () => {
    const wanted = fc.tuple(shapeAndIndex(5), fc.nat(12));
    fc.assert(
      fc.property(wanted, ([[shape, index], maxGap]) => {
        const plan = planSlice(shape, index, 8);
        const source = Uint8Array.from({ length: naivePositions(shape, []).length }, (_, i) => i);
        const memory = { tensor: 't', bytes: new Uint8Array(plan.byteLength) };
        const expected = new Uint8Array(plan.byteLength);
        gather(plan, source, 0, expected);
        const positions = naivePositions(shape, index);
        let written = 0;
        for (const { begin, end, parts } of planPieces(
          [{ file: FILE, copy: plan, memory }],
          maxGap,
        )) {
          const inside = positions.filter((at) => begin <= at && at < end).sort((a, b) => a - b);
          expect([inside[0], inside.at(-1)]).toEqual([begin, end - 1]);
          for (const [i, at] of inside.slice(1).entries()) {
            expect(at - (inside[i] as number) - 1).toBeLessThanOrEqual(maxGap);
          }
          const bytes = source.slice(begin, end);
          for (const { copy, targetByteOffset } of parts) {
            gather(copy, bytes, begin, memory.bytes, targetByteOffset);
            written += copy.byteLength;
          }
        }
        expect(memory.bytes).toEqual(expected);
        expect(written).toBe(plan.byteLength);
      }),
      { numRuns: 1000 },
    );
  });
});
