/** The leftovers of a download: descriptors, sockets, files. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { expect, it } from 'vitest';
import { fileBytes } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { childPath } from '../../support/run-child.js';
import { downloadFrom, emptyFolder, namesIn, noise, useHub } from './downloads.js';

const BYTE_LENGTH = 40_000_000;
const MODEL = fileBytes([
  { name: 'weight', dtype: 'U8', shape: [BYTE_LENGTH], bytes: noise(BYTE_LENGTH) },
]);
const hub = useHub({ 'org/model': { files: { 'model.safetensors': MODEL } } });
const source = 'hf://org/model';
const script = 'remote/download/children/download.mjs';

it('goes on after its process was killed in the middle', async () => {
  const folder = emptyFolder('target');
  const child = spawn(process.execPath, [childPath(script), source, folder, 'announce'], {
    env: { ...process.env, HF_ENDPOINT: hub().url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'close');
  expect(namesIn(folder)).toEqual([expect.stringMatching(/\.incomplete$/)]);
  const { downloadedBytes, reusedBytes } = await downloadFrom(hub(), source, folder);
  expect(reusedBytes).toBeGreaterThan(BYTE_LENGTH / 4);
  expect(downloadedBytes + reusedBytes).toBe(MODEL.length);
  expect(readFileSync(join(folder, 'model.safetensors')).equals(MODEL)).toBe(true);
  expect(namesIn(folder)).toEqual(['model.safetensors']);
});

it('leaves nothing open when it is aborted, but what it goes on with', async () => {
  const folder = emptyFolder('target');
  const timers = (): number =>
    process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const timersBefore = timers();
  for (let round = 1; round <= 3; round++) {
    const controller = new AbortController();
    const onProgress = ({ bytes }: { bytes: number }): void => {
      if (bytes > round * 8_000_000) controller.abort(new Error('enough'));
    };
    const { signal } = controller;
    const aborted = downloadFrom(hub(), source, folder, { signal, onProgress });
    await expect(aborted).rejects.toThrow('enough');
    expect(namesIn(folder)).toEqual([expect.stringMatching(/\.incomplete$/)]);
  }
  await expect.poll(timers).toBeLessThanOrEqual(timersBefore);
  expect(openDescriptors()).toEqual([]);
  // Idle connections stay open for reuse.
  expect(await hub().connections()).toBeLessThan(10);
  const { reusedBytes } = await downloadFrom(hub(), source, folder);
  expect(reusedBytes).toBeGreaterThan(8_000_000);
});

it('rejects at once for a signal that was aborted before', async () => {
  const folder = emptyFolder('target');
  const signal = AbortSignal.abort(new Error('never'));
  await expect(downloadFrom(hub(), source, folder, { signal })).rejects.toThrow('never');
  expect(namesIn(folder)).toEqual([]);
});
