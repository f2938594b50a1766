/** Malformed GGUF files: an error with a code, in bounded time and memory. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { expect, test } from 'vitest';
import { open, SafetensorsError } from '../../support/api.js';
import { root } from '../../support/source-tree.js';
import {
  Encoder,
  ggufBytes,
  type MadeGguf,
  type MadeTensor,
  writtenGguf,
} from './generated-gguf.js';

const INVALID = 'SAFETENSORS_INVALID_GGUF';
const INCOMPLETE = 'SAFETENSORS_INCOMPLETE_FILE';

async function codeOf(bytes: Uint8Array): Promise<string> {
  try {
    (await open(writtenGguf(bytes) as string, { remote: false })).close();
    return 'none';
  } catch (error) {
    if (error instanceof SafetensorsError) return error.code;
    throw error;
  }
}

const encoder = new Encoder();
const one: MadeTensor = { name: 'a', dims: [8], type: 0, offset: 0 };
const data = Buffer.alloc(64);
const two = (change: Partial<MadeTensor>): MadeGguf => ({
  tensors: [one, { ...one, name: 'b', offset: 32, ...change }],
  data,
});
const nested = (depth: number): ReturnType<Encoder['array']> =>
  depth === 0 ? encoder.array(4, 0) : encoder.array(9, 1, [nested(depth - 1)[1]]);
const HUGE = 2n ** 60n;

const FILES: readonly (readonly [name: string, code: string, file: MadeGguf])[] = [
  ['a valid file', 'none', two({})],
  ['no tensors', 'none', {}],
  ['a tensor count of 2^60', INVALID, { tensorCount: HUGE }],
  ['a tensor count of 2^64 - 1', INVALID, { tensorCount: 2n ** 64n - 1n }],
  ['more tensors than the file has', INCOMPLETE, { tensors: [one], tensorCount: 10, data }],
  ['a key count of 2^60', INVALID, { keyCount: HUGE }],
  ['more keys than the file has', INCOMPLETE, { keyCount: 100 }],
  ['an array of 2^60 numbers', INVALID, { keys: [['k', encoder.array(4, HUGE)]], data }],
  ['an array of 2^60 strings', INVALID, { keys: [['k', encoder.array(8, HUGE)]], data }],
  ['an array of 2^60 arrays', INVALID, { keys: [['k', encoder.array(9, HUGE)]], data }],
  ['an array longer than the file', INCOMPLETE, { keys: [['k', encoder.array(0, 1000)]] }],
  ['arrays in many arrays', INVALID, { keys: [['k', nested(8)]], data }],
  ['arrays in arrays', 'none', { keys: [['k', nested(2)]], data }],
  ['an array of an unknown type', INVALID, { keys: [['k', encoder.array(13, 1)]], data }],
  ['a string of 2^60 bytes', INVALID, { keys: [['k', [8, encoder.u64(HUGE)]]], data }],
  ['a string of 2^31 bytes', INVALID, { keys: [['k', [8, encoder.u64(2 ** 31)]]], data }],
  ['an unknown type of a value', INVALID, { keys: [['k', [13, encoder.u32(0)]]], data }],
  ['duplicate keys', INVALID, { keys: [['k', [0, data.subarray(1, 2)]], ['k', [0, data.subarray(1, 2)]]], data }],
  ['a key that is not UTF-8', INVALID, { keys: [[Uint8Array.of(0xff), [0, Uint8Array.of(1)]]], data }],
  ['a tensor name that is not UTF-8', INVALID, { tensors: [{ ...one, name: Uint8Array.of(0xc0, 0x80) }], data }],
  ['a tensor name of 128 bytes', INVALID, { tensors: [{ ...one, name: 'n'.repeat(128) }], data }],
  ['a tensor name of 127 bytes', 'none', { tensors: [{ ...one, name: 'n'.repeat(127) }], data }],
  ['duplicate tensor names', INVALID, two({ name: 'a' })],
  ['an overlap', INVALID, two({ offset: 0 })],
  ['a gap', INVALID, two({ offset: 64 })],
  ['a misaligned offset', INVALID, two({ offset: 36 })],
  ['an offset of 2^63', INVALID, two({ offset: 2n ** 63n })],
  ['tensors out of order', INVALID, { tensors: [{ ...one, offset: 32 }, { ...one, name: 'b' }], data }],
  ['a dimension of 2^60', INVALID, two({ dims: [HUGE] })],
  ['dimensions whose product is 2^80', INVALID, two({ dims: [2 ** 40, 2 ** 40] })],
  ['5 dimensions', INVALID, two({ dims: [1, 1, 1, 1, 8] })],
  ['a tensor beyond the end', INCOMPLETE, two({ dims: [80] })],
  ['an unknown tensor type', INVALID, two({ type: 99 })],
  ['a removed tensor type', 'SAFETENSORS_UNSUPPORTED_TENSOR', two({ type: 4 })],
  ['Q2_0', 'SAFETENSORS_UNSUPPORTED_TENSOR', two({ type: 42 })],
  ['a row that is no whole blocks', INVALID, two({ type: 8, dims: [33] })],
  ['blocks without dimensions', INVALID, two({ type: 8, dims: [] })],
  ['an alignment of 0', INVALID, { keys: [['general.alignment', [4, encoder.u32(0)]]], data }],
  ['an alignment of 33', INVALID, { keys: [['general.alignment', [4, encoder.u32(33)]]], data }],
  ['an alignment of 2^31', INVALID, { keys: [['general.alignment', [4, encoder.u32(2 ** 31)]]], data }],
  ['an alignment that is text', INVALID, { keys: [['general.alignment', [8, encoder.text('32')]]], data }],
  ['version 0', INVALID, { version: 0, data }],
  ['version 4', INVALID, { version: 4, data }],
  ['version 2', 'none', { ...two({}), version: 2 }],
  ['version 1', 'none', { ...two({}), version: 1 }],
  ['big-endian', 'none', { ...two({}), isBigEndian: true }],
]; // biome-ignore format: a table

test.each(FILES)('%s: %s', async (_, code, file) => {
  const start = process.cpuUsage();
  expect(await codeOf(ggufBytes(file))).toBe(code);
  // Of the processor, in microseconds: other programs may be at work.
  expect(process.cpuUsage(start).user).toBeLessThan(2_000_000);
});

test.each(['kv-all-types', 'q4_k', 'v2'])('%s, truncated anywhere', async (name) => {
  const bytes = readFileSync(join(root, 'test/fixtures/gguf', name, 'model.gguf'));
  // The file ends with padding.
  for (let length = 4; length < bytes.length - 64; length += length < 400 ? 1 : 17) {
    const code = await codeOf(bytes.subarray(0, length));
    expect([INCOMPLETE, INVALID], `${length} bytes`).toContain(code);
  }
});

test('names the tensor, and what is wrong with it', async () => {
  const opening = open(writtenGguf(ggufBytes(two({ offset: 0 }))) as string, { remote: false });
  await expect(opening).rejects.toMatchObject({
    tensor: 'b',
    message: expect.stringContaining('the offset 0 overlaps another tensor: expected 32'),
  });
});

test('a header larger than maxHeaderByteLength', async () => {
  const keys = [['k', encoder.array(0, 200_000, [Buffer.alloc(200_000)])]] as const;
  const path: string = writtenGguf(ggufBytes({ keys }));
  const opening = open(path, { remote: false, maxHeaderByteLength: 100_000 });
  await expect(opening).rejects.toMatchObject({ code: 'SAFETENSORS_HEADER_TOO_LARGE' });
  const opened = await open(path, { remote: false, maxHeaderByteLength: 300_000 });
  expect(((await opened.extra()) as Map<string, Uint8Array>).get('k')?.length).toBe(200_000);
  opened.close();
});
