import { describe, expect, it } from 'vitest';
import { isRepositoryFolder, parseHubId, requireRevision } from '../../../src/file/hub/ids.js';

describe('parseHubId', () => {
  it.each([
    ['gpt2', 'models--gpt2', undefined, ''],
    ['org/name-1.5_b', 'models--org--name-1.5_b', undefined, ''],
    ['hf://org/name', 'models--org--name', undefined, ''],
    ['hf://models/org/name', 'models--org--name', undefined, ''],
    [
      'hf://datasets/org/name@v1.0/a/b.safetensors',
      'datasets--org--name',
      'v1.0',
      'a/b.safetensors',
    ],
    ['hf://spaces/org/name/assets', 'spaces--org--name', undefined, 'assets'],
    ['hf://org/name/unet', 'models--org--name', undefined, 'unet'],
    ['hf://org/name@refs/pr/7', 'models--org--name', 'refs/pr/7', ''],
    ['hf://org/name@refs/convert/x/f.json', 'models--org--name', 'refs/convert/x', 'f.json'],
    ['hf://org/name@a%2Fb/f', 'models--org--name', 'a/b', 'f'],
  ])('reads %s', (text, cacheName, revision, path) => {
    expect(parseHubId(text)).toEqual({ cacheName, revision, path });
  });

  it.each([
    '',
    '/',
    'a/b/c',
    '../a',
    'a/..',
    './a',
    '/a',
    'a\\b',
    'a--b',
    'a b',
    'org/',
    '.a/b',
    'a/b.',
    '-a',
    'a\0',
    'model.safetensors',
    'org/model.safetensors',
    'model.safetensors.index.json',
  ])('%j is no id', (text) => {
    expect(parseHubId(text)).toBeNull();
  });

  it.each([
    'hf://gpt2',
    'hf://',
    'hf://../x',
    'hf://org/..',
    'hf://org/name/../x',
    'hf://org/name//x',
    'hf://org/name@main/../../x',
    'hf://org/name@%zz',
    'hf://org/name@',
    'hf://org/name@/model.safetensors',
    'hf://datasets/name',
    `hf://org/${'n'.repeat(100)}`,
  ])('refuses %s', (text) => {
    expect(() => parseHubId(text)).toThrow(RangeError);
  });
});

it.each([
  ['hf://buckets/org/name', 'single files of a bucket'],
  ['hf://buckets/org', 'single files of a bucket'],
  ['hf://dataset/org/name', 'hf://datasets/org/name'],
  ['hf://space/org/name', 'hf://spaces/org/name'],
  ['hf://model/org/name', 'hf://models/org/name'],
])('is not read as that of an organisation: %s', (text, expected) => {
  expect(() => parseHubId(text)).toThrow(expected);
});

it('names a kernel in a cache, not one on the Hub', () => {
  expect(parseHubId('hf://kernels/org/name')?.cacheName).toBe('kernels--org--name');
  expect(() => parseHubId('hf://kernels/org/name', 'source')).toThrow('kernels are programs');
});

describe('isRepositoryFolder', () => {
  it.each([
    ['models--org--name', true],
    ['models--gpt2', true],
    ['datasets--a--b', true],
    ['spaces--a--b', true],
    ['kernels--a--b', true],
    ['models--', false],
    ['models-org', false],
    ['model--org--name', false],
    ['my-models--org--name', false],
    ['blobs', false],
    ['', false],
  ])('%j: %s', (name, expected) => {
    expect(isRepositoryFolder(name)).toBe(expected);
  });
});

describe('requireRevision', () => {
  it.each(['main', 'refs/pr/1', 'v1.0', '.x'])('takes %s', (revision) => {
    expect(() => requireRevision(revision)).not.toThrow();
  });

  it.each(['', '.', 'a/.', 'a/../b', '/a', 'a\\b'])('refuses %j', (revision) => {
    expect(() => requireRevision(revision)).toThrow(RangeError);
  });
});
