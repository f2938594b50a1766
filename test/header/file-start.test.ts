import { expect, test } from 'vitest';
import { checkFileStart } from '../../src/header/file-start.js';
import { fileOf, thrownBy } from './header-files.js';

const check = (file: Uint8Array, byteLength = file.length): void =>
  checkFileStart(file, byteLength, { path: 'model.safetensors' });

test('a file that begins with its length and a brace is taken, whatever follows', () => {
  check(fileOf('{}', new Uint8Array(3)));
  check(fileOf('{', new Uint8Array(0)));
  check(fileOf('{"t":', new Uint8Array(0)));
  check(fileOf(`{}${' '.repeat(1000)}`, new Uint8Array(0)).subarray(0, 64), 1010);
});

test.each([
  [
    'another byte',
    fileOf('x{', new Uint8Array(0)),
    'expected the header to begin with "{", found "x"',
  ],
  [
    'nothing, and a brace behind it',
    fileOf('', new TextEncoder().encode('{}')),
    'found the end of',
  ],
  ['the end of the file', fileOf('', new Uint8Array(0)), 'found the end of the header'],
])('%s is refused', (_, file, message) => {
  expect(thrownBy(() => check(file))).toMatchObject({
    code: 'SAFETENSORS_INVALID_HEADER_START',
    path: 'model.safetensors',
    message: expect.stringContaining(message),
  });
});

test('another format is called by its name', () => {
  const gzip = new Uint8Array(600_000);
  gzip.set([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0xff]);
  expect(thrownBy(() => check(gzip.subarray(0, 512), gzip.length))).toMatchObject({
    code: 'SAFETENSORS_INVALID_HEADER_START',
    foundFormat: 'gzip',
    message: expect.stringMatching(/looks like a gzip archive.*found byte 0xff/),
  });
});

test('a length that does not fit is refused', () => {
  const file = fileOf('{}', new Uint8Array(0));
  expect(thrownBy(() => check(file.subarray(0, 9)))).toMatchObject({
    code: 'SAFETENSORS_INVALID_HEADER_LENGTH',
  });
});
