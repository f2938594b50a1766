/** The posters of a model, and of two, on a screen without a pointer. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, serve, show, viewOf } from '../../support/viewer-page.js';

const nameOf = (layer: number) => `model.layers.${layer}.mlp.up_proj.weight`;

function model(factor: number): Entry[] {
  return [0, 1, 2].map((layer): Entry => {
    const all = Float32Array.from({ length: 32 }, (_, at) => factor * Math.sin(at + layer));
    return { name: nameOf(layer), dtype: 'F32', shape: [4, 8], bytes: new Uint8Array(all.buffer) };
  });
}

/** Taps the cell of a layer in the only row of a poster. */
async function tapLayer(page: Page, layer: number): Promise<void> {
  const poster = page.getByRole('application', { name: /by role and layer|^relative/ });
  await poster.scrollIntoViewIfNeeded();
  const box = await poster.boundingBox();
  if (box === null) throw new Error('there is no poster');
  // As `posterLayout`: labels, then columns.
  const left = 24 + 6.5 * 'mlp.up_proj'.length;
  const step = Math.min(96, (box.width - left) / 3);
  await page.touchscreen.tap(box.x + left + (layer + 0.5) * step, box.y + 12);
}

it.each([
  ['a model', 'open=one.safetensors', 'Of all values.'],
  [
    'two models',
    'open=one.safetensors&with=two.safetensors&view=compare',
    'All values have been compared.',
  ],
])('taps on a cell of %s show and open its tensor', async (_, address, done) => {
  const folder = folderUntilEnd();
  const paths = [1, 2].map((factor) => join(folder, factor === 1 ? 'one' : 'two'));
  const files = paths.map((path, at) => {
    writeFileSync(`${path}.safetensors`, fileBytes(model(at + 1)));
    return `${path}.safetensors`;
  });
  const server = await serve(...files);
  const { page, faults } = await show(viewOf(server, address), {
    ...{ hasTouch: true, isMobile: true, viewport: { width: 390, height: 844 } },
  });
  await page.getByText(done).waitFor();
  const popover = page.locator('.popover');
  await tapLayer(page, 1);
  await popover.getByText(nameOf(1)).waitFor();
  await popover.getByText('Tap again to open').waitFor();
  // Another cell is shown first, too.
  await tapLayer(page, 2);
  await popover.getByText(nameOf(2)).waitFor();
  await tapLayer(page, 2);
  await page.getByRole('heading', { level: 1, name: nameOf(2) }).waitFor();
  expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
});
