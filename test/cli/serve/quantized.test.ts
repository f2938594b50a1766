/** Quantized weights that a browser reads from the server: the same numbers as those of the files. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { PageServer } from '../../../src/cli/serve/server.js';
import { servedSources } from '../../../src/cli/serve/sources.js';
import { dequantized, openRemote, safeOpen } from '../../support/api.js';
import { root } from '../../support/source-tree.js';
import { ask, PAGE, partsOf } from './ask.js';

const FIXTURES = join(root, 'test/fixtures');

const READ = [
  ...['comfy-awq-w4a16', 'comfy-convrot-w4a4', 'comfy-fp8-marker', 'comfy-int8-tensorwise'].map(
    (name) => `quantized-comfy/${name}`,
  ),
  'quantized/gptq-4bit-sym-v1',
];

let server: PageServer;
afterEach(() => server.close());

describe.each(READ)('%s', (fixture) => {
  it('has the same values by HTTP, and the bytes of its file', async () => {
    const folder = join(FIXTURES, fixture);
    const { sources } = await servedSources(folder, {}, new AbortController().signal);
    server = await PageServer.start({ page: PAGE, sources }, 0);
    const { sources: listed } = JSON.parse(`${(await ask(server, '/sources.json')).body}`);
    const weights = listed[0].files.find(({ name }: { name: string }) =>
      name.endsWith('.safetensors'),
    );
    const served = await ask(server, `/${weights.path}`);
    expect(served.body).toEqual(readFileSync(join(folder, weights.name)));

    const { port, token } = partsOf(server);
    const address = `http://127.0.0.1:${port}/${weights.path}`;
    const headers = { 'x-safetensors-token': token };
    const remote = await dequantized(await openRemote(address, { headers }));
    const local = await dequantized(safeOpen(folder));
    expect(remote.keys()).toEqual(local.keys());
    expect(local.keys().some((name) => local.info(name).quantization !== undefined)).toBe(true);
    for (const name of local.keys()) {
      const values = (await remote.getTensor(name)).toFloat32();
      expect(values, name).toEqual(local.getTensor(name).toFloat32());
    }
  });
});
