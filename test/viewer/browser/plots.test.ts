/** Histograms and line plots: constants, samples, and axes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, savedText, serve, show, viewOf } from '../../support/viewer-page.js';

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
