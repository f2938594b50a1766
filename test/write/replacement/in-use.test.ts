/** Targets that are in use on Windows are reported before anything is written. */
import type fs from 'node:fs';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { call } from '../../cli/call.js';
import { downloadFrom, useHub } from '../../remote/download/downloads.js';
import { convert, createWriter, saveCheckpoint, saveFile } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

/** Windows' flag for a file that is open nowhere else. */
const EXCLUSIVE = 0x1000_0000;

/** Paths of files in use. */
const used = new Set<string>();

vi.mock('node:fs', async (original) => {
  const real = await original<typeof fs>();
  const openSync: typeof fs.openSync = (path, flags, mode) => {
    if (typeof flags !== 'number' || (flags & EXCLUSIVE) === 0) {
      return real.openSync(path, flags, mode);
    }
    if (used.has(path.toString())) throw Object.assign(new Error('in use'), { code: 'EBUSY' });
    return real.openSync(path, flags & ~EXCLUSIVE, mode);
  };
  return { ...real, openSync, default: { ...real, openSync } };
});

const { platform } = process;
const TENSORS = { a: { dtype: 'U8', shape: [1], data: Uint8Array.of(7) } } as const;
const SPECS = { a: { dtype: 'U8', shape: [1] } } as const;
const MODEL = fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }]);
const hub = useHub({ 'org/one': { files: { 'model.safetensors': MODEL } } });

let folder = '';
let path = '';
let source = '';
beforeEach(async () => {
  folder = temporaryPath('folder');
  mkdirSync(folder);
  path = join(folder, 'model.safetensors');
  writeFileSync(path, 'old');
  source = temporaryPath('source.safetensors');
  await saveFile(source, TENSORS);
  Object.defineProperty(process, 'platform', { value: 'win32' });
});
afterEach(() => {
  used.clear();
  Object.defineProperty(process, 'platform', { value: platform });
});

const overwrite = { overwrite: true, durable: false };
const ways: Record<string, () => Promise<unknown>> = {
  saveFile: () => saveFile(path, TENSORS),
  createWriter: () => createWriter(path, SPECS).then((writer) => writer.abort()),
  saveCheckpoint: () => saveCheckpoint(folder, TENSORS, { durable: false }),
  'convert to a file': () => convert(source, path, overwrite),
  'convert to a folder': () => convert(source, folder, overwrite),
  reshard: () => convert(source, folder, overwrite),
  'download to a file': () => downloadFrom(hub(), 'hf://org/one', path, overwrite),
  'download to a folder': () => downloadFrom(hub(), 'hf://org/one', folder, overwrite),
};

it.each(Object.keys(ways))('%s', async (name) => {
  used.add(path);
  await expect(ways[name]?.()).rejects.toMatchObject({
    code: 'SAFETENSORS_TARGET_IN_USE',
    path,
    cause: { code: 'EBUSY' },
  });
  expect([readdirSync(folder), readFileSync(path, 'utf8')]).toEqual([['model.safetensors'], 'old']);
  used.clear();
  await ways[name]?.();
  Object.defineProperty(process, 'platform', { value: platform });
  await ways[name]?.();
});

it('join of several files', async () => {
  const other = temporaryPath('other.safetensors');
  writeFileSync(other, fileBytes([{ name: 'b', dtype: 'U8', shape: [1] }]));
  used.add(path);
  for (const target of [path, folder]) {
    const { code, stderr } = await call(['join', source, other, '-o', target, '--force']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('SAFETENSORS_TARGET_IN_USE')]);
  }
  expect([readdirSync(folder), readFileSync(path, 'utf8')]).toEqual([['model.safetensors'], 'old']);
});

it('but not a file that is only deleted, and not the source', async () => {
  used.add(path);
  const { deleted } = await saveCheckpoint(
    ...([folder, { ...TENSORS, b: TENSORS.a }, { maxShardSize: 1, durable: false }] as const),
  );
  expect([deleted, existsSync(path)]).toEqual([['model.safetensors'], false]);
  used.add(source);
  await convert(source, source, { durable: false });
});
