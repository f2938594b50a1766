import { describe, expect, it } from 'vitest';
import {
  encodeShardFilename,
  parseSafetensorsShardFilename,
} from '../../../src/remote/metadata/file-names.js';

describe('parseSafetensorsShardFilename', () => {
  it.each([
    ['model-00001-of-00072.safetensors', 'model-', 'model', '00001', '00072'],
    ['model_00005-of-00072.safetensors', 'model_', 'model', '00005', '00072'],
    ['a-b_c-000001-of-123456.safetensors', 'a-b_c-', 'a-b_c', '000001', '123456'],
    ['-00001-of-00001.safetensors', '-', '', '00001', '00001'],
  ])('%s', (name, prefix, basePrefix, shard, total) => {
    expect(parseSafetensorsShardFilename(name)).toEqual({ prefix, basePrefix, shard, total });
  });

  it.each([
    'model.safetensors',
    '00001-of-00002.safetensors',
    'model-0001-of-0002.safetensors',
    'model-0000001-of-0000002.safetensors',
    'model-00001-of-00002.safetensors.index.json',
    'model-00001-of-00002.bin',
  ])('%s is no shard', (name) => {
    expect(parseSafetensorsShardFilename(name)).toBe(null);
  });
});

it('refuses a name that is no text', () => {
  for (const name of [7, null, Symbol('a'), new Uint8Array(3)]) {
    expect(() => parseSafetensorsShardFilename(name as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
    );
  }
});

it('encodes no lone surrogate', () => {
  expect(() => encodeShardFilename('\ud800')).toThrow(
    expect.objectContaining({ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' }),
  );
});
