import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cut, merge, type Piece } from '../../src/work/byte-ranges.js';
import { nightly } from '../support/nightly.js';

interface Range {
  readonly position: number;
  readonly byteLength: number;
}

describe('cut', () => {
  test('covers every byte once, in order, by ranges of the length', () => {
    const sizes = fc.nat(1000);
    fc.assert(
      fc.property(sizes, sizes, fc.integer({ min: 1, max: 99 }), (begin, byteLength, length) => {
        const end = begin + byteLength;
        const expected = Array.from({ length: Math.ceil(byteLength / length) }, (_, i) => ({
          begin: begin + i * length,
          end: Math.min(begin + (i + 1) * length, end),
        }));
        expect([...cut(begin, end, length)]).toEqual(expected);
      }),
    );
  });

  test('cuts at multiples from an origin', () => {
    expect([...cut(3, 12, 4, 0)]).toEqual([
      { begin: 3, end: 4 },
      { begin: 4, end: 8 },
      { begin: 8, end: 12 },
    ]);
    expect([...cut(8, 9, 4, 0)]).toEqual([{ begin: 8, end: 9 }]);
    expect([...cut(5, 7, 4, 0)]).toEqual([{ begin: 5, end: 7 }]);
    expect([...cut(5, 5, 4, 0)]).toEqual([]);
    expect([...cut(2 ** 52, 2 ** 52 + 5, 4, 3)]).toEqual([
      { begin: 2 ** 52, end: 2 ** 52 + 3 },
      { begin: 2 ** 52 + 3, end: 2 ** 52 + 5 },
    ]);
  });
});

const ranges = fc.array(fc.record({ position: fc.nat(300), byteLength: fc.nat(40) }), {
  maxLength: 20,
});

/** Where the parts are, in the positions of their ranges. */
function placesOf(pieces: readonly Piece<Range>[]): [begin: number, end: number][] {
  return pieces.flatMap(({ parts }) =>
    parts.map(({ range, begin, end }): [number, number] => [
      range.position + begin,
      range.position + end,
    ]),
  );
}

describe('merge', () => {
  test('keeps the order, every byte of every range, and all limits', () => {
    const limitsOf = fc.record({
      maxByteLength: fc.option(fc.integer({ min: 1, max: 60 }), { nil: undefined }),
      maxGap: fc.option(fc.nat(9), { nil: undefined }),
      maxParts: fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined }),
      unit: fc.constantFrom(1, 3, Number.POSITIVE_INFINITY),
      isSorted: fc.boolean(),
    });
    fc.assert(
      fc.property(ranges, limitsOf, (given, { unit, isSorted, ...limits }) => {
        const all = isSorted ? given.toSorted((a, b) => a.position - b.position) : given;
        const pieces = [...merge<Range>(all, { ...limits, unitOf: () => unit })];
        const { maxByteLength = Infinity, maxGap = 0, maxParts = Infinity } = limits;
        // The parts of every range follow each other, in the order of the ranges.
        const parts = pieces.flatMap((piece) => piece.parts);
        const covered = all.map((range) => {
          let at = 0;
          do {
            const part = parts.shift();
            expect(part?.range).toBe(range);
            expect(part?.begin).toBe(at);
            at = part?.end ?? Number.NaN;
            if (at < range.byteLength) expect(at % unit).toBe(0);
          } while (at < range.byteLength);
          return at;
        });
        expect(covered).toEqual(all.map(({ byteLength }) => byteLength));
        expect(parts).toEqual([]);
        for (const piece of pieces) {
          const places = placesOf([piece]);
          const begin = Math.min(...places.map(([first]) => first));
          const end = Math.max(...places.map(([, last]) => last));
          expect(piece).toMatchObject({ position: begin, byteLength: end - begin });
          expect(piece.parts.length).toBeLessThanOrEqual(maxParts);
          const isWhole = unit > maxByteLength && piece.parts.length === 1;
          if (!isWhole) expect(piece.byteLength).toBeLessThanOrEqual(maxByteLength);
          let [first, last] = places[0] as [number, number];
          for (const [from, to] of places) {
            expect(Math.max(from - last, first - to)).toBeLessThanOrEqual(maxGap);
            [first, last] = [Math.min(first, from), Math.max(last, to)];
          }
        }
      }),
      { numRuns: nightly(2000, 500) },
    );
  });

  test('leaves no two pieces that could be one', () => {
    fc.assert(
      fc.property(ranges, fc.nat(9), (given, maxGap) => {
        const sorted = given.toSorted((a, b) => a.position - b.position);
        const pieces = [...merge(sorted, { maxGap })];
        for (const [i, piece] of pieces.slice(1).entries()) {
          const before = pieces[i] as Piece<Range>;
          expect(piece.position - (before.position + before.byteLength)).toBeGreaterThan(maxGap);
        }
      }),
    );
  });

  test('fills pieces, and cuts where they are full', () => {
    const three = [
      { position: 0, byteLength: 5 },
      { position: 5, byteLength: 5 },
      { position: 12, byteLength: 9 },
    ];
    expect(placesOf([...merge(three, { maxByteLength: 8, maxGap: 2 })])).toEqual([
      [0, 5],
      [5, 8],
      [8, 10],
      [12, 16],
      [16, 21],
    ]);
    const whole = merge(three, { maxByteLength: 8, maxGap: 2, unitOf: () => Infinity });
    expect(placesOf([...whole])).toEqual([
      [0, 5],
      [5, 10],
      [12, 21],
    ]);
  });

  test('asks whether a range may follow a piece', () => {
    const asked: [number, number, number][] = [];
    const joins = (piece: Piece<Range>, range: Range, begin: number): boolean => {
      asked.push([piece.position, range.position, begin]);
      return range.position !== 10;
    };
    const given = [0, 10, 20].map((position) => ({ position, byteLength: 10 }));
    const pieces = [...merge(given, { maxByteLength: 15, joins })];
    expect(pieces.map(({ position, byteLength }) => [position, byteLength])).toEqual([
      [0, 10],
      [10, 15],
      [25, 5],
    ]);
    expect(asked).toEqual([
      [0, 10, 0],
      [10, 20, 0],
      [10, 20, 5],
    ]);
  });

  test('takes one range more than it has given', () => {
    let taken = 0;
    const many = (function* () {
      for (;;) yield { position: 10 * taken++, byteLength: 1 };
    })();
    const pieces = merge(many, {});
    pieces.next();
    expect(taken).toBe(2);
    pieces.next();
    expect(taken).toBe(3);
  });
});
