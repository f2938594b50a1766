/** `serializeStream`: the bytes of `serialize`, piece by piece, from wherever they are. */
import { appendFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { describe, expect, it, onTestFinished } from 'vitest';
import * as browser from '../../../src/runtime-browser.js';
import {
  openTorch,
  parse,
  safeOpen,
  serialize,
  serializeStream,
  type TensorInput,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { root } from '../../support/source-tree.js';

const MIB = 2 ** 20;
const LONG = Float32Array.from({ length: MIB }, (_, i) => i / 3);
const BYTES = serialize(
  {
    long: { dtype: 'F32', shape: [1024, 1024], data: LONG },
    short: { dtype: 'I16', shape: [3], data: Int16Array.of(1, 2, 3) },
    none: { dtype: 'F64', shape: [0, 7], data: new Float64Array(0) },
  },
  { metadata: { format: 'pt' } },
);

function fileOf(bytes: Uint8Array): string {
  const path = temporaryPath('model.safetensors');
  writeFileSync(path, bytes);
  return path;
}

async function read(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of stream) {
    expect(piece.length).toBeLessThanOrEqual(MIB);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

describe('the bytes are those of serialize', () => {
  it.each(['mmap', 'read'] as const)('of a file (%s)', async (storage) => {
    using file = safeOpen(fileOf(BYTES), { storage });
    const stream = serializeStream(file, { metadata: { format: 'pt' } });
    expect(stream.byteLength).toBe(BYTES.length);
    expect(Buffer.compare(await read(stream), BYTES)).toBe(0);
  });

  it('as the body of an HTTP response of known length', async () => {
    using file = safeOpen(fileOf(BYTES));
    const server = createServer((_, response) => {
      const stream = serializeStream(file);
      response.setHeader('Content-Length', stream.byteLength);
      Readable.from(stream).pipe(response);
    });
    onTestFinished(() => void server.close());
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    expect(response.headers.get('content-length')).toBe(String(BYTES.length));
    expect(Buffer.compare(Buffer.from(await response.arrayBuffer()), BYTES)).toBe(0);
  });

  it('of tensors in use, slices, memory, and other formats', async () => {
    using file = safeOpen(fileOf(BYTES));
    file.getTensor('long').view(Float32Array)[5] = -1;
    using torch = await openTorch(`${root}test/fixtures/torch/zip-state-dict.pt`);
    const tensors = new Map<string, TensorInput>([
      ['used', file.getTensor('long')],
      ['turned', file.getSlice('long', [null, null, -1], [3, 900, 2])],
      ['parsed', parse(BYTES).getTensor('short')],
      ['new', { dtype: 'U8', shape: [2], data: Uint8Array.of(8, 9) }],
      ...torch.getTensors(),
    ]);
    expect(Buffer.compare(await read(serializeStream(tensors)), serialize(tensors as never))).toBe(
      0,
    );
  });

  it('of streams, whose pieces may be overwritten', async () => {
    async function* pieces() {
      const piece = new Uint8Array(3 * MIB);
      for (let i = 0; i < 2; i++) yield piece.fill(i + 1);
    }
    const stream = serializeStream({
      a: { dtype: 'U8', shape: [6 * MIB], data: pieces() },
      b: { dtype: 'F32', shape: [2], data: () => Promise.resolve(Float32Array.of(1, 2)) },
    });
    const data = new Uint8Array(6 * MIB).fill(1, 0, 3 * MIB).fill(2, 3 * MIB);
    const b = { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) } as const;
    const expected = serialize({ a: { dtype: 'U8', shape: [6 * MIB], data }, b });
    expect(stream.byteLength).toBe(expected.length);
    expect(Buffer.compare(await read(stream), expected)).toBe(0);
  });

  it('of no tensors', async () => {
    expect(Buffer.compare(await read(serializeStream({})), serialize({}))).toBe(0);
  });

  it('in browsers', async () => {
    const file = parse(BYTES);
    const tensors = new Map(file);
    const options = { metadata: { format: 'pt' } };
    expect(Buffer.compare(browser.serialize(tensors, options), BYTES)).toBe(0);
    expect(Buffer.compare(await read(browser.serializeStream(tensors, options)), BYTES)).toBe(0);
  });
});

describe('as a web stream', () => {
  it('it is an answer with a length', async () => {
    using file = safeOpen(fileOf(BYTES));
    const stream = serializeStream(file, { metadata: { format: 'pt' } });
    const response = new Response(stream.readable());
    expect(Buffer.compare(Buffer.from(await response.arrayBuffer()), BYTES)).toBe(0);
  });

  it('cancelling ends it, and gives back the descriptor', async () => {
    using file = safeOpen(fileOf(BYTES), { storage: 'mmap' });
    const reader = serializeStream(file).readable().getReader();
    await reader.read();
    expect(openDescriptors()).toHaveLength(2);
    await reader.cancel();
    expect(openDescriptors()).toHaveLength(1);
  });
});

describe('what is wrong', () => {
  it('with tensors and options is said at once', () => {
    const data = new Uint8Array(1);
    const code = 'SAFETENSORS_INVALID_TENSOR_VIEW';
    for (const make of [serializeStream, browser.serializeStream]) {
      expect(() => make({ t: { dtype: 'U8', shape: [2], data } })).toThrow(
        expect.objectContaining({ code }),
      );
      expect(() => make({}, { meta: 1 } as object)).toThrow(/metadata/);
      expect(() => make({}, { signal: {} as AbortSignal })).toThrow(TypeError);
    }
  });

  it('with a file that changes meanwhile is the end', async () => {
    const path = fileOf(BYTES);
    using checkpoint = safeOpen(path);
    const tensors = checkpoint.getTensors();
    const pieces = serializeStream(tensors)[Symbol.asyncIterator]();
    await pieces.next();
    appendFileSync(path, 'more');
    const rest = read({ [Symbol.asyncIterator]: () => pieces });
    await expect(rest).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
  });

  it('with a stream of a tensor is its error', async () => {
    const short = serializeStream({ a: { dtype: 'U8', shape: [3], data: () => Uint8Array.of(1) } });
    await expect(read(short)).rejects.toMatchObject({ code: 'SAFETENSORS_INVALID_TENSOR_VIEW' });
    const failing = serializeStream({
      a: { dtype: 'U8', shape: [3], data: () => Promise.reject(new Error('no bytes')) },
    });
    await expect(read(failing)).rejects.toThrow('no bytes');
  });

  it('is an abort, and reading twice', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const tensors = new Map(parse(BYTES));
    const pieces = serializeStream(tensors, { signal })[Symbol.asyncIterator]();
    await pieces.next();
    controller.abort(new Error('enough'));
    await expect(pieces.next()).rejects.toThrow('enough');
    const stream = serializeStream(tensors);
    await read(stream);
    const again = expect.objectContaining({ code: 'ERR_INVALID_STATE' });
    expect(() => stream.readable()).toThrow(again);
    expect(() => stream[Symbol.asyncIterator]()).toThrow(again);
  });
});
