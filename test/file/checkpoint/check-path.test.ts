/** `checkPath`: `ok` of an open checkpoint after its paths lead to other files. */
import { mkdirSync, openSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { open, safeOpen, safeOpenAsync, select } from '../../support/api.js';
import { filesOf, TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { type Entry, fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';

const ENTRIES: readonly Entry[] = [{ name: 't', dtype: 'U8', shape: [4] }];

function replace(path: string, bytes: Uint8Array): void {
  writeFileSync(`${path}.new`, bytes);
  renameSync(`${path}.new`, path);
}

const ways = [
  ['safeOpen', async (path: string, options: object) => safeOpen(path, options)],
  ['safeOpenAsync', safeOpenAsync],
  ['open', async (path: string, options: object) => open(path, { ...options, remote: false })],
] as const;

describe.each(ways)('%s', (_, opening) => {
  it('notices a rename over the file, if asked to, and has the old bytes', async () => {
    const path = writeTemporary(ENTRIES);
    const watching = await opening(path, { checkPath: true });
    const others = [await opening(path, {}), await opening(path, { checkPath: false })];
    const view = select(watching, { names: () => true });
    expect([watching.ok, view.ok]).toEqual([true, true]);
    replace(path, fileBytes([{ ...(ENTRIES[0] as Entry), bytes: new Uint8Array(4) }]));
    expect([watching.ok, view.ok, ...others.map(({ ok }) => ok)]).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(watching.getTensor('t').data).toEqual(Uint8Array.of(1, 2, 3, 4));
    for (const one of [watching, ...others]) one.close();
    expect(watching.ok).toBe(false);
  });

  it('notices another shard, also one that was not used yet, and another index', async () => {
    for (const [name, bytes] of filesOf(TWO_SHARDS)) {
      const folder = writeCheckpoint(TWO_SHARDS);
      const model = await opening(folder, { checkPath: true });
      expect(model.ok).toBe(true);
      replace(join(folder, name), bytes);
      expect(model.ok).toBe(false);
      model.close();
    }
  });

  it('notices a path that leads nowhere, and back', async () => {
    const path = writeTemporary(ENTRIES);
    const file = await opening(path, { checkPath: true });
    renameSync(path, `${path}.away`);
    expect(file.ok).toBe(false);
    renameSync(`${path}.away`, path);
    expect(file.ok).toBe(true);
    file.close();
  });

  it('takes no other time for another file', async () => {
    const path = writeTemporary(ENTRIES);
    const file = await opening(path, { checkPath: true });
    utimesSync(path, 1, 1);
    expect(file.ok).toBe(true);
    file.close();
  });

  it.skipIf(process.platform === 'win32')('notices the switch of a link', async () => {
    const root = temporaryPath('versions');
    for (const name of ['v1', 'v2']) {
      writeBelow(root, `${name}/model.safetensors`, fileBytes(ENTRIES));
    }
    mkdirSync(join(root, 'links'));
    symlinkSync('../v1', join(root, 'links/current'));
    symlinkSync('../v2', join(root, 'links/next'));
    const model = await opening(join(root, 'links/current'), { checkPath: true });
    renameSync(join(root, 'links/next'), join(root, 'links/current'));
    expect(model.ok).toBe(false);
    model.close();
  });

  it('needs a path, and a boolean', async () => {
    const path = writeTemporary(ENTRIES);
    const wrong = opening(path, { checkPath: 'yes' as unknown as boolean });
    await expect(wrong).rejects.toThrow(/checkPath must be a boolean/);
    const descriptor = opening(openSync(path, 'r') as unknown as string, { checkPath: true });
    await expect(descriptor).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  });
});
