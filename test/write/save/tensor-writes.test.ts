/** Streams among the tensors of a file, and several files as one transfer. */

import { closeSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { layOut } from '../../../src/header/header-writer.js';
import { Transfer } from '../../../src/work/transfer.js';
import type { NewTensorOf } from '../../../src/write/input/tensor-input.js';
import { readTensorsAndStreams } from '../../../src/write/input/tensor-input.js';
import type { TensorStream } from '../../../src/write/input/tensor-stream.js';
import { LeasedFiles } from '../../../src/write/save/leased-files.js';
import { writeLayout } from '../../../src/write/save/write-layout.js';
import { type Dtype, type NewTensor, parse, saveFile, serialize } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const QUICK = { durable: false } as const;

let path: string;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
});

function streamed(length: number, data: TensorStream): NewTensorOf<Dtype, TensorStream> {
  return { dtype: 'U8', shape: [length], data };
}

/** The old file is there, and nothing else. */
function expectOld(): void {
  expect(readFileSync(path, 'utf8')).toBe('old');
  expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
}

describe('streams', () => {
  test('of any pieces give the bytes of the same tensors in memory', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.tuple(fc.string(), fc.array(fc.uint8Array({ maxLength: 50 }))), {
          selector: ([name]) => name,
          maxLength: 8,
        }),
        fc.infiniteStream(fc.nat(3)),
        async (given, kinds) => {
          const whole = given.map(([name, pieces]): [string, NewTensor<Dtype, never>] => {
            const data = Buffer.concat(pieces);
            return [name, { dtype: 'U8', shape: [data.length], data }];
          });
          const mixed = given.map(([name, pieces], i): [string, NewTensorOf<Dtype, never>] => {
            const data = [
              () => pieces,
              async () => Readable.from(pieces),
              whole[i]?.[1].data,
              // Its memory is used again for every piece.
              async function* () {
                const buffer = new Uint8Array(50);
                for (const piece of pieces) {
                  buffer.set(piece);
                  yield buffer.subarray(0, piece.length);
                }
              },
            ][kinds.next().value as number];
            const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
            return [name, { dtype: 'U8', shape: [length], data: data as never }];
          });
          await saveFile(path, mixed, QUICK);
          expect(readFileSync(path).equals(Buffer.from(serialize(whole)))).toBe(true);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('are opened one at a time, each when those before it are written', async () => {
    const log: string[] = [];
    const make = (name: string): TensorStream =>
      async function* () {
        log.push(`${name} begins`);
        yield new Uint8Array(1);
        yield new Uint8Array(1);
        log.push(`${name} ends`);
      };
    const tensors = {
      b: streamed(2, make('b')),
      a: streamed(2, make('a')),
      c: streamed(2, make('c')),
    };
    await saveFile(path, tensors, QUICK);
    expect(log).toEqual(['a', 'b', 'c'].flatMap((name) => [`${name} begins`, `${name} ends`]));
  });

  test('are opened when all before them is in the temporary file', async () => {
    const given = new BigInt64Array(1000).fill(-1n);
    const seen: Buffer[] = [];
    const data = (): Uint8Array => {
      for (const name of readdirSync(dirname(path))) seen.push(readFileSync(temporaryPath(name)));
      return new Uint8Array(3).fill(5);
    };
    const first = { dtype: 'I64', shape: [1000], data: given } as const;
    await saveFile(path, { first, x: streamed(3, data) }, QUICK);
    const whole = readFileSync(path);
    expect(seen).toHaveLength(1);
    expect(seen[0]?.subarray(0, whole.length - 3)).toEqual(whole.subarray(0, -3));
  });

  test('short pieces are joined, long ones written as they are, in order', async () => {
    const lengths = [
      1,
      2 ** 20 - 2,
      0,
      2,
      2 ** 20,
      5,
      3_000_000,
      700_000,
      700_000,
      2 ** 20 - 1,
      1,
      1,
    ];
    const whole = Uint8Array.from(
      { length: lengths.reduce((a, b) => a + b, 0) },
      (_, i) => i % 251,
    );
    const buffer = new Uint8Array(3_000_000);
    async function* pieces(): AsyncGenerator<Uint8Array> {
      let begin = 0;
      for (const length of lengths) {
        buffer.set(whole.subarray(begin, begin + length));
        begin += length;
        yield buffer.subarray(0, length);
      }
    }
    await saveFile(path, { x: streamed(whole.length, pieces) }, QUICK);
    const saved = parse(readFileSync(path)).getTensor('x').bytes;
    expect(Buffer.compare(saved, whole)).toBe(0);
  });

  test('pieces of many megabytes', async () => {
    const piece = new Uint8Array(20_000_001).fill(9);
    let last = 0;
    const onProgress = ({ bytes }: { bytes: number }): void => {
      last = bytes;
    };
    const data = (): Uint8Array[] => [piece, piece];
    await saveFile(path, { x: streamed(40_000_002, data) }, { ...QUICK, onProgress });
    const bytes = readFileSync(path);
    expect(last).toBe(bytes.length);
    expect(
      parse(bytes)
        .getTensor('x')
        .bytes.every((byte) => byte === 9),
    ).toBe(true);
  });

  /** Gives two bytes, and notes how it ends. */
  function noting(log: string[], second: () => Promise<Uint8Array>): TensorStream {
    let count = 0;
    return {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({
          done: false,
          value: await (count++ === 0 ? new Uint8Array(2) : second()),
        }),
        return: async () => {
          log.push('return');
          return { done: true, value: undefined };
        },
      }),
    };
  }

  test.each([
    ['too few bytes', 1, /^tensor "x": expected 4 bytes from its stream, found 3$/],
    ['too many bytes', 3, /^tensor "x": expected 4 bytes from its stream, found 5 or more$/],
  ])('%s fail the save', async (_, length, message) => {
    writeFileSync(path, 'old');
    const data = (): Uint8Array[] => [new Uint8Array(2), new Uint8Array(length)];
    const tensors = { x: streamed(4, data), a: streamed(1, () => new Uint8Array(1)) };
    await expect(saveFile(path, tensors)).rejects.toMatchObject({
      name: 'InvalidTensorError',
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'x',
      message: expect.stringMatching(message),
    });
    expectOld();
  });

  test('one that gives too much, or anything but bytes, is ended', async () => {
    writeFileSync(path, 'old');
    for (const value of [new Uint8Array(9), 'text' as never]) {
      const log: string[] = [];
      const x = streamed(
        4,
        noting(log, async () => value),
      );
      await expect(saveFile(path, { x })).rejects.toThrow(/tensor "x"/);
      expect(log).toEqual(['return']);
      expectOld();
    }
  });

  test('an error of one fails the save, and those behind it are left alone', async () => {
    writeFileSync(path, 'old');
    const reason = new Error('the network');
    const log: string[] = [];
    const x = streamed(
      4,
      noting(log, () => Promise.reject(reason)),
    );
    let calls = 0;
    const y = streamed(4, () => {
      calls++;
      return new Uint8Array(4);
    });
    await expect(saveFile(path, { x, y })).rejects.toBe(reason);
    expect(log).toEqual([]);
    expect(calls).toBe(0);
    const thrower = streamed(4, () => {
      throw reason;
    });
    await expect(saveFile(path, { thrower })).rejects.toBe(reason);
    expectOld();
  });

  test('an abort ends the wait for the next piece, and the stream', async () => {
    writeFileSync(path, 'old');
    const reason = new Error('enough');
    const never = new Promise<never>(() => {});
    for (const isStarted of [true, false]) {
      const log: string[] = [];
      const controller = new AbortController();
      const stuck = async (): Promise<never> => {
        setImmediate(() => controller.abort(reason));
        return never;
      };
      const x = streamed(4, isStarted ? noting(log, stuck) : stuck);
      await expect(saveFile(path, { x }, { signal: controller.signal })).rejects.toBe(reason);
      expect(log).toEqual(isStarted ? ['return'] : []);
      expectOld();
    }
  });

  test('an abort between two pieces ends the stream', async () => {
    writeFileSync(path, 'old');
    const log: string[] = [];
    const controller = new AbortController();
    const second = async (): Promise<Uint8Array> => {
      controller.abort();
      return new Uint8Array(2);
    };
    const x = streamed(4, noting(log, second));
    const saving = saveFile(path, { x }, { signal: controller.signal });
    await expect(saving).rejects.toMatchObject({ name: 'AbortError' });
    expect(log).toEqual(['return']);
    expectOld();
  });
});

test('several files can be one transfer', async () => {
  // Time stands still: reports before the end are for slow machines.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  onTestFinished(() => clock.mockRestore());
  const layouts = [1, 2].map((value) => {
    const data = new Uint8Array(1000).fill(value);
    return layOut(
      readTensorsAndStreams({
        x: { dtype: 'U8', shape: [1000], data },
        y: streamed(1000, () => data),
      }),
    );
  });
  const totalBytes = layouts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const reports: number[] = [];
  const transfer = new Transfer(
    totalBytes,
    { onProgress: ({ bytes }) => reports.push(bytes) },
    () => {},
  );
  for (const [i, layout] of layouts.entries()) {
    const sources = new LeasedFiles(layout.placed.map(({ spec }) => spec));
    const file = temporaryPath(`shard-${i}`);
    const fd = openSync(file, 'w');
    await writeLayout({ fd, path: file }, layout, sources, transfer);
    closeSync(fd);
    sources.verify();
    sources.end();
    expect(parse(readFileSync(file)).getTensor('y').bytes).toEqual(
      new Uint8Array(1000).fill(i + 1),
    );
  }
  expect(reports).toEqual([]);
  transfer.finish();
  expect(reports).toEqual([totalBytes]);
});
