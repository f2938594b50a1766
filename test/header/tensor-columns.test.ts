/** Short headers share memory, one after the other, and must not see each other's tensors. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Header, scanHeader } from '../../src/header/header.js';
import { mostTensors, TensorColumns } from '../../src/header/tensor-columns.js';
import { runSync, type Work } from '../../src/work/work.js';
import { thrownBy } from './header-files.js';

/** More tensors than this keep the memory that their header was read into: a quarter of its rows. */
const KEPT = 1500;

/** The scanner at the start of a header of so many tensors, the last of which stands first. */
function begin(count: number, end = '}'): Work<Header> {
  const tensors = Array.from({ length: count }, (_, i) => {
    const place = count - 1 - i;
    const offsets = `[${place * count},${(place + 1) * count}]`;
    return `"${count}.${place}":{"dtype":"U8","shape":[${count}],"data_offsets":${offsets}}`;
  });
  const json = new TextEncoder().encode(`{${tensors.join()}${end}`);
  return scanHeader(json, count * count, {});
}

/** Fails unless a header still describes its tensors as it did at first. */
function expectOwn(header: Header, count: number): void {
  expect(header.size).toBe(count);
  const found: unknown[] = [];
  const expected: unknown[] = [];
  for (let entry = 0; entry < count; entry++) {
    const name = `${count}.${entry}`;
    const dimensions = header.shape(entry).join();
    found.push(
      header.name(entry),
      header.find(name),
      dimensions,
      header.begin(entry),
      header.end(entry),
    );
    expected.push(name, entry, `${count}`, entry * count, (entry + 1) * count);
  }
  expect(found).toEqual(expected);
}

describe('headers', () => {
  test('stay as they are while others are read', () => {
    const counts = [3, KEPT, 2, KEPT + 1, 300, 6000, 1, 4];
    const headers = counts.map((count) => runSync(begin(count)));
    for (const [i, count] of counts.entries()) expectOwn(headers[i] as Header, count);
  });

  test('can be read in turns', () => {
    const counts = [700, 600, KEPT, 5, 650];
    const under = new Map(counts.map((count) => [count, begin(count)]));
    const found = new Map<number, Header>();
    let turns = 0;
    for (; under.size > 0; turns++) {
      for (const [count, work] of under) {
        const next = work.next();
        if (next.done !== true) continue;
        found.set(count, next.value);
        under.delete(count);
      }
    }
    expect(turns).toBeGreaterThan(5);
    for (const count of counts) expectOwn(found.get(count) as Header, count);
  });

  test('do not see what is left of one that is bad, or that nobody has read to its end', () => {
    const first = runSync(begin(600));
    expect(thrownBy(() => runSync(begin(900, '')))).toMatchObject({
      code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
    });
    const unfinished = begin(800);
    unfinished.next();
    const second = runSync(begin(2));
    unfinished.return(first);
    const third = runSync(begin(601));
    expectOwn(first, 600);
    expectOwn(second, 2);
    expectOwn(third, 601);
  });
});

describe('tensors', () => {
  /** Columns whose rows have these offsets, as [begin, end], and their numbers as places of names. */
  function columnsOf(offsets: readonly (readonly [bigint, bigint])[]): TensorColumns {
    const columns = TensorColumns.forHeader(1000);
    for (const [i, [begin, end]] of offsets.entries()) {
      columns.nameAt[i] = i;
      columns.kind[i] = i & 0xff;
      columns.shapeAt[i] = columns.nameHash[i] = i * 1000;
      columns.beginHigh[i] = Number(begin >> 32n);
      columns.beginLow[i] = Number(begin & 0xffffffffn);
      columns.endHigh[i] = Number(end >> 32n);
      columns.endLow[i] = Number(end & 0xffffffffn);
    }
    columns.size = offsets.length;
    return columns;
  }

  /** Offsets that differ in any of their four digits of 16 bits, or in none. */
  const words = [0n, 1n, 0xffffn, 0x10000n, 0x7fffffffn, 0x80000000n, 0xffffffffn];
  const offset = fc
    .tuple(fc.constantFrom(...words), fc.constantFrom(...words))
    .map(([high, low]) => (high << 32n) | low);

  test('are sorted by their offsets, all 64 bits of them; equal ones keep their order', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(offset, offset), { maxLength: 8 }), (offsets) => {
        const columns = columnsOf(offsets);
        runSync(columns.sortByOffsets());
        const expected = offsets
          .map(([begin, end], i) => ({ begin, end, i }))
          .sort((a, b) => Number(a.begin - b.begin) || Number(a.end - b.end) || a.i - b.i);
        const order = expected.map(({ i }) => i);
        expect([...columns.nameAt.subarray(0, columns.size)]).toEqual(order);
        expect([...columns.kind.subarray(0, columns.size)]).toEqual(order);
        for (const column of [columns.nameHash, columns.shapeAt]) {
          expect([...column.subarray(0, columns.size)]).toEqual(order.map((i) => i * 1000));
        }
        expect(order.map((_, row) => [columns.begin(row), columns.end(row)])).toEqual(
          expected.map(({ begin, end }) => [Number(begin), Number(end)]),
        );
      }),
      { numRuns: 200 },
    );
  });

  test('that lie in order already are left alone, in a single step', () => {
    const high = 2n ** 33n;
    const offsets = [
      ...[
        [0n, 0n],
        [0n, 1n],
        [0n, high],
        [1n, 1n],
        [1n, high],
        [1n, high + 1n],
      ],
      ...[
        [high, 0n],
        [high, 0n],
        [high + 1n, 0n],
      ],
    ] as [bigint, bigint][];
    expect(columnsOf(offsets).sortByOffsets().next().done).toBe(true);
    for (let i = 1; i < offsets.length; i++) {
      const swapped = offsets.with(i - 1, offsets[i] as [bigint, bigint]);
      const before = offsets[i - 1] as [bigint, bigint];
      const isSame = `${before}` === `${offsets[i]}`;
      const work = columnsOf(swapped.with(i, before)).sortByOffsets();
      expect(work.next().done, `${i}`).toBe(isSame);
    }
  });
});

describe('memory', () => {
  const SHORT = 256 * 1024;
  /** Room for 8000 rows. */
  const LONG = 399_950;

  test('of which three quarters or less are left is kept', () => {
    for (const [byteLength, size] of [
      [SHORT, 1311],
      [LONG, 2000],
      [LONG, 8000],
    ] as const) {
      const columns = TensorColumns.forHeader(byteLength);
      columns.size = size;
      expect(columns.keep()).toBe(columns);
    }
  });

  test.each([1310, 1060, 1, 0])(
    'of which more are left is used again, for %i rows a copy is kept',
    (size) => {
      const columns = TensorColumns.forHeader(SHORT);
      columns.size = size;
      columns.endLow.fill(7);
      const kept = columns.keep();
      expect(kept).not.toBe(columns);
      expect([kept.size, kept.endLow.length, kept.endLow.every((end) => end === 7)]).toEqual([
        size,
        size,
        true,
      ]);
      expect(TensorColumns.forHeader(10)).toBe(columns);
      expect(TensorColumns.forHeader(10)).not.toBe(columns);
    },
  );

  test('of a long header is not used for others', () => {
    const columns = TensorColumns.forHeader(LONG);
    expect(columns.nameAt.length).toBe(8000);
    columns.size = 1999;
    expect(columns.keep()).not.toBe(columns);
    expect(TensorColumns.forHeader(10)).not.toBe(columns);
    expect(TensorColumns.forHeader(SHORT + 1)).not.toBe(columns);
  });
});

test.each([
  [0, 1],
  [49, 1],
  [50, 2],
  [99, 2],
  [100, 3],
])('a header of %i bytes has %i tensors at most', (byteLength, count) => {
  expect(mostTensors(byteLength)).toBe(count);
});
