import { expect, it } from 'vitest';
import { FIRST_BYTE_LENGTH, readRemoteHeader } from '../../src/remote/read-header.js';
import { countedFile } from '../support/counted-source.js';
import { type Entry, fileBytes } from '../support/make-file.js';

const TENSOR: Entry = { name: 't', dtype: 'U8', shape: [300_000] };
const UNPADDED =
  8 + JSON.stringify({ t: { ...TENSOR, name: undefined, data_offsets: [0, 300_000] } }).length;
const { signal } = new AbortController();

/** A file whose data begins at a position. */
function fileWithDataAt(position: number): Uint8Array {
  return fileBytes([TENSOR], { padding: position - UNPADDED });
}

it.each([
  ['one byte before', -1, 1],
  ['at', 0, 1],
  ['one byte behind', 1, 2],
])('a header that ends %s the end of the first request', async (_, distance, requests) => {
  const dataStart = FIRST_BYTE_LENGTH + distance;
  const files = countedFile(fileWithDataAt(dataStart));
  const header = await readRemoteHeader(files.file('model.safetensors'), undefined, signal);
  expect(header.dataStart).toBe(dataStart);
  expect(header.names()).toEqual(['t']);
  const begins = [0, FIRST_BYTE_LENGTH].slice(0, requests);
  const ends = [FIRST_BYTE_LENGTH, FIRST_BYTE_LENGTH + 1];
  expect(files.requests.map(({ begin, end }) => [begin, end])).toEqual(
    begins.map((begin, i) => [begin, ends[i]]),
  );
});

it('takes two requests for a header of megabytes, and not one byte more than it has', async () => {
  const files = countedFile(fileWithDataAt(3_000_000));
  await readRemoteHeader(files.file('model.safetensors'), undefined, signal);
  expect(files.requests.length).toBe(2);
  expect(files.byteLength).toBe(3_000_000);
});

it('asks a file that is shorter for what it has', async () => {
  const bytes = fileBytes([{ name: 't', dtype: 'U8', shape: [3] }]);
  const files = countedFile(bytes);
  await readRemoteHeader(files.file('model.safetensors'), undefined, signal);
  expect(files.byteLength).toBe(bytes.length);
});

it.each([
  ['an empty file', new Uint8Array(0), 'SAFETENSORS_HEADER_TOO_SMALL'],
  [
    'a header that is not there',
    fileWithDataAt(500).subarray(0, 400),
    'SAFETENSORS_INVALID_HEADER_LENGTH',
  ],
  [
    'data that is not there',
    fileWithDataAt(500).subarray(0, 600),
    'SAFETENSORS_METADATA_INCOMPLETE_BUFFER',
  ],
  [
    'a page',
    new TextEncoder().encode('<!doctype html><html><body>Not Found</body></html>'),
    'SAFETENSORS_HEADER_TOO_LARGE',
  ],
])('refuses %s as for a local file', async (_, bytes, code) => {
  const files = countedFile(bytes);
  await expect(
    readRemoteHeader(files.file('model.safetensors'), undefined, signal),
  ).rejects.toMatchObject({ code, path: 'https://models.example/model.safetensors' });
  expect(files.requests.length).toBe(1);
});

it('refuses a header above the limit without fetching it', async () => {
  const files = countedFile(fileWithDataAt(200_000));
  await expect(
    readRemoteHeader(files.file('model.safetensors'), 150_000, signal),
  ).rejects.toMatchObject({ code: 'SAFETENSORS_HEADER_TOO_LARGE' });
  expect(files.requests.length).toBe(1);
});
