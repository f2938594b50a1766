import { describe, expect, it } from 'vitest';
import { DEFAULT_ENDPOINT } from '../../src/file/hub/settings.js';
import { parseSource, requireEndpoint } from '../../src/remote/source-address.js';

const parse = (text: string, revision?: string): ReturnType<typeof parseSource> =>
  parseSource(text, DEFAULT_ENDPOINT, revision);

function failureOf(call: () => unknown): { code?: string; message: string } {
  try {
    call();
  } catch (error) {
    return error as Error;
  }
  throw new Error('expected an error');
}

describe('a source', () => {
  it('is a URL with its query', () => {
    const { url } = parse('https://bucket.example/key?X-Amz-Signature=1');
    expect(url?.href).toBe('https://bucket.example/key?X-Amz-Signature=1');
  });

  it('is an id on the Hub', () => {
    expect(parse('hf://org/name@v1/unet').hub).toMatchObject({
      endpoint: DEFAULT_ENDPOINT,
      id: { cacheName: 'models--org--name', revision: 'v1', path: 'unet' },
      isFile: false,
    });
  });

  it.each([
    ['file:///models/m.safetensors', 'safeOpen'],
    ['s3://bucket/m.safetensors', 'presigned https: URL'],
    ['ftp://host/x', 'ftp:'],
    ['data:text/plain,x', 'data:'],
    ['javascript:alert(1)', 'javascript:'],
    ['blob:https://example.com/1234', 'pass the Blob itself'],
    ['https://', 'cannot be parsed'],
  ])('of another scheme is refused: %s', (text, expected) => {
    const { code, message } = failureOf(() => parse(text));
    expect(code).toBe('SAFETENSORS_UNSAFE_URL');
    expect(message).toContain(expected);
  });

  it('that is no URL is shown without its query', () => {
    const { code, message } = failureOf(() => parse('models.example/x?signature=secret'));
    expect(code).toBe('ERR_OUT_OF_RANGE');
    expect(message).toContain('"models.example/x"');
    expect(message).not.toContain('secret');
  });

  it('with a user name or password is refused, and not shown', () => {
    for (const text of [
      'https://secret@host/x',
      'https://me:secret@host/x',
      'https://:secret@host/x',
    ]) {
      const { code, message } = failureOf(() => parse(text));
      expect(code).toBe('SAFETENSORS_UNSAFE_URL');
      expect(message).not.toContain('secret');
    }
  });

  it.each([
    ['org/name', 'hf://org/name?'],
    ['gpt2', 'https://huggingface.co/gpt2?'],
    ['gpt2@v1', 'https://huggingface.co/gpt2/tree/v1?'],
    ['./model.safetensors', 'safeOpen opens local paths'],
    ['C:\\models\\model.safetensors', 'safeOpen opens local paths'],
    ['', 'safeOpen opens local paths'],
    ['/model.safetensors', 'new URL(text, base) completes an address'],
    ['hf://gpt2', 'source must be hf://org/name'],
    ['hf://org/name/../x', 'hf://org/name'],
    ['hf://org/name/\ud800.safetensors', 'hf://org/name'],
    ['hf://org/name@\udfff/x', 'hf://org/name'],
  ])('that is neither is refused with a hint: %s', (text, expected) => {
    const { code, message } = failureOf(() => parse(text));
    expect(code).toBe('ERR_OUT_OF_RANGE');
    expect(message).toContain(expected);
  });
});

describe('an endpoint', () => {
  it('loses slashes at its end, query and fragment', () => {
    expect(requireEndpoint('https://hub.example//', 'HF_ENDPOINT')).toBe('https://hub.example');
    expect(requireEndpoint('http://127.0.0.1:80/hf/?x#y', 'HF_ENDPOINT')).toBe(
      'http://127.0.0.1/hf',
    );
  });

  it('must be a URL without a user name', () => {
    for (const text of ['hub.example', 'file:///x', 'https://me@hub.example']) {
      const { code, message } = failureOf(() => requireEndpoint(text, 'HF_ENDPOINT'));
      expect(code).toBe('SAFETENSORS_UNSAFE_URL');
      expect(message).toContain('HF_ENDPOINT');
    }
  });
});

describe('the option revision', () => {
  it('is that of an id or a page of the Hub', () => {
    for (const text of [
      'hf://org/name',
      'hf://org/name@v1',
      `${DEFAULT_ENDPOINT}/org/name/tree/v1`,
    ]) {
      expect(parse(text, 'v1').hub?.id.revision).toBe('v1');
    }
  });

  it.each([
    ['hf://org/name@v2', 'v1', 'revision must be "v2", as in the id, or left out, but is "v1"'],
    ['https://models.example/a.safetensors', 'v1', 'revision must be left out for a URL'],
    ['hf://org/name', '', 'revision must be the name of a branch'],
    ['hf://org/name', '../x', 'revision must be the name of a branch'],
    ['hf://org/name@', undefined, 'revision must be the name of a branch'],
  ])('of %s is not %j', (text, revision, message) => {
    expect(failureOf(() => parse(text, revision))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    expect(failureOf(() => parse(text, revision)).message).toContain(message);
  });
});
