/** The page in a browser, in short; `npx vitest run --project viewer` runs the whole. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { findChromium } from '../support/browser.js';
import { writeCheckpoint } from '../support/make-checkpoint.js';
import { fileBytes } from '../support/make-file.js';
import {
  expectAccessible,
  folderUntilEnd,
  PAGE_FILE,
  serve,
  show,
  viewOf,
} from '../support/viewer-page.js';

/** What a visitor waits for, worker and style with it. */
const MAX_COMPRESSED = 170_000;

it('the page is small', () => {
  expect(gzipSync(readFileSync(PAGE_FILE)).byteLength).toBeLessThan(MAX_COMPRESSED);
});

describe.skipIf(findChromium() === null)('the page', () => {
  it('shows the tensors that a server has, and the values of one', async () => {
    const folder = folderUntilEnd();
    const path = join(folder, 'small.safetensors');
    const bytes = new Uint8Array(Float32Array.of(1, -0, 0.1, Number.NaN, 2 ** 100, -3).buffer);
    writeFileSync(path, fileBytes([{ name: 'a.weight', dtype: 'F32', shape: [2, 3], bytes }]));
    const server = await serve(path);
    const { page, faults } = await show(server.address);
    // The only one of the server is opened.
    await page.getByRole('heading', { name: /small/ }).waitFor();
    await page.getByRole('treeitem', { name: /a\.weight/ }).click();
    await page.getByRole('gridcell', { name: 'nan' }).waitFor();
    expect(await page.getByRole('gridcell').allTextContents()).toEqual([
      '1.0',
      '-0.0',
      '0.1',
      'nan',
      '1.2676506e+30',
      '-3.0',
    ]);
    await expectAccessible(page);
    expect(faults).toEqual([]);
  });

  it('opens a folder of shards by its address', async () => {
    const folder = writeCheckpoint(
      {
        shards: {
          'model-00001-of-00002.safetensors': [{ name: 'a', dtype: 'U8', shape: [3] }],
          'model-00002-of-00002.safetensors': [{ name: 'b', dtype: 'U8', shape: [3] }],
        },
      },
      join(folderUntilEnd(), 'model'),
    );
    const server = await serve(folder);
    const { page, faults } = await show(viewOf(server, 'open=model&tensor=b&slice=1:'));
    await page.getByRole('gridcell', { name: '3' }).waitFor();
    expect(await page.getByRole('gridcell').allTextContents()).toEqual(['2', '3']);
    expect(faults).toEqual([]);
  });
});
