/**
 * The Python library fills the Hub cache by its own functions, in two versions that share bytes between
 * repositories, and reads what we put there: one after the other, and at the same time.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { call } from '../../cli/call.js';
import { downloadFrom, useHub as useHubServer } from '../../remote/download/downloads.js';
import {
  editMetadata,
  safeOpen,
  safeOpenAsync,
  saveCheckpoint,
  saveFile,
} from '../../support/api.js';
import { COMMIT, HubCache, sha256 } from '../../support/hub-cache.js';
import { useHub } from '../../support/hub-environment.js';
import { filesOf, TWO_SHARDS, writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { findPython, isSkipped, type Python, titleWith } from '../../support/python.js';

const FILES = new Map([...filesOf(TWO_SHARDS), ['config.json', Buffer.from('{}')] as const]);
const NAMES = [...FILES.keys()].sort();
const [SHARD = ''] = NAMES.filter((name) => name.endsWith('.safetensors'));
const SHARD_BYTES = FILES.get(SHARD) as Uint8Array;
const HASHES = Object.fromEntries(
  NAMES.map((name) => [name, sha256(FILES.get(name) as Uint8Array)]),
);
const TENSORS = { t: { dtype: 'U8', shape: [1], data: Uint8Array.of(7) } } as const;

const first = findPython('huggingface_hub', 'hf_xet');
/** Next to the first, in a folder that `scripts/python-env.mjs` makes. */
const secondFolder = join(dirname(dirname(first.executable ?? '')), 'huggingface_hub-2');
const second: Python =
  first.missing !== undefined || existsSync(secondFolder)
    ? first
    : { missing: `there is no ${secondFolder}; make it with \`node scripts/python-env.mjs\`` };
const versions = [
  { version: '1.33.0', python: first, path: '' },
  { version: '2.0.0', python: second, path: secondFolder },
];

const hub = useHubServer({ 'org/ours': { files: Object.fromEntries(FILES) } });

for (const { version, python, path } of versions) {
  if (isSkipped(python))
    process.stderr.write(`file/hub/cache-oracle: skipped: ${python.missing}\n`);
  describe.skipIf(isSkipped(python))(titleWith(python, `huggingface_hub ${version}`), () => {
    let cache = '';
    let source = '';
    beforeEach(() => {
      useHub('http://127.0.0.1:9');
      cache = temporaryPath('cache');
      source = temporaryPath('source');
      for (const [name, bytes] of FILES) writeBelow(source, name, bytes);
      vi.stubEnv('HF_HUB_CACHE', cache);
      vi.stubEnv('PYTHONPATH', path);
    });
    afterEach(() => vi.unstubAllEnvs());

    /** Asks Python in another process, since the Hub runs in this one. */
    async function library(...words: string[]): Promise<Record<string, unknown>> {
      const script = join(import.meta.dirname, 'children/use_cache.py');
      const child = spawn(String(python.executable), [script, ...words]);
      const [said, complaint] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        child.exitCode ?? once(child, 'exit'),
      ]);
      if (child.exitCode !== 0) throw new Error(complaint);
      return JSON.parse(said);
    }

    const blobOf = (repository: string): string =>
      join(cache, `models--org--${repository}/blobs`, sha256(SHARD_BYTES));

    /** The paths of the store's entries. */
    const entries = (): string[] =>
      readdirSync(join(cache, 'blobs'), { recursive: true, encoding: 'utf8' }).filter((name) =>
        /[\da-f]{64}$/.test(name),
      );

    const isShared = (repository: string): boolean =>
      lstatSync(blobOf(repository)).isSymbolicLink();

    async function keysOf(id: string): Promise<number> {
      using checkpoint = await safeOpenAsync(id);
      using again = safeOpen(id);
      expect(again.keys()).toEqual(checkpoint.keys());
      return checkpoint.keys().length;
    }

    it('fills a cache that we read and verify, and do not write to', async () => {
      expect((await library('fill', source, 'org/a', 'org/b'))['version']).toBe(version);
      expect([isShared('a'), isShared('b'), entries().length]).toEqual([true, true, 2]);
      for (const id of ['org/a', 'org/b']) {
        expect(await keysOf(id)).toBe(4);
        expect((await call(['verify', id])).code).toBe(0);
        const { files } = JSON.parse((await call(['hash', id, '--json'])).stdout);
        expect(
          files.map(({ declaredHashes }: { declaredHashes: unknown }) => declaredHashes),
        ).toEqual([1, 2].map(() => [expect.objectContaining({ by: 'Hub cache', ok: true })]));
      }
      const link = join(cache, 'models--org--a/snapshots', COMMIT, SHARD);
      const refused = { code: 'SAFETENSORS_HUB_CACHE_BLOB' };
      for (const target of [link, blobOf('b'), join(cache, 'blobs', entries()[0] ?? '')]) {
        await expect(saveFile(target, TENSORS)).rejects.toMatchObject(refused);
        await expect(editMetadata(target, { a: 'b' })).rejects.toMatchObject(refused);
      }
      await expect(saveCheckpoint(dirname(link), TENSORS)).rejects.toMatchObject(refused);
      expect(await library('read', 'org/b')).toMatchObject({ files: HASHES, warnings: [] });
    });

    it('has bytes in its store whose damage both repositories show', async () => {
      await library('fill', source, 'org/a', 'org/b');
      const entry = join(dirname(blobOf('a')), readlinkSync(blobOf('a')));
      chmodSync(entry, 0o644);
      writeFileSync(
        entry,
        SHARD_BYTES.map((byte, i) => (i === SHARD_BYTES.length - 1 ? 0 : byte)),
      );
      for (const id of ['org/a', 'org/b']) {
        expect((await call(['verify', id])).stdout).toMatch(
          /^\S+: \S+_FAILED: Hub cache declares /,
        );
      }
    });

    it('lays out a cache as the other tests of ours do', async () => {
      const ours = new HubCache('ours');
      await library('fill', source, 'org/name');
      for (const [name, bytes] of FILES) {
        if (name.endsWith('.safetensors')) ours.addShared(name, bytes);
        else ours.addPlain(name, bytes);
      }
      // Python names blobs of small files by the hash of git, the tests by SHA-256.
      const linksIn = (folder: string): string[] =>
        readdirSync(folder, { recursive: true, encoding: 'utf8' })
          .filter(
            (name) => lstatSync(join(folder, name)).isSymbolicLink() && !name.endsWith('.json'),
          )
          .map((name) => `${name} -> ${readlinkSync(join(folder, name))}`)
          .sort();
      expect(linksIn(ours.folder)).toEqual(linksIn(cache));
      expect(linksIn(cache)).toHaveLength(4);
      const marker = 'blobs/.huggingface-shared-blobs';
      expect(readFileSync(join(ours.folder, marker))).toEqual(readFileSync(join(cache, marker)));
      expect(await keysOf('org/name')).toBe(4);
    });

    it('finds what we put beside its store, and may clear it', async () => {
      await library('fill', source, 'org/a');
      const before = entries();
      const { path: snapshot } = await downloadFrom(hub(), 'hf://org/ours', 'cache');
      expect([isShared('ours'), entries()]).toEqual([false, before]);
      expect(await library('read', 'org/ours')).toMatchObject({
        snapshot,
        files: HASHES,
        warnings: [],
      });
      await library('delete', 'org/a');
      expect(entries()).toEqual([]);
      expect(await keysOf('org/ours')).toBe(4);
      await library('delete', 'org/ours');
      expect(existsSync(snapshot)).toBe(false);
    });

    it('links what it shares, which we take and it keeps for us', async () => {
      await library('fill', source, 'org/a', 'org/ours');
      const { downloadedBytes } = await downloadFrom(hub(), 'hf://org/ours', 'cache');
      const small = NAMES.filter((name) => !name.endsWith('.safetensors'));
      expect(downloadedBytes).toBeLessThanOrEqual(
        small.reduce((sum, name) => sum + (FILES.get(name) as Uint8Array).length, 0),
      );
      expect(isShared('ours')).toBe(true);
      await library('delete', 'org/a');
      expect(entries()).toHaveLength(2);
      expect(await keysOf('org/ours')).toBe(4);
      expect((await call(['verify', 'org/ours'])).code).toBe(0);
    });

    it('at the same time: every reading is right, or finds a file missing', async () => {
      await library('fill', source, 'org/ours');
      let isOver = false;
      const writers = Promise.all([
        library('refill', source, 'org/ours', nightly('30', '10')),
        library('refill', source, 'org/b', nightly('30', '10')),
      ]).finally(() => {
        isOver = true;
      });
      let [readings, missing] = [0, 0];
      try {
        while (!isOver) {
          readings++;
          missing += await keysOf('org/ours').then(
            () => 0,
            (error) => {
              // For a moment the library has moved the blob away, and has no link in its place yet.
              const gone = /^(?:SAFETENSORS_NOT_IN_CACHE|SAFETENSORS_MISSING_SHARDS|ENOENT)$/;
              expect(error).toMatchObject({ code: expect.stringMatching(gone) });
              return 1;
            },
          );
          if (readings % 5 === 0) await downloadFrom(hub(), 'hf://org/ours', 'cache');
          await setImmediate();
        }
      } finally {
        await writers;
      }
      expect(readings).toBeGreaterThan(missing);
      expect(await library('read', 'org/ours')).toMatchObject({ files: HASHES, warnings: [] });
      await downloadFrom(hub(), 'hf://org/ours', 'cache');
      for (const id of ['org/ours', 'org/b']) {
        expect(await keysOf(id)).toBe(4);
        expect((await call(['verify', id])).code).toBe(0);
      }
    });
  });
}
