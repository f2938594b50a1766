import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import * as header from '../../../src/header/header.js';
import * as fileHash from '../../../src/remote/download/file-hash.js';
import { download } from '../../support/api.js';
import { fileBytes } from '../../support/make-file.js';
import { emptyFolder, namesIn, noise } from './downloads.js';
import { FileServer } from './file-server.js';

vi.mock('../../../src/remote/download/file-hash.js', { spy: true });
vi.mock('../../../src/header/header.js', { spy: true });

const LENGTH = 3_000_000;
const FILE = fileBytes(
  ['a', 'b', 'c'].map((name, i) => {
    return { name, dtype: 'F32', shape: [LENGTH / 4], bytes: noise(LENGTH, i) };
  }),
);

let server: FileServer;
beforeAll(async () => {
  server = await FileServer.start();
  server.files.set('model.safetensors', { bytes: FILE, tag: '"one"' });
});
afterAll(() => server.close());
beforeEach(() => {
  vi.clearAllMocks();
});

const chosen = { names: ['c', 'a'], dtype: 'BF16', durable: false } as const;

it('hashes a file while it is written, and reads nothing of it again', async () => {
  const folder = emptyFolder('target');
  const path = join(folder, 'some.safetensors');
  await download(server.url('model.safetensors'), path, chosen);
  expect(fileHash.hashStart).not.toHaveBeenCalled();
  // The header of the source; the header of the new file is made, not read.
  expect(header.parseStart).toHaveBeenCalledTimes(1);
  const record = namesIn(folder).find((name) => name.endsWith('.downloaded')) as string;
  const { hash } = JSON.parse(readFileSync(join(folder, record), 'utf8'));
  expect(hash).toBe(createHash('sha256').update(readFileSync(path)).digest('hex'));
  const again = await download(server.url('model.safetensors'), path, chosen);
  expect(again.downloadedBytes).toBe(0);
});

it('tells the tensors of a file in the order of their bytes', async () => {
  const url = server.url('model.safetensors');
  const path = join(emptyFolder('target'), 'some.safetensors');
  const rename = (name: string): string => ({ a: 'z' })[name] ?? name;
  const plan = await download(url, path, { ...chosen, rename, dryRun: true });
  expect(plan.files.map(({ tensors }) => tensors)).toEqual([['c', 'z']]);
});
