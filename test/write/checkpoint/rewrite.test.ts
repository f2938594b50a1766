import { statSync } from 'node:fs';
import { expect, it } from 'vitest';
import { rewriteFile } from '../../../src/write/checkpoint/rewrite.js';
import { openSafetensorsSource } from '../../../src/write/checkpoint/safetensors-source.js';
import { loadFile } from '../../support/api.js';
import { writeTemporary } from '../../support/make-file.js';

it('closes its source before it replaces it, which Windows asks for', async () => {
  const bytes = Uint8Array.of(1, 2, 3, 4);
  const path = writeTemporary([{ name: 'a', dtype: 'U8', shape: [4], bytes }]);
  const old = statSync(path).ino;
  const replaced: boolean[] = [];
  const open: Parameters<typeof rewriteFile>[1] = async () => {
    const source = await openSafetensorsSource(path, { verify: true, signal: undefined });
    const close = (): void => {
      replaced.push(statSync(path).ino !== old);
      source.close();
    };
    return { ...source, close };
  };
  await rewriteFile(path, open, {
    selection: { rename: (name) => `${name}.b` },
    shared: 'copy',
    metadata: new Map(),
    durable: false,
  });
  expect(replaced).toEqual([false, true]);
  expect([...loadFile(path)].map(([name, tensor]) => [name, tensor.bytes])).toEqual([
    ['a.b', bytes],
  ]);
});
