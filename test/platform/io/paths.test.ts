import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { locate, requirePath } from '../../../src/platform/io/paths.js';
import { foreignUrl } from '../../support/other-realm.js';

const url = pathToFileURL('/a b');

test('paths in every form', () => {
  const bytes = Buffer.from('/a b');
  expect(locate('/a b')).toEqual({ location: '/a b', label: '/a b' });
  expect(locate(bytes)).toEqual({ location: bytes, label: '/a b' });
  for (const given of [url, foreignUrl(url)]) {
    expect(locate(given)).toEqual({ location: '/a b', label: '/a b' });
    expect(requirePath('path', given)).toBe('/a b');
  }
});

/** Names that are not valid UTF-8. */
const TEXTLESS = [Object.create(null), [Symbol('a')], { toString: () => ({}) }];

test.each([3, null, undefined, {}, { href: '/a', auth: null }, ...TEXTLESS])(
  '%o is no path',
  (value) => {
    const code = 'ERR_INVALID_ARG_TYPE';
    expect(() => locate(value as never)).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringMatching(/^path must be a string, a Buffer or a file: URL, but is /),
      }),
    );
    expect(() => requirePath('the folder', value as never)).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringMatching(/^the folder must be a string or a file: URL, but is /),
      }),
    );
  },
);

test.each([
  ['file:///a/b', 'must be a path or a URL, new URL(…), not its text, but is "file:///a/b"'],
  ['s3://bucket/model', 'must be on this machine, but is "s3://bucket/model"'],
  [
    'HTTPS://host/a',
    'must be on this machine, but is "HTTPS://host/a"; open() reads remote checkpoints, download() fetches files',
  ],
])('the text of a URL is no path: %s', (text, message) => {
  const error = { name: 'TypeError', code: 'ERR_INVALID_URL_SCHEME', message: `path ${message}` };
  expect(() => locate(text)).toThrow(expect.objectContaining(error));
  expect(() => requirePath('path', text)).toThrow(expect.objectContaining(error));
});

test.each(['C://a', 'hf://org/name', 'a/b://c', './s3://a'])('%s may be a path', (text) => {
  expect(requirePath('path', text)).toBe(text);
});

test('a URL of another scheme is refused by Node', () => {
  const code = 'ERR_INVALID_URL_SCHEME';
  expect(() => locate(new URL('https://host/a'))).toThrow(expect.objectContaining({ code }));
});
