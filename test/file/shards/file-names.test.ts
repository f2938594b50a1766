import { describe, expect, it } from 'vitest';
import { DEFAULT_FILENAME_PATTERN, FilenamePattern } from '../../../src/file/shards/file-names.js';
import { shardingCases } from './sharding-cases.js';

const REFUSAL = expect.objectContaining({ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' });

describe('FilenamePattern', () => {
  it('names the only file, shards and the index', () => {
    const pattern = new FilenamePattern('model{suffix}.safetensors');
    expect(pattern.filename(1, 1)).toBe('model.safetensors');
    expect(pattern.filename(2, 12)).toBe('model-00002-of-00012.safetensors');
    expect(pattern.filename(7, 100_001)).toBe('model-00007-of-100001.safetensors');
    expect(pattern.filename(100_000, 100_001)).toBe('model-100000-of-100001.safetensors');
    expect(pattern.indexFilename).toBe('model.safetensors.index.json');
  });

  it('puts a variant before the number, and into the index as transformers does', () => {
    const pattern = new FilenamePattern('model{suffix}.safetensors', 'fp16');
    expect(pattern.filename(1, 1)).toBe('model.fp16.safetensors');
    expect(pattern.filename(1, 2)).toBe('model.fp16-00001-of-00002.safetensors');
    expect(pattern.indexFilename).toBe('model.safetensors.index.fp16.json');
  });

  it('keeps what String.replace would take for a reference', () => {
    expect(new FilenamePattern('$&{suffix}$1').filename(1, 2)).toBe('$&-00001-of-00002$1');
  });

  it.each([
    'model.safetensors',
    '',
    '{suffix}',
    '.{suffix}',
    '{suffix}..',
    '{suffix}{suffix}.safetensors',
    'm{{suffix}}.safetensors',
    'm{}.safetensors',
    'm{suffix.safetensors',
    'm{suffix}.{name}',
    'm}{suffix}',
    'm{suffix!r}',
    'm{ suffix }',
    'unet/model{suffix}.safetensors',
    '../model{suffix}.safetensors',
    '/model{suffix}.safetensors',
    'unet\\model{suffix}.safetensors',
    'C:model{suffix}.safetensors',
    'model{suffix}\0.safetensors',
    'model{suffix}\n',
    'model\ud800{suffix}',
  ])('refuses the pattern %j', (pattern) => {
    expect(() => new FilenamePattern(pattern)).toThrow(REFUSAL);
  });

  it.each(['', 'a/b', 'a\\b', 'a:b', '{suffix}', '\t'])('refuses the variant %j', (variant) => {
    expect(() => new FilenamePattern(DEFAULT_FILENAME_PATTERN, variant)).toThrow(REFUSAL);
  });

  it('refuses what is not text', () => {
    const error = expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
    expect(() => new FilenamePattern(5 as unknown as string)).toThrow(error);
    expect(() => new FilenamePattern('m{suffix}', 5 as unknown as string)).toThrow(error);
  });
});

describe('FilenamePattern.owns', () => {
  /** Unlike Python, we accept six digits, and refuse digits of other scripts and indexes of numbered files. */
  const differently = (name: string): boolean =>
    /\d{6}|[^\x20-\x7e]|-of-\d{5}\.safetensors\.index\.json$/.test(name);

  const cleanups = shardingCases.save.filter(
    ({ input }) => input.existing_files.length > 0 && input.is_main_process !== false,
  );

  it('has cases', () => {
    expect(cleanups.length).toBeGreaterThan(2);
  });

  it.each(cleanups)('$id: the files that Python clears away or writes anew', (item) => {
    const { input, expected_files: expected } = item;
    const pattern = new FilenamePattern(input.filename_pattern ?? DEFAULT_FILENAME_PATTERN);
    for (const name of input.existing_files) {
      const isTouched = expected[name]?.untouched !== true;
      expect(pattern.owns(name), name).toBe(differently(name) ? !isTouched : isTouched);
    }
  });

  it('of a variant: its files and both spellings of its index, nothing else', () => {
    const pattern = new FilenamePattern(DEFAULT_FILENAME_PATTERN, 'fp16');
    const own = [
      'model.fp16.safetensors',
      'model.fp16-00001-of-00002.safetensors',
      'model.fp16.safetensors.index.json',
      'model.safetensors.index.fp16.json',
    ];
    const others = [
      'model.safetensors',
      'model-00001-of-00002.safetensors',
      'model.safetensors.index.json',
      'model.bf16.safetensors',
      'model.fp16-0001-of-0002.safetensors',
      'model.fp16-00001-of-00002-of-00003.safetensors',
      'model.fp16.safetensors.index.json.index.json',
    ];
    expect(own.filter((name) => !pattern.owns(name))).toEqual([]);
    expect(others.filter((name) => pattern.owns(name))).toEqual([]);
  });

  it('does not let prefix and suffix overlap', () => {
    const pattern = new FilenamePattern('aa{suffix}aa');
    expect(['aaa', 'aaaa', 'aaaaa'].map((name) => pattern.owns(name))).toEqual([
      false,
      true,
      false,
    ]);
  });
});

it('a pattern with a variant as text, and its indexes of both spellings', () => {
  const pattern = new FilenamePattern(DEFAULT_FILENAME_PATTERN, 'fp16');
  expect(pattern.text).toBe('model.fp16{suffix}.safetensors');
  expect(new FilenamePattern(pattern.text).filename(1, 2)).toBe(pattern.filename(1, 2));
  expect(pattern.isIndex('model.fp16.safetensors.index.json')).toBe(true);
  expect(pattern.isIndex('model.safetensors.index.fp16.json')).toBe(true);
  expect(pattern.isIndex('model.fp16.safetensors')).toBe(false);
});
