import { readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { NamedValues } from '../../../src/errors/named-values.js';
import type { WriterData } from '../../../src/write/save/writer.js';
import {
  createWriter,
  type Dtype,
  editMetadata,
  type parse,
  safeOpen,
  saveFile,
  serialize,
  type TensorInput,
  type TensorSpec,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { foreign, foreignAbort, foreignUrl } from '../../support/other-realm.js';

const TENSORS = `{
  a: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
  b: { dtype: 'U16', shape: [1], data: Uint8Array.of(3, 0).buffer },
  c: { dtype: 'U8', shape: [2], data: new Uint8Array(new SharedArrayBuffer(2)) },
}`;

function valuesOf(file: ReturnType<typeof parse>): unknown {
  return Array.from(file, ([name, { data }]) => [name, ...data]);
}

const VALUES = [
  ['a', 1, 2],
  ['b', 3],
  ['c', 0, 0],
];

describe.each([
  ['an object', TENSORS],
  ['a Map', `new Map(Object.entries(${TENSORS}))`],
  ['pairs', `Object.entries(${TENSORS})`],
])('tensors in %s of another realm', (_, source) => {
  const tensors = foreign<NamedValues<TensorInput<Dtype, never>>>(source);

  test('are saved', async () => {
    const path = temporaryPath('new.safetensors');
    const url = foreignUrl(pathToFileURL(path));
    const { signal } = foreignAbort();
    for (const save of [
      (): unknown =>
        saveFile(url, tensors, { signal, metadata: foreign("new Map([['by', 'me']])") }),
      () => writeFileSync(path, serialize(tensors)),
    ]) {
      await save();
      using file = safeOpen(path);
      expect(valuesOf(file)).toEqual(VALUES);
    }
  });
});

test('a signal of another realm ends a save, also while it waits for a stream', async () => {
  const path = temporaryPath('new.safetensors');
  for (const data of [Uint8Array.of(1), () => new Promise<never>(() => {})]) {
    const { signal, abort } = foreignAbort();
    const saving = saveFile(path, { t: { dtype: 'U8', shape: [1], data } }, { signal });
    const reason = new Error('enough');
    abort(reason);
    await expect(saving).rejects.toBe(reason);
  }
  expect(readdirSync(dirname(path))).toEqual([]);
});

test.each([
  'Uint8Array.of(1, 2, 3)',
  '[Uint8Array.of(1), Uint8Array.of(2, 3)]',
  'new Set([Uint8Array.of(1), Uint8Array.of(2, 3)])',
  '(async function* () { yield Uint8Array.of(1, 2); yield Uint8Array.of(3) })()',
  'async () => [Uint8Array.of(1, 2, 3)]',
])('a writer takes %s of another realm', async (source) => {
  const path = temporaryPath('new.safetensors');
  const specs = foreign<NamedValues<TensorSpec>>("new Map([['t', { dtype: 'U8', shape: [3] }]])");
  const writer = await createWriter(foreignUrl(pathToFileURL(path)), specs);
  await writer.write('t', foreign<WriterData>(source));
  await writer.close();
  using file = safeOpen(path);
  expect(valuesOf(file)).toEqual([['t', 1, 2, 3]]);
});

test.each([true, false])('metadata by values of another realm, in place: %s', async (inPlace) => {
  const path = temporaryPath('new.safetensors');
  writeFileSync(path, serialize({}, { reserve: 100 }));
  const { signal, abort } = foreignAbort();
  const url = foreignUrl(pathToFileURL(path));
  const changes = foreign<Map<string, string>>("new Map([['license', 'mit']])");
  const { metadata } = await editMetadata(url, changes, { inPlace, signal });
  expect(metadata).toEqual(new Map([['license', 'mit']]));
  const reason = new Error('enough');
  abort(reason);
  await expect(editMetadata(url, { by: 'me' }, { inPlace, signal })).rejects.toBe(reason);
});
