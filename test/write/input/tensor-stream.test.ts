import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import {
  isTensorStream,
  readStream,
  type TensorStream,
} from '../../../src/write/input/tensor-stream.js';
import { InvalidTensorError } from '../../support/api.js';

const tensor = { name: 'x', dtype: 'U16', byteLength: 6 } as const;

async function read(stream: unknown): Promise<number[]> {
  const bytes: number[] = [];
  for await (const piece of readStream(tensor, stream as TensorStream)) {
    expect(piece).toBeInstanceOf(Uint8Array);
    bytes.push(...piece);
  }
  return bytes;
}

const pieces = [Uint8Array.of(1), new Uint8Array(0), Uint8Array.of(2, 3, 4), Uint8Array.of(5, 6)];

async function* produce(): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

function* produceNow(): Generator<Uint8Array> {
  yield* pieces;
}

describe('readStream', () => {
  test.each([
    ['an async generator', produce()],
    ['a Readable', Readable.from(pieces)],
    ['a ReadableStream', new Blob(pieces).stream()],
    ['a function that gives a stream', produce],
    ['a function that gives an iterable', produceNow],
    ['a function that gives an array of pieces', () => pieces],
    ['a function that promises an iterable', async () => produceNow()],
    ['a function that gives bytes', () => Uint8Array.of(1, 2, 3, 4, 5, 6)],
    ['a function that promises bytes', async () => Uint8Array.of(1, 2, 3, 4, 5, 6).buffer],
    ["a function that gives the dtype's array", () => Uint16Array.of(0x201, 0x403, 0x605)],
    ['a function that gives pieces as arrays', () => [Uint16Array.of(0x201, 0x403, 0x605)]],
  ])('%s', async (_, stream) => {
    expect(isTensorStream(stream)).toBe(true);
    expect(await read(stream)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test('does nothing before it is read', async () => {
    let calls = 0;
    const stream = readStream(tensor, () => {
      calls++;
      return new Uint8Array(6);
    });
    expect(calls).toBe(0);
    await stream.next();
    expect(calls).toBe(1);
  });

  test.each([
    ['too few', () => new Uint8Array(5), /expected 6 bytes from its stream, found 5$/],
    ['none', () => [], /found 0$/],
    ['too many', () => new Uint8Array(7), /found 7 or more$/],
  ])('%s bytes are refused', async (_, stream, message) => {
    await expect(read(stream)).rejects.toBeInstanceOf(InvalidTensorError);
    await expect(read(stream)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'x',
      message: expect.stringMatching(message),
    });
  });

  test('an endless stream is ended at the first piece too many', async () => {
    let ended = false;
    let given = 0;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield new Uint8Array(++given > 0 ? 4 : 0);
      } finally {
        ended = true;
      }
    }
    const taken: number[] = [];
    await expect(async () => {
      for await (const piece of readStream(tensor, endless())) taken.push(piece.length);
    }).rejects.toThrow(/found 8 or more/);
    expect({ given, taken, ended }).toEqual({ given: 2, taken: [4], ended: true });
  });

  test('ending early ends the stream', async () => {
    const readable = Readable.from(pieces);
    for await (const _ of readStream(tensor, readable)) break;
    expect(readable.destroyed).toBe(true);
  });

  test.each([
    ['text', () => 'abcdef'],
    ['pieces of text', () => Readable.from([Buffer.from('abcdef')], { encoding: 'utf8' })],
    ['numbers', () => [1, 2, 3, 4, 5, 6]],
    ['nothing', () => undefined],
    ['a function', () => () => new Uint8Array(6)],
  ])('%s are no bytes', async (_, stream) => {
    await expect(read(stream)).rejects.toMatchObject({
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringMatching(/"x"/),
    });
  });

  test('arrays of another dtype are refused', async () => {
    await expect(read(() => new Float32Array(2))).rejects.toMatchObject({ tensor: 'x' });
  });

  test('a piece must keep its memory until the next one is asked for', async () => {
    const piece = Uint8Array.of(1, 2, 3, 4, 5, 6);
    const reading = async (): Promise<void> => {
      for await (const bytes of readStream(tensor, () => [piece])) {
        expect(bytes).toHaveLength(6);
        structuredClone(piece.buffer, { transfer: [piece.buffer] });
      }
    };
    await expect(reading()).rejects.toThrow(
      /a piece of 6 bytes was transferred or resized before it was written/,
    );
  });

  test('errors of the stream are thrown as they are', async () => {
    const reason = new Error('the source is gone');
    const failing = (): never => {
      throw reason;
    };
    await expect(read(failing)).rejects.toBe(reason);
    await expect(read(async () => failing())).rejects.toBe(reason);
    await expect(read(new Readable({ read: failing }))).rejects.toBe(reason);
  });
});
