import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { parse, safeOpen, serialize } from '../support/api.js';

// The bytes of one 16-bit number are all that is asked for.
beforeEach(() => {
  vi.stubGlobal('Uint16Array', { of: () => ({ buffer: Uint8Array.of(0, 1).buffer }) });
});
afterEach(() => {
  vi.unstubAllGlobals();
});

describe('on a big-endian machine', () => {
  test.each([
    ['safeOpen', () => safeOpen(new URL(import.meta.url))],
    ['parse', () => parse(new Uint8Array(10))],
    ['serialize', () => serialize({})],
  ])('%s refuses', (_, action) => {
    expect(action).toThrow(expect.objectContaining({ code: 'SAFETENSORS_BIG_ENDIAN_HOST' }));
  });
});
