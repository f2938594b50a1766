import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { loadFile, parse, safeOpen } from '../support/api.js';
import { fileBytes, writeTemporary } from '../support/make-file.js';
import { foreign, foreignAbort, foreignUrl } from '../support/other-realm.js';

const ENTRIES = [
  { name: 'a', dtype: 'U8', shape: [2] },
  { name: 'b', dtype: 'U8', shape: [1] },
] as const;

test('a URL of another realm', () => {
  const url = foreignUrl(pathToFileURL(writeTemporary(ENTRIES)));
  const file = safeOpen(url);
  expect(file.keys()).toEqual(['a', 'b']);
  file.close();
  expect([...loadFile(url).keys()]).toEqual(['a', 'b']);
});

test('bytes of another realm', () => {
  const bytes = foreign<Uint8ArrayConstructor>('Uint8Array').from(fileBytes(ENTRIES));
  expect(bytes).not.toBeInstanceOf(Uint8Array);
  const tensor = parse(bytes).getTensor('a');
  expect(tensor.data).toEqual(Uint8Array.of(1, 2));
  expect(tensor.buffer).toBe(bytes.buffer);
});

test.each(['mmap', 'read'] as const)('names and signals of another realm, %s', async (storage) => {
  using file = safeOpen(writeTemporary(ENTRIES), { storage });
  const names = foreign<Set<string>>("new Set(['b'])");
  const { signal, abort } = foreignAbort();
  await file.prefetch(names, { signal });
  expect([...(await file.readTensors(names, { signal })).keys()]).toEqual(['b']);
  const reason = new Error('enough');
  abort(reason);
  await expect(file.prefetch(names, { signal })).rejects.toBe(reason);
  await expect(file.readTensors(names, { signal })).rejects.toBe(reason);
});
