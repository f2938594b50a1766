import { describe, expect, it } from 'vitest';
import { DEFAULT_ENDPOINT } from '../../src/file/hub/settings.js';
import { apiUrl, fileUrl, pageUrl, parseHubUrl } from '../../src/remote/hub-address.js';

const MIRROR = 'https://mirror.example/hf';

function meaningOf(url: string): unknown {
  const address = parseHubUrl(new URL(url), MIRROR);
  if (address === null) return null;
  const { endpoint, id, isFile } = address;
  return [endpoint, id.cacheName, id.revision, id.path, isFile];
}

describe('an address copied from a browser', () => {
  it.each([
    ['https://huggingface.co/org/name', 'models--org--name', undefined, '', false],
    ['https://huggingface.co/org/name/', 'models--org--name', undefined, '', false],
    [
      'https://huggingface.co/org/name?library=true#usage',
      'models--org--name',
      undefined,
      '',
      false,
    ],
    ['https://huggingface.co/gpt2', 'models--gpt2', undefined, '', false],
    ['https://huggingface.co/gpt2/tree/main', 'models--gpt2', 'main', '', false],
    ['https://huggingface.co/org/name/tree/v1.0/unet', 'models--org--name', 'v1.0', 'unet', false],
    [
      'https://huggingface.co/org/name/blob/main/a%20b/m.safetensors?x=1',
      'models--org--name',
      'main',
      'a b/m.safetensors',
      true,
    ],
    [
      'https://huggingface.co/org/name/resolve/refs%2Fpr%2F3/m.safetensors?download=true',
      'models--org--name',
      'refs/pr/3',
      'm.safetensors',
      true,
    ],
    [
      'https://huggingface.co/org/name/raw/refs/convert/parquet/m.safetensors',
      'models--org--name',
      'refs/convert/parquet',
      'm.safetensors',
      true,
    ],
    [
      'https://huggingface.co/org/name/blame/main/x.json',
      'models--org--name',
      'main',
      'x.json',
      true,
    ],
    [
      'https://huggingface.co/datasets/org/name/blob/main/m.safetensors',
      'datasets--org--name',
      'main',
      'm.safetensors',
      true,
    ],
  ])('%s', (url, ...expected) => {
    expect(meaningOf(url)).toEqual([DEFAULT_ENDPOINT, ...expected]);
  });

  it('may be of a mirror, or of the short host', () => {
    const id = ['models--org--name', 'main', 'm.safetensors', true];
    const page = 'org/name/blob/main/m.safetensors';
    expect(meaningOf(`${MIRROR}/${page}`)).toEqual([MIRROR, ...id]);
    expect(meaningOf(`https://hf.co/${page}`)).toEqual([DEFAULT_ENDPOINT, ...id]);
  });

  it('is nothing to the Hub on other hosts, and where there are no pages', () => {
    for (const url of [
      'https://example.com/org/name/blob/main/m.safetensors',
      'https://mirror.example/org/name',
      'https://mirror.example/hfx/org/name',
      'http://huggingface.co/org/name',
      'https://huggingface.co:8443/org/name',
      'https://huggingface.co/api/models/org/name',
      'https://huggingface.co/files/m.safetensors',
      'https://huggingface.co/a/b/c/d/index.json',
      'https://huggingface.co/buckets/org/name/resolve/model.safetensors',
    ]) {
      expect(meaningOf(url), url).toBeNull();
    }
  });

  it.each([
    'https://huggingface.co/org/name/discussions/1',
    'https://huggingface.co/org/name/commit/abc',
    'https://huggingface.co/',
    'https://huggingface.co/-bad-/name',
    'https://huggingface.co/org/name/blob/main/..%2f..%2fx.safetensors',
    'https://huggingface.co/org/name/blob/main/%zz.safetensors',
  ])('of another page is refused: %s', (url) => {
    expect(() => meaningOf(url)).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }));
    expect(() => meaningOf(`${url}?X-Signature=secret`)).not.toThrow(/secret/);
  });

  it.each([
    ['https://huggingface.co/buckets/org', 'single files of a bucket'],
    ['https://huggingface.co/org/name/tree', 'a branch, tag or commit after `tree`'],
    ['https://huggingface.co/org/name/tree/', 'a branch, tag or commit after `tree`'],
    ['https://huggingface.co/org/name/tree//unet', 'a branch, tag or commit after `tree`'],
    ['https://huggingface.co/gpt2/blob//config.json', 'a branch, tag or commit after `blob`'],
    [
      'https://huggingface.co/org/name/resolve//a.safetensors',
      'a branch, tag or commit after `resolve`',
    ],
    ['https://huggingface.co/buckets/org/name/tree/folder', 'single files of a bucket'],
    ['https://huggingface.co/kernels/org/name', 'kernels are programs'],
    ['https://huggingface.co/kernels/org/name/tree/main', 'kernels are programs'],
  ])('of a bucket or a kernel is refused: %s', (url, expected) => {
    expect(() => meaningOf(url)).toThrow(expected);
  });

  it('of another page is shown without its query', () => {
    const url = 'https://huggingface.co/org/name/discussions/1?secret';
    expect(() => meaningOf(url)).toThrow('but is "/org/name/discussions/1"');
  });
});

describe('URLs', () => {
  const id = { cacheName: 'models--org--name', revision: undefined, path: '' };
  const dataset = { ...id, cacheName: 'datasets--org--name' };
  it('of files encode the revision as one part, and every part of the path', () => {
    expect(fileUrl(MIRROR, id, 'refs/pr/1', 'a b/c#d.safetensors').href).toBe(
      `${MIRROR}/org/name/resolve/refs%2Fpr%2F1/a%20b/c%23d.safetensors`,
    );
    expect(fileUrl(MIRROR, dataset, 'main', 'x').href).toBe(
      `${MIRROR}/datasets/org/name/resolve/main/x`,
    );
  });

  it('of pages and of the API', () => {
    expect(pageUrl(MIRROR, id, 'main', '').href).toBe(`${MIRROR}/org/name/tree/main`);
    expect(pageUrl(MIRROR, id, 'main', 'unet').href).toBe(`${MIRROR}/org/name/tree/main/unet`);
    expect(apiUrl(MIRROR, id, 'revision', 'a/b').href).toBe(
      `${MIRROR}/api/models/org/name/revision/a%2Fb`,
    );
    expect(apiUrl(MIRROR, dataset, 'tree', 'main', 'x/y').href).toBe(
      `${MIRROR}/api/datasets/org/name/tree/main/x/y`,
    );
  });
});
