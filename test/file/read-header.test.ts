import { closeSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { readFileHeader } from '../../src/file/read-header.js';
import { type OpenedFile, openRegularFile } from '../../src/platform/io/opened-file.js';
import { runSync } from '../../src/work/work.js';
import { keysOf } from '../header/header-files.js';
import { temporaryPath, writeTemporary } from '../support/make-file.js';

let file: OpenedFile;

afterEach(() => closeSync(file.fd));

test('the header of a file is read by its descriptor', () => {
  const metadata = { k: 'x'.repeat(2000) };
  const path = writeTemporary([{ name: 'a', dtype: 'U8', shape: [3] }], { metadata });
  file = runSync(openRegularFile(path, ''));
  const { header, start } = runSync(readFileHeader(file));
  expect(start).toEqual(new Uint8Array(readFileSync(path).subarray(0, -3)));
  expect(keysOf(header)).toEqual(['a']);
  expect(header.metadata).toEqual(new Map(Object.entries(metadata)));
  expect(header.dataByteLength).toBe(3);
});

test.each([
  ['', 'SAFETENSORS_HEADER_TOO_SMALL'],
  ['\x04\0\0\0\0\0\0\0{}', 'SAFETENSORS_INVALID_HEADER_LENGTH'],
  ['\x02\0\0\0\0\0\0\0{}x', 'SAFETENSORS_METADATA_INCOMPLETE_BUFFER'],
])('%j is refused with the name of the file', (content, code) => {
  const path = temporaryPath('bad');
  writeFileSync(path, content);
  file = runSync(openRegularFile(path, 'label'));
  expect(() => runSync(readFileHeader(file))).toThrow(
    expect.objectContaining({ code, path: 'label' }),
  );
});

test('a file that is rewritten while it is read is refused', () => {
  const path = writeTemporary([{ name: 'a', dtype: 'U8', shape: [1000] }]);
  const opened = runSync(openRegularFile(path, 'label'));
  // The second read finds another length than the first.
  let reads = 0;
  file = {
    path: 'label',
    byteLength: opened.byteLength,
    mtimeNs: opened.mtimeNs,
    get fd(): number {
      if (reads++ === 1) writeFileSync(path, `\x02\0\0\0\0\0\0\0{}${'x'.repeat(2000)}`);
      return opened.fd;
    },
  };
  expect(() => runSync(readFileHeader(file))).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED', path: 'label' }),
  );
});
