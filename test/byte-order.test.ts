import { describe, expect, test, vi } from 'vitest';
import { parse, safeOpen, serialize } from '../src/index.js';

vi.mock('node:os', async (original) => ({
  ...(await original<typeof import('node:os')>()),
  endianness: () => 'BE',
}));

describe('on a big-endian machine', () => {
  test.each([
    ['safeOpen', () => safeOpen(new URL(import.meta.url))],
    ['parse', () => parse(new Uint8Array(10))],
    ['serialize', () => serialize({})],
  ])('%s refuses', (_, action) => {
    expect(action).toThrow(expect.objectContaining({ code: 'SAFETENSORS_BIG_ENDIAN_HOST' }));
  });
});
