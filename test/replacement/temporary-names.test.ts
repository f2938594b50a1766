import { expect, it } from 'vitest';
import { TemporaryNames } from '../../src/replacement/temporary-names.js';

const PATTERN = 'model{suffix}.safetensors';

it('are of one form, different, and in use until they are released', () => {
  const names = new TemporaryNames(PATTERN);
  const { written, interim } = names.next();
  expect(written).toMatch(/^\.safetensors-mmap-[0-9a-f]{8}-[0-9a-f]{16}\.tmp$/);
  expect(interim).toBe(written.replace(/tmp$/, 'safetensors'));
  expect(names.next().written).not.toBe(written);
  const other = new TemporaryNames(PATTERN);
  expect([other.isLeftOver(written), other.isLeftOver(interim)]).toEqual([false, false]);
  names.release();
  expect([other.isLeftOver(written), other.isLeftOver(interim)]).toEqual([true, true]);
  expect([other.isUnfinished(written), other.isUnfinished(interim)]).toEqual([true, false]);
});

it('of another pattern, of a file or of somebody else are not left over', () => {
  const names = new TemporaryNames('model.fp16{suffix}.safetensors');
  const { written } = names.next();
  names.release();
  const other = new TemporaryNames(PATTERN);
  expect(other.isLeftOver(written)).toBe(false);
  for (const name of [
    '.safetensors-mmap-0123456789abcdef.tmp',
    `${written}.tmp`,
    written.replace('.tmp', ''),
    written.replace('.tmp', '0.tmp'),
    written.slice(1),
  ]) {
    expect(names.isLeftOver(name), name).toBe(false);
  }
  expect(names.isLeftOver(written)).toBe(true);
});
