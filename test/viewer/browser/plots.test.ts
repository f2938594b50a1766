/** Histograms and line plots: constants, samples, and axes. */
import {
  closeSync,
  ftruncateSync,
  openSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { type Entry, fileBytes } from '../../support/make-file.js';
import {
  folderUntilEnd,
  pressInMenu,
  savedText,
  serve,
  show,
  viewOf,
} from '../../support/viewer-page.js';

function written(name: string, entries: readonly Entry[]): string {
  const path = join(folderUntilEnd(), name);
  writeFileSync(path, fileBytes(entries));
  return path;
}

function floats(name: string, values: readonly number[]): Entry {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  return { name, dtype: 'F32', shape: [values.length], bytes };
}

/** The first and the last column with pixels of bars in a histogram, as shares of the width of its axis. */
async function barExtent(page: Page, tensor: string): Promise<[number, number]> {
  const selector = `canvas[aria-label^="histogram of ${tensor}:"]`;
  return await page.evaluate(`(() => {
    const canvas = document.querySelector(${JSON.stringify(selector)});
    const { width, height } = canvas;
    const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
    const columns = new Set();
    for (let at = 0; at < data.length; at += 4) {
      const isBar = data[at] === 0x3b && data[at + 1] === 0x82 && data[at + 2] === 0xc4;
      if (isBar) columns.add((at / 4) % width);
    }
    const [left, right] = [64, 12];
    const ends = [Math.min(...columns), Math.max(...columns) + 1];
    return ends.map((column) => (column - left) / (width - left - right));
  })()`);
}

describe('a histogram', () => {
  it('of equal values has one bar, at the value', async () => {
    const constants = [
      floats('ones', Array(768).fill(1)),
      floats('zeros', Array(768).fill(0)),
      floats('broken', [Number.NaN, ...Array(99).fill(-2.5)]),
    ];
    const server = await serve(written('constants.safetensors', constants));
    const notes = {
      ones: ['All 768 values are 1', { value: '1', count: 768 }],
      zeros: ['All 768 values are 0', { value: '0', count: 768 }],
      broken: ['All 99 finite values are −2.5', { value: '−2.5', count: 99 }],
    } as const;
    const { page, faults } = await show(viewOf(server, 'open=constants.safetensors'));
    for (const [name, [note, row]] of Object.entries(notes)) {
      await page.evaluate(`location.hash = 'open=constants.safetensors&tensor=${name}'`);
      await page.getByText(note, { exact: true }).waitFor();
      const saved = JSON.parse(await savedText(page, `Save histogram of ${name} as JSON`));
      expect(saved).toEqual([row]);
      // The axis has the value in its middle.
      const [first, last] = await barExtent(page, name);
      expect((first + last) / 2).toBeCloseTo(0.5, 2);
      expect(last - first).toBeLessThan(0.05);
    }
    expect(faults).toEqual([]);
  });
});

/** Writes a tensor of zeros that takes no room on the disk. */
function writeZeros(path: string, shape: readonly number[]): string {
  const byteLength = 4 * shape.reduce((product, size) => product * size, 1);
  const entry = { dtype: 'F32', shape, data_offsets: [0, byteLength] };
  const json = Buffer.from(JSON.stringify({ zeros: entry }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const fd = openSync(path, 'w');
  writeSync(fd, Buffer.concat([length, json]));
  ftruncateSync(fd, 8 + json.length + byteLength);
  closeSync(fd);
  return path;
}

describe('statistics of a served tensor', () => {
  const COUNTS = ['Zeros', 'NaN', 'Infinite', 'Subnormal'];
  const counts = async (page: Page) => {
    const group = page.locator('dl.lines').filter({ hasText: 'Standard deviation' });
    return await Promise.all(
      COUNTS.map((term) => group.locator('div', { hasText: term }).locator('dd').textContent()),
    );
  };

  it('of 9 MB are of all its values', async () => {
    const values = new Float32Array(2_400_000).fill(0.5);
    values[1_234_567] = Number.NaN;
    const bytes = new Uint8Array(values.buffer);
    const entry: Entry = { name: 'large', dtype: 'F32', shape: [1500, 1600], bytes };
    const server = await serve(written('large.safetensors', [entry]));
    const { page, faults } = await show(viewOf(server, 'open=large.safetensors&tensor=large'));
    await page.getByText('All 2,399,999 finite values are 0.5').waitFor();
    expect(await page.getByText(/^Of a sample/).count()).toBe(0);
    expect(await counts(page)).toEqual(['0', '1 < 0.01 %', '0', '0']);
    expect(faults).toEqual([]);
  });

  it('above 64 MiB are those of a sample, and are called so, until all is read', async () => {
    const path = writeZeros(join(folderUntilEnd(), 'zeros.safetensors'), [5000, 4096]);
    const server = await serve(path);
    const { page, faults } = await show(viewOf(server, 'open=zeros.safetensors&tensor=zeros'));
    await page.getByText('Of a sample: 98,304 of 20,480,000 values.').waitFor();
    await page.getByText('All 98,304 values in the sample are 0').waitFor();
    expect(await counts(page)).toEqual([
      'at least 98,304 100 % of the sample',
      ...Array(3).fill('0 seen in sample'),
    ]);
    await page.getByText('Minimum seen').waitFor();
    await page.getByRole('button', { name: /^Read all/ }).click();
    await page.getByText('All 20,480,000 values are 0').waitFor();
    expect(await counts(page)).toEqual(['20,480,000 100 %', '0', '0', '0']);
    await page.getByText('Minimum', { exact: true }).waitFor();
    expect(faults).toEqual([]);
  });
});

describe('a poster', () => {
  it('has no row for causal masks, and hatches constants', async () => {
    const mask = Array.from({ length: 64 }, (_, i) => (i % 8 <= i >> 3 ? 1 : 0));
    const wave = (layer: number, height: number) =>
      Array.from({ length: 64 }, (_, i) => height * (1 + layer / 100) * Math.sin(i));
    const entries = [0, 1, 2].flatMap((layer) => [
      { ...floats(`h.${layer}.attn.bias`, mask), shape: [1, 1, 8, 8] },
      floats(`h.${layer}.attn.weight`, wave(layer, 1)),
      floats(`h.${layer}.ln_1.weight`, Array(64).fill(1)),
    ]);
    const server = await serve(written('masks.safetensors', entries));
    const { page, faults } = await show(viewOf(server, 'open=masks.safetensors'));
    await page.getByText('Of all values.').waitFor();
    const name = 'RMS by role and layer of masks.safetensors';
    const cells = JSON.parse(await savedText(page, `Save ${name} as JSON`));
    expect(cells.map(({ role, layer }: { role: string; layer: number }) => [role, layer])).toEqual(
      ['h.*.attn.weight', 'h.*.ln_1.weight'].flatMap((role) => [0, 1, 2].map((at) => [role, at])),
    );
    await page.getByText('3 tensors with one value only').waitFor();
    await page.getByText('192 values of buffers').waitFor();
    expect(faults).toEqual([]);
  });

  it('is saved as a picture with the name of the model', async () => {
    const wave = Array.from({ length: 64 }, (_, i) => Math.sin(i));
    const server = await serve(written('waves.safetensors', [floats('h.0.mlp.weight', wave)]));
    const { page } = await show(viewOf(server, 'open=waves.safetensors'));
    await page.getByText('Of all values.').waitFor();
    const saved = page.waitForEvent('download');
    await pressInMenu(page, 'Save RMS by role and layer of waves.safetensors as PNG');
    const file = await saved;
    expect(file.suggestedFilename()).toBe('RMS_by_role_and_layer_of_waves.safetensors.png');
    const png = readFileSync(await file.path());
    expect(png.readUInt32BE(16)).toBe(2400);
    expect(png.length).toBeGreaterThan(5000);
  });
});
