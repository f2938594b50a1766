/** GGUF files on a server, by the entry for browsers: the same model as from a path. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { dequantize } from '../../src/quantized/dequantize.js';
import * as browser from '../../src/runtime-browser.js';
import { expectSameModel } from '../foreign/gguf/same-model.js';
import { open, type RemoteCheckpoint } from '../support/api.js';
import { FileServer } from '../support/file-server.js';
import { root } from '../support/source-tree.js';

const folder = join(root, 'test/fixtures/gguf');

it.each(readdirSync(folder))('%s', async (name) => {
  const path = join(folder, name, 'model.gguf');
  const server = await FileServer.start({ '/model.gguf': readFileSync(path) });
  try {
    using local = await open(path, { remote: false });
    const remote = (await browser.open(server.at('/model.gguf'))) as RemoteCheckpoint;
    await expectSameModel(remote, local, dequantize);
    remote.close();
  } finally {
    await server.close();
  }
  expect(server.requests.length).toBeGreaterThan(0);
});
