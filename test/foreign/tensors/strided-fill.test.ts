/** Every window of a strided tensor has the bytes that a loop over single items gives. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { StridedStorage } from '../../../src/foreign/strided-storage.js';
import { stridedFill as stepFill } from '../../../src/foreign/tensors/strided-fill.js';
import { checkLayout, type TensorLayout } from '../../../src/foreign/tensors/tensor-layout.js';
import type { Fill } from '../../../src/tensor/storage/computed.js';
import { runSync } from '../../../src/work/work.js';
import { nightly } from '../../support/nightly.js';
import { copied, viewed } from '../storages.js';

function layoutOf(
  itemByteLength: number,
  shape: readonly number[],
  strides: readonly number[],
  offset: number,
  held: number,
): TensorLayout {
  const given = { itemByteLength, shape, strides, offset };
  return checkLayout(given, held, {}, 'SAFETENSORS_INVALID_TORCH_CHECKPOINT', {});
}

/** All steps at once. */
function stridedFill(...args: Parameters<typeof stepFill>): Fill {
  const fill = stepFill(...args);
  return (target, position) => runSync(fill(target, position));
}

/** The bytes item by item. */
function itemByItem(bytes: Uint8Array, layout: TensorLayout): Uint8Array {
  const { itemByteLength, shape, strides, offset } = layout;
  const result = new Uint8Array(layout.byteLength);
  let written = 0;
  const visit = (axis: number, at: number): void => {
    if (axis === shape.length) {
      result.set(bytes.subarray(at * itemByteLength, (at + 1) * itemByteLength), written);
      written += itemByteLength;
      return;
    }
    for (let i = 0; i < (shape[axis] ?? 0); i++) visit(axis + 1, at + i * (strides[axis] ?? 0));
  };
  if (layout.byteLength > 0) visit(0, offset);
  return result;
}

function bytesOf(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = i * 37 + (i >> 8);
  return bytes;
}

/** Bytes that lie at an odd address of their buffer. */
function misplaced(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const place = new Uint8Array(bytes.length + 1).subarray(1);
  place.set(bytes);
  return place;
}

const layouts = fc
  .record({
    itemByteLength: fc.constantFrom(1, 2, 4, 8),
    axes: fc.array(fc.tuple(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 0, max: 40 })), {
      maxLength: 5,
    }),
    offset: fc.nat(20),
  })
  .map(({ itemByteLength, axes, offset }) => {
    const shape = axes.map(([size]) => size);
    const strides = axes.map(([, stride]) => stride);
    const reach = axes.reduce(
      (sum, [size, stride]) => sum + Math.max(0, size - 1) * stride,
      offset,
    );
    const held = (reach + 1) * itemByteLength;
    return { held, layout: layoutOf(itemByteLength, shape, strides, offset, held) };
  });

describe('windows of any layout', () => {
  test('are those of a loop over the items, whatever the storage', () => {
    fc.assert(
      fc.property(layouts, fc.nat(), fc.nat(), fc.boolean(), ({ held, layout }, a, b, isOdd) => {
        const bytes = bytesOf(held);
        const expected = itemByItem(bytes, layout);
        const [begin = 0, end = 0] = [a, b]
          .map((at) => at % (layout.byteLength + 1))
          .toSorted((x, y) => x - y);
        for (const data of [viewed(bytes), viewed(misplaced(bytes)), copied(bytes)]) {
          const length = end - begin;
          const target = isOdd ? misplaced(new Uint8Array(length)) : new Uint8Array(length);
          stridedFill(data, layout)(target, begin);
          expect(Buffer.compare(target, expected.subarray(begin, end))).toBe(0);
        }
      }),
      { numRuns: nightly(2000, 500) },
    );
  });

  test('are so one after the other, too, whatever was asked for before', () => {
    const steps = fc.array(
      fc.tuple(fc.integer({ min: 1, max: 50 }), fc.integer({ min: -9, max: 3 })),
    );
    fc.assert(
      fc.property(layouts, steps, ({ held, layout }, windows) => {
        const bytes = bytesOf(held);
        const expected = itemByItem(bytes, layout);
        for (const data of [viewed(bytes), copied(bytes)]) {
          const fill = stridedFill(data, layout);
          let end = 0;
          for (const [length, jump] of windows) {
            // Most windows begin where the last one ended.
            const begin = Math.min(
              expected.length,
              Math.max(0, end + (jump < 0 ? 0 : jump * 7 - 9)),
            );
            end = Math.min(expected.length, begin + length);
            const target = new Uint8Array(end - begin);
            fill(target, begin);
            expect(Buffer.compare(target, expected.subarray(begin, end))).toBe(0);
          }
        }
      }),
      { numRuns: nightly(1000, 300) },
    );
  });

  test('are changed as whole items, even where they begin within one', () => {
    const bytes = bytesOf(24);
    const layout = layoutOf(4, [6], [1], 0, 24);
    const reverse = (items: Uint8Array): void =>
      void Buffer.from(items.buffer, items.byteOffset, items.length).swap32();
    const whole = new Uint8Array(24);
    stridedFill(viewed(bytes), layout, reverse)(whole, 0);
    expect([...whole.subarray(0, 4)]).toEqual([...bytes.subarray(0, 4)].reverse());
    for (let begin = 0; begin < 24; begin++) {
      const part = new Uint8Array(Math.min(9, 24 - begin));
      stridedFill(viewed(bytes), layout, reverse)(part, begin);
      expect([...part]).toEqual([...whole.subarray(begin, begin + part.length)]);
    }
  });
});

describe('a transposed matrix', () => {
  const rows = 700;
  const columns = 900;
  const bytes = bytesOf(rows * columns * 4);
  const layout = layoutOf(4, [columns, rows], [1, columns], 0, bytes.length);
  const expected = itemByItem(bytes, layout);

  test('comes out in windows, from both kinds of storages', () => {
    for (const data of [viewed(bytes), copied(bytes)]) {
      const fill = stridedFill(data, layout);
      const target = new Uint8Array(layout.byteLength);
      const step = 300_001;
      for (let done = 0; done < target.length; done += step)
        fill(target.subarray(done, done + step), done);
      expect(Buffer.compare(target, expected)).toBe(0);
    }
  });

  test('is read row by row where a window needs little of each, not as a whole', () => {
    const [height, width] = [100, 9000];
    const matrix = bytesOf(height * width * 4);
    const transposed = layoutOf(4, [width, height], [1, width], 0, matrix.length);
    const reads: number[] = [];
    const target = new Uint8Array(height * 4);
    stridedFill(copied(matrix, reads), transposed)(target, height * 4 * 17);
    const column = new Uint32Array(target.buffer);
    const items = new Uint32Array(matrix.buffer);
    expect(column.every((item, row) => item === items[row * width + 17])).toBe(true);
    expect(reads).toEqual(Array.from({ length: height }, () => 4));
  });
});

/** Reads all of a tensor in windows of 64 KiB; returns the lengths of the reads from its source. */
function readsInWindows(shape: readonly number[], strides: readonly number[]): number[] {
  const byteLength = 4 * shape.reduce((count, size) => count * size, 1);
  const items = new Uint32Array(byteLength / 4);
  for (let i = 0; i < items.length; i++) items[i] = i;
  const bytes = new Uint8Array(items.buffer);
  const reads: number[] = [];
  const fill = stridedFill(copied(bytes, reads), layoutOf(4, shape, strides, 0, byteLength));
  const window = new Uint8Array(2 ** 16);
  const whole = new Uint8Array(byteLength);
  stridedFill(viewed(bytes), layoutOf(4, shape, strides, 0, byteLength))(whole, 0);
  for (let done = 0; done < byteLength; done += window.length) {
    const part = window.subarray(0, byteLength - done);
    fill(part, done);
    expect(Buffer.compare(part, whole.subarray(done, done + part.length))).toBe(0);
  }
  return reads;
}

const sumOf = (lengths: readonly number[]): number => lengths.reduce((sum, each) => sum + each, 0);

describe('what is read for windows that follow one another', () => {
  test('is each row of a transposed matrix some times, not once per window', () => {
    const [rows, columns] = [1500, 2500];
    const reads = readsInWindows([columns, rows], [1, columns]);
    expect(reads.length).toBeLessThanOrEqual(12 * rows);
    expect(sumOf(reads)).toBeLessThanOrEqual(12 * rows * columns * 4);
  });

  test('is the whole of a permuted tensor some times, in long reads', () => {
    const reads = readsInWindows([40, 40, 50, 50], [1, 2000, 40, 80_000]);
    const byteLength = 40 * 50 * 40 * 50 * 4;
    expect(reads.length).toBeLessThanOrEqual(1000);
    expect(sumOf(reads)).toBeLessThanOrEqual(12 * byteLength);
  });

  test('is once what lies in the order of the tensor, though with gaps', () => {
    const reads = readsInWindows([4000, 500], [500, 1]);
    expect(sumOf(reads)).toBe(4000 * 500 * 4);
  });
});

describe('the steps of a fill', () => {
  const transposed = (size: number): TensorLayout =>
    layoutOf(4, [size, size], [1, size], 0, size * size * 4);

  /** The reads of each step that fills a window of half of the matrix. */
  function readsOfSteps(size: number): number[] {
    const bytes = bytesOf(size * size * 4);
    const reads: number[] = [];
    const target = new Uint8Array(bytes.length / 2);
    const steps: number[] = [];
    for (const _ of stepFill(copied(bytes, reads), transposed(size))(target, 0)) {
      steps.push(sumOf(reads.splice(0)));
    }
    return steps;
  }

  test('read no more than 1 MiB each, however large the tensor', () => {
    const [small, large] = [readsOfSteps(700), readsOfSteps(1400)];
    expect(Math.max(...small, ...large)).toBeLessThanOrEqual(2 ** 20);
    expect(large.length).toBeGreaterThan(3 * small.length);
  });

  test('let the event loop turn', async () => {
    const bytes = bytesOf(1400 * 1400 * 4);
    const storage = new StridedStorage(copied(bytes), transposed(1400), undefined);
    let turns = 0;
    const timer = setInterval(() => turns++, 0);
    const target = new Uint8Array(storage.byteLength);
    await storage.inOrder(0)(target, 0);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(0);
    expect(Buffer.compare(target, storage.window(0, target.length))).toBe(0);
  });

  test('make pieces that are asked for before the last one is there', async () => {
    const bytes = bytesOf(300 * 300 * 4);
    const layout = transposed(300);
    const whole = itemByItem(bytes, layout);
    const swap = (items: Uint8Array): void =>
      void Buffer.from(items.buffer, items.byteOffset, items.length).swap32();
    swap(whole);
    for (const data of [viewed(bytes), copied(bytes)]) {
      const fill = new StridedStorage(data, layout, swap).inOrder(400);
      const target = new Uint8Array(whole.length - 400);
      const pieces: (void | Promise<void>)[] = [];
      for (let at = 0; at < target.length; at += 5000) {
        pieces.push(fill(target.subarray(at, at + 5000), at));
      }
      await Promise.all(pieces);
      expect(Buffer.compare(target, whole.subarray(400))).toBe(0);
    }
  });
});
