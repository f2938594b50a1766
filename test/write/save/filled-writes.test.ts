import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { layOut } from '../../../src/header/header-writer.js';
import * as fileWrites from '../../../src/platform/io/file-writes.js';
import { Transfer } from '../../../src/work/transfer.js';
import {
  type ComputedPayload,
  readTensorsAndStreams,
} from '../../../src/write/input/tensor-input.js';
import { LeasedFiles } from '../../../src/write/save/leased-files.js';
import { serialize } from '../../../src/write/save/serialize.js';
import { writeLayout } from '../../../src/write/save/write-layout.js';
import { safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

vi.mock('../../../src/platform/io/file-writes.js', { spy: true });

const data = Uint8Array.from({ length: 3_000_000 }, (_, i) => i % 251);
const short = Uint8Array.of(1, 2, 3);
const tensors = {
  a: { dtype: 'U8', shape: [data.length], data },
  b: { dtype: 'U8', shape: [3], data: short },
  c: { dtype: 'U8', shape: [3], data: () => [short.subarray(0, 1), short.subarray(1)] },
} as const;
const layout = layOut(readTensorsAndStreams(tensors), {});
const dataStart = layout.header.length;
let path: string;
let fd: number;

beforeEach(() => {
  path = temporaryPath('written.safetensors');
  fd = openSync(path, 'w+');
});

afterEach(() => {
  closeSync(fd);
  vi.mocked(fileWrites.writeViews).mockReset();
});

const write = (verify: boolean): Promise<void> =>
  writeLayout({ fd, path }, layout, new LeasedFiles([]), new Transfer(3_000_000, {}), { verify });

/** Changes a byte of the file as soon as it is written. */
function breakByte(position: number): void {
  vi.mocked(fileWrites.writeViews).mockImplementation(async (target, views, begin) => {
    const bytes = Buffer.concat(views);
    writeSync(target.fd, bytes, 0, bytes.length, begin);
    const isIn = begin <= position && position < begin + bytes.length;
    if (isIn) writeSync(target.fd, Uint8Array.of(255), 0, 1, position);
  });
}

test.each([false, true])('all bytes are written, verified: %s', async (verify) => {
  await write(verify);
  const expected = serialize({ ...tensors, c: { ...tensors.c, data: short } });
  expect(Buffer.compare(readFileSync(path), expected)).toBe(0);
});

test.each([0, 1, 2 ** 20 - 1, 2 ** 20, data.length - 1])(
  'byte %i of a tensor that is another is found',
  async (at) => {
    breakByte(dataStart + at);
    await expect(write(true)).rejects.toMatchObject({
      code: 'SAFETENSORS_VERIFICATION_FAILED',
      tensor: 'a',
      message: expect.stringContaining(`byte ${at} of the new file's tensor differs`),
    });
  },
);

test.each([
  ['of a tensor that is written with its neighbour', 3_000_001, 'b'],
  ['that is the first of its tensor', 3_000_000, 'b'],
  ['of a stream', 3_000_005, 'c'],
])('so is one %s', async (_, at, tensor) => {
  breakByte(dataStart + at);
  await expect(write(true)).rejects.toMatchObject({
    tensor,
    message: expect.stringContaining(`byte ${(at - 3_000_000) % 3} of`),
  });
});

test('so is one of the header', async () => {
  breakByte(9);
  await expect(write(true)).rejects.toThrow("byte 9 of the new file's header");
});

test('nobody looks when nothing is verified', async () => {
  breakByte(9);
  await write(false);
});

test('what is verified may come from a file', async () => {
  const source = temporaryPath('source.safetensors');
  writeFileSync(source, serialize({ a: tensors.a, b: tensors.b }));
  using file = safeOpen(source);
  const copied = layOut(readTensorsAndStreams(file), {});
  const sources = new LeasedFiles(copied.placed.map(({ spec }) => spec));
  const transfer = new Transfer(copied.byteLength, {});
  await writeLayout({ fd, path }, copied, sources, transfer, { verify: true });
  sources.end();
  expect(readFileSync(path).equals(readFileSync(source))).toBe(true);
});

test.each([false, true])('pieces are made in their order, once, verified: %s', async (verify) => {
  const asked: number[] = [];
  const memory = new Set<ArrayBufferLike>();
  const payload: ComputedPayload = {
    kind: 'computed',
    fill: async (target, begin) => {
      asked.push(begin);
      memory.add(target.buffer);
      await new Promise((resolve) => setTimeout(resolve, begin === 0 ? 5 : 1));
      target.set(data.subarray(begin % 1000, (begin % 1000) + target.length));
    },
    verify: () => {},
    storage: undefined,
  };
  const byteLength = 12 * 2 ** 20;
  const made = layOut([{ name: 'm', dtype: 'U8', shape: [byteLength], byteLength, payload }], {});
  const transfer = new Transfer(byteLength, {});
  await writeLayout({ fd, path }, made, new LeasedFiles([{ payload }]), transfer, { verify });
  expect(asked).toEqual(Array.from({ length: 12 }, (_, i) => i * 2 ** 20));
  // Four pieces are under way at once; a buffer for reading again comes to each.
  expect(memory.size).toBeLessThanOrEqual(verify ? 8 : 4);
});

test('all bytes are heard in their order, whichever way they go and whichever are there first', async () => {
  let count = 0;
  const slow: ComputedPayload = {
    kind: 'computed',
    fill: async (target, begin) => {
      count++;
      await new Promise((resolve) => setTimeout(resolve, begin === 0 ? 20 : 1));
      target.set(data.subarray(begin % 1000, (begin % 1000) + target.length));
    },
    verify: () => {},
    storage: undefined,
  };
  const byteLength = 5 * 2 ** 20;
  const entries = [...readTensorsAndStreams(tensors)];
  const all = layOut(
    [...entries, { name: 'z', dtype: 'U8', shape: [byteLength], byteLength, payload: slow }],
    {},
  );
  const heard: Uint8Array[] = [];
  await writeLayout(
    { fd, path },
    all,
    new LeasedFiles([]),
    new Transfer(all.byteLength, {}),
    // Its memory is used again.
    { onBytes: (bytes) => heard.push(Uint8Array.from(bytes)) },
  );
  expect(count).toBe(5);
  expect(Buffer.concat(heard).equals(readFileSync(path))).toBe(true);
});

test('every tensor is asked for its own bytes and no others, one without bytes for none', async () => {
  const asked: [name: string, begin: number, byteLength: number][] = [];
  const lengths = { a: 3_000_000, b: 1, c: 0, d: 7 };
  const entries = Object.entries(lengths).map(([name, byteLength]) => {
    const fill = (target: Uint8Array, begin: number): void => {
      asked.push([name, begin, target.length]);
      target.fill(name.charCodeAt(0));
    };
    const payload: ComputedPayload = {
      kind: 'computed',
      fill,
      verify: () => {},
      storage: undefined,
    };
    return { name, dtype: 'U8', shape: [byteLength], byteLength, payload } as const;
  });
  const made = layOut(entries, {});
  await writeLayout({ fd, path }, made, new LeasedFiles([]), new Transfer(3_000_008, {}));
  expect(asked).toEqual([
    ['a', 0, 2 ** 20],
    ['a', 2 ** 20, 2 ** 20],
    ['a', 2 ** 21, 3_000_000 - 2 ** 21],
    ['b', 0, 1],
    ['d', 0, 7],
  ]);
  const written = readFileSync(path).subarray(made.header.length);
  expect(written.equals(Buffer.from(`${'a'.repeat(3_000_000)}bddddddd`))).toBe(true);
});

test('who only hears what is written need not be able to read it', async () => {
  const target = openSync(temporaryPath('write-only'), 'w');
  let heard = 0;
  const onBytes = (bytes: Uint8Array): void => {
    heard += bytes.length;
  };
  const transfer = new Transfer(layout.byteLength, {});
  await writeLayout({ fd: target, path }, layout, new LeasedFiles([]), transfer, { onBytes });
  closeSync(target);
  expect(heard).toBe(layout.byteLength);
});

test('an error of the making ends what waits to be heard', async () => {
  const payload: ComputedPayload = {
    kind: 'computed',
    fill: async (_, begin) => {
      if (begin === 2 ** 20) throw new Error('no more');
    },
    verify: () => {},
    storage: undefined,
  };
  const byteLength = 9 * 2 ** 20;
  const made = layOut([{ name: 'm', dtype: 'U8', shape: [byteLength], byteLength, payload }], {});
  let heard = 0;
  const onBytes = (bytes: Uint8Array): void => {
    heard += bytes.length;
  };
  const transfer = new Transfer(byteLength, {});
  const written = writeLayout({ fd, path }, made, new LeasedFiles([]), transfer, { onBytes });
  await expect(written).rejects.toThrow('no more');
  expect(heard).toBe(made.header.length + 2 ** 20);
});
