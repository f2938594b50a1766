import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type CopiedRange, copyRanges, copyRangesSync } from '../../src/io/range-copy.js';
import { temporaryPath } from '../support/make-file.js';

const state = vi.hoisted(() => ({ isMissing: false }));

vi.mock(import('../../src/addon/load.js'), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    loadNative: () => (state.isMissing ? { unavailable: 'of the test' } : original.loadNative()),
  };
});

const content = randomBytes(200_000);
const open: number[] = [];
let file: { fd: number; path: string };
let target: { fd: number; path: string };

function opened(path: string, flags: string): { fd: number; path: string } {
  const fd = openSync(temporaryPath(path), flags);
  open.push(fd);
  return { fd, path };
}

beforeEach(() => {
  writeFileSync(temporaryPath('source'), content);
  file = opened('source', 'r');
  target = opened('target', 'w');
});

afterEach(() => {
  state.isMissing = false;
  for (const fd of open.splice(0)) closeSync(fd);
});

const forms = [
  { form: 'copyRanges', isMissing: false, copy: copyRanges },
  { form: 'copyRanges', isMissing: true, copy: copyRanges },
  {
    form: 'copyRangesSync',
    isMissing: false,
    copy: async (...args: Parameters<typeof copyRangesSync>) => copyRangesSync(...args),
  },
];

describe.each(forms)('$form, without addon: $isMissing', ({ copy, isMissing }) => {
  beforeEach(() => {
    state.isMissing = isMissing;
  });

  const range = (position: number, byteLength: number): CopiedRange => ({
    file,
    position,
    byteLength,
  });

  test('copies one range or several, one after the other', async () => {
    await copy([range(7, 100)], target, 3);
    await copy([range(100_000, 70_000), range(5, 1), range(50_000, 4096)], target, 103);
    const expected = [
      Buffer.alloc(3),
      content.subarray(7, 107),
      content.subarray(100_000, 170_000),
      content.subarray(5, 6),
      content.subarray(50_000, 54_096),
    ];
    expect(readFileSync(temporaryPath('target'))).toEqual(Buffer.concat(expected));
  });

  test('a source that ends early is an error that names it', async () => {
    const ranges = [range(0, 10), range(199_995, 10), range(20, 10)];
    await expect(copy(ranges, target, 0)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: 'source',
    });
  });

  test('errors of the system name the target', async () => {
    const unwritable = opened('source', 'r');
    await expect(copy([range(0, 10), range(20, 10)], unwritable, 0)).rejects.toMatchObject({
      code: 'EBADF',
      path: 'source',
    });
  });
});
