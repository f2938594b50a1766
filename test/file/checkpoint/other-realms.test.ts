import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import type { NamedValues } from '../../../src/errors/named-values.js';
import {
  convert,
  loadFile,
  safeOpen,
  saveCheckpoint,
  type TensorInput,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { foreign, foreignAbort, foreignUrl } from '../../support/other-realm.js';

const tensors = foreign<NamedValues<TensorInput>>(`new Map([
  ['a', { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) }],
  ['b', { dtype: 'U8', shape: [2], data: Uint8Array.of(3, 4) }],
])`);

function urlOf(name: string): URL {
  return foreignUrl(pathToFileURL(temporaryPath(name)));
}

test('tensors, URLs, names and signals of another realm', async () => {
  const { signal, abort } = foreignAbort();
  const { files } = await saveCheckpoint(urlOf('two'), tensors, { maxShardSize: '8B', signal });
  expect(files).toHaveLength(2);
  expect((await convert(urlOf('two'), urlOf('one'), { signal })).files).toHaveLength(1);
  for (const name of ['two', 'one']) {
    expect([...loadFile(urlOf(name)).keys()].toSorted()).toEqual(['a', 'b']);
    using checkpoint = safeOpen(urlOf(name));
    expect(checkpoint.getTensor('a').data).toEqual(Float32Array.of(1, 2));
    await checkpoint.prefetch(foreign("new Set(['a'])"), { signal });
    const loaded = await checkpoint.readTensors(foreign("['b']"), { signal });
    expect(loaded.get('b')?.data).toEqual(Uint8Array.of(3, 4));
  }
  const reason = new Error('enough');
  abort(reason);
  await expect(saveCheckpoint(urlOf('two'), tensors, { signal })).rejects.toBe(reason);
  await expect(convert(urlOf('two'), urlOf('three'), { signal })).rejects.toBe(reason);
});
