/** Distributed checkpoints that a browser reads from the server: as a safetensors file of whole tensors. */
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { PageServer } from '../../../src/cli/serve/server.js';
import { servedSources } from '../../../src/cli/serve/sources.js';
import { loadFile, openRemote } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { ask, PAGE, partsOf } from './ask.js';

const FIXTURES = join(root, 'test/fixtures/dcp');

let server: PageServer;
afterEach(() => server.close());

/** The address of the only served file, with the name that the page shows. */
async function serve(folder: string): Promise<readonly [name: string, path: string]> {
  const { sources } = await servedSources(folder, {}, new AbortController().signal);
  server = await PageServer.start({ page: PAGE, sources }, 0);
  const { sources: listed } = JSON.parse(`${(await ask(server, '/sources.json')).body}`);
  expect(listed).toHaveLength(1);
  expect(listed[0].files).toHaveLength(1);
  const [{ name, path }] = listed[0].files;
  return [name, path];
}

it.each(['dcp-hf-two-ranks', 'dcp-hf-int-and-scalar', 'dcp-nested-bytes', 'dcp-single'])(
  '%s has whole tensors',
  async (fixture) => {
    const [name, path] = await serve(join(FIXTURES, fixture, 'ckpt'));
    expect(name).toBe('ckpt.safetensors');
    const { port, token } = partsOf(server);
    const headers = { 'x-safetensors-token': token };
    const remote = await openRemote(`http://127.0.0.1:${port}/${path}`, { headers });
    const expected = loadFile(join(FIXTURES, fixture, 'expected.safetensors'));
    expect(remote.keys()).toEqual([...expected.keys()].sort());
    for (const [key, { dtype, shape, bytes }] of expected) {
      const tensor = await remote.getTensor(key);
      expect([tensor.dtype, tensor.shape]).toEqual([dtype, shape]);
      expect(Buffer.compare(tensor.bytes, bytes), key).toBe(0);
    }
    remote.close();
  },
);

it('those below a folder are listed, and damaged ones skipped', async () => {
  const { sources, skipped } = await servedSources(FIXTURES, {}, new AbortController().signal);
  server = await PageServer.start({ page: PAGE, sources }, 0);
  const ofPieces = ['dcp-hf-int-and-scalar', 'dcp-hf-two-ranks', 'dcp-nested-bytes', 'dcp-single'];
  const names = sources.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(ofPieces.map((id) => `dcp/${id}/ckpt`)));
  expect(names.filter((name) => name.includes('shard-'))).toEqual([]);
  expect(skipped).toEqual([
    {
      path: join(FIXTURES, 'bad-dcp-hf-first-rank-missing/ckpt'),
      reason: expect.stringContaining('1 of 2 ranks are missing: shard-00001'),
    },
  ]);
  const { sources: listed } = JSON.parse(`${(await ask(server, '/sources.json')).body}`);
  const { files } = listed.find(
    ({ name }: { name: string }) => name === 'dcp/dcp-nested-bytes/ckpt',
  );
  const { port, token } = partsOf(server);
  const remote = await openRemote(`http://127.0.0.1:${port}/${files[0].path}`, {
    headers: { 'x-safetensors-token': token },
  });
  expect((await remote.getTensor('model.rows')).shape).toEqual([7, 6]);
  remote.close();
});

it('a rank that is replaced is an error, not other values', async () => {
  const folder = temporaryPath('ranks');
  cpSync(join(FIXTURES, 'dcp-hf-two-ranks/ckpt'), folder, { recursive: true });
  const [, path] = await serve(folder);
  const { body } = await ask(server, `/${path}`);
  expect(body.length).toBeGreaterThan(448);
  writeFileSync(join(folder, 'shard-00002-model-00001-of-00001.safetensors'), 'other');
  const after = await ask(server, `/${path}`).catch(() => undefined);
  expect(after?.status === 200 && after.body.length === body.length).toBe(false);
});
