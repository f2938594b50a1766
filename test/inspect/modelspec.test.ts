import { describe, expect, it } from 'vitest';
import { checkModelspec, thumbnailOf } from '../../src/inspect/modelspec.js';

const BASE = {
  sai_model_spec: '1.0.0',
  architecture: 'stable-diffusion-xl-v1-base',
  implementation: 'sgm',
  title: 'A title',
  description: 'What it is',
  author: 'Somebody',
  date: '2024-06-30T12:00:00Z',
  hash_sha256: `0x${'0a'.repeat(32)}`,
  resolution: '1024x1024',
};

/** Problems as `level key`, without the prefix. */
function problemsOf(spec: Readonly<Record<string, string>>): string[] {
  const pairs = Object.entries(spec).map(([key, value]) => [`modelspec.${key}`, value] as const);
  return checkModelspec(new Map(pairs)).map(
    ({ level, key }) => `${level} ${key.replace('modelspec.', '')}`,
  );
}

describe('checkModelspec', () => {
  it('has nothing to say of a whole one', () => {
    expect(problemsOf(BASE)).toEqual([]);
  });

  it('says which keys are missing', () => {
    expect(problemsOf({})).toEqual([
      ...['sai_model_spec', 'architecture', 'implementation', 'title'].map((k) => `error ${k}`),
      ...['description', 'author', 'date', 'hash_sha256'].map((key) => `warning ${key}`),
    ]);
  });

  it.each([
    ['stable-diffusion-xl-v1-base', ['error resolution']],
    ['stable-diffusion-v1/lora', []],
    ['flux-1-dev', []],
    ['gpt-neo-x', ['error data_format', 'warning format_type']],
    ['qwen-image', []],
  ])('asks of %s for %j', (architecture, expected) => {
    const { resolution: _, ...others } = BASE;
    expect(problemsOf({ ...others, architecture })).toEqual(expected);
  });

  it.each([
    ['date', '30.6.2024'],
    ['hash_sha256', '0a'.repeat(32)],
    ['hash_blake3', '0A'],
    ['resolution', '1024'],
    ['prediction_type', 'x'],
    ['timestep_range', '0-1000'],
    ['is_negative_embedding', 'yes'],
    ['thumbnail', 'https://models.example/a.png'],
    ['sai_model_spec', '1'],
  ])('finds a malformed %s', (key, value) => {
    expect(problemsOf({ ...BASE, [key]: value })).toEqual([`error ${key}`]);
  });

  it('warns of keys that it does not know', () => {
    expect(problemsOf({ ...BASE, titel: 'x', hash_blake3: '0xab' })).toEqual(['warning titel']);
    expect(problemsOf({ ...BASE, constructor: 'x' })).toEqual(['warning constructor']);
  });
});

describe('thumbnailOf', () => {
  it('decodes a data URL, and nothing else', () => {
    expect(thumbnailOf('data:image/jpeg;base64,AQID')).toEqual({
      type: 'image/jpeg',
      bytes: Uint8Array.of(1, 2, 3),
    });
    for (const value of [
      '',
      'data:text/html;base64,AQID',
      'data:image/png,x',
      'data:image/png;base64,%%',
      'data:image/png;base64,AAAAA',
    ]) {
      expect(thumbnailOf(value)).toBeNull();
    }
  });
});
