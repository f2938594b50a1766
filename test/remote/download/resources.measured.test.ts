/** The memory of a download. */
import { expect, it } from 'vitest';
import { fileBytes } from '../../support/make-file.js';
import { measureInChild } from '../../support/run-child.js';
import { emptyFolder, noise, useHub } from './downloads.js';

const BYTE_LENGTH = 300_000_000;
const MODEL = fileBytes([
  { name: 'weight', dtype: 'U8', shape: [BYTE_LENGTH], bytes: noise(BYTE_LENGTH) },
]);
const hub = useHub({ 'org/model': { files: { 'model.safetensors': MODEL } } });

interface Measured {
  readonly downloadedBytes: number;
  readonly reusedBytes: number;
  readonly grown: number;
}

it('needs less than 64 MB for 300 MB, beside what fetch itself takes', async () => {
  const folder = emptyFolder('target');
  const env = { HF_ENDPOINT: hub().url };
  const url = `${hub().url}/org/model/resolve/main/model.safetensors`;
  const bare = await measureInChild<Measured>('remote/download/children/bare-fetch.mjs', [
    url,
    String(MODEL.length),
  ]);
  const { downloadedBytes, grown } = await measureInChild<Measured>(
    'remote/download/children/download.mjs',
    ['hf://org/model', folder],
    { env },
  );
  expect(downloadedBytes).toBe(MODEL.length);
  // Most of it is garbage of `fetch` that the engine has yet to collect: 80 to 115 MB.
  expect(grown - bare.grown).toBeLessThan(64_000_000);
  expect(grown).toBeLessThan(MODEL.length / 2);
});
