/** Values that are NaN in one of two models: they differ, though no difference has a size. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PageServer } from '../../../src/cli/serve/server.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import {
  expectAccessible,
  folderUntilEnd,
  savedText,
  serve,
  show,
  viewOf,
} from '../../support/viewer-page.js';

const SHAPE = [4, 8];
const nameOf = (layer: number) => `model.layers.${layer}.mlp.up_proj.weight`;

/** Three layers with other values by position: in the first, in the second, in the third. */
function model(...changes: readonly (readonly [layer: number, at: number, value: number])[]) {
  return [0, 1, 2, 3].map((layer): Entry => {
    // The last layer has only zeros.
    const all = Float32Array.from({ length: 32 }, (_, at) => (layer === 3 ? 0 : 1 + at / 32));
    for (const [of, at, value] of changes) if (of === layer) all[at] = value;
    return { name: nameOf(layer), dtype: 'F32', shape: SHAPE, bytes: new Uint8Array(all.buffer) };
  });
}

function legend(page: Page): Locator {
  return page.locator('figcaption').getByText('NaN or Inf', { exact: true });
}

let server: PageServer;

beforeAll(async () => {
  const folder = folderUntilEnd();
  const write = (name: string, entries: readonly Entry[]) => {
    writeFileSync(join(folder, name), fileBytes(entries));
    return join(folder, name);
  };
  server = await serve(
    write('whole.safetensors', model()),
    write('copy.safetensors', model()),
    write(
      'broken.safetensors',
      model(
        ...([
          [0, 3, 1.5],
          [0, 9, Number.NaN],
          [1, 5, Number.NaN],
          [1, 6, Number.NaN],
          [2, 7, Number.POSITIVE_INFINITY],
          [3, 1, Number.NaN],
        ] as const),
      ),
    ),
  );
});

describe('values that are NaN or infinite in one model only', () => {
  it.each([1440, 390])('are no small difference, %i pixels wide', async (width) => {
    const address = 'open=whole.safetensors&with=broken.safetensors&view=compare';
    const { page, faults } = await show(viewOf(server, address), {
      viewport: { width, height: 900 },
    });
    await page.getByRole('heading', { name: '4 tensors with other values' }).waitFor();
    await page.getByText('All values have been compared.').waitFor();
    const table = page.getByRole('region', { name: 'Tensors with other values' });
    const rows = await table.getByRole('row').all();
    const texts = await Promise.all(rows.map((row) => row.locator('td, th').allTextContents()));
    expect(texts).toEqual([
      ['Name', '‖a − b‖ ÷ ‖a‖', 'Values that differ', 'Largest difference'],
      [nameOf(1), 'NaN in one only', '2 6.25 %', '–'],
      [nameOf(2), 'Inf in one only', '1 3.13 %', '∞'],
      [nameOf(3), 'NaN in one only', '1 3.13 %', '–'],
      [nameOf(0), expect.stringMatching(/^\d\.\d\d %, NaN or Inf$/), '2 6.25 %', '0.406'],
    ]);
    await legend(page).waitFor();
    const csv = await savedText(page, 'Save differences of values as CSV');
    expect(csv.split(/\r?\n/)[1]).toBe(`${nameOf(1)},NaN,0.0625,0`);
    await expectAccessible(page);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('are named next to the tensor, and not in the legend of models without them', async () => {
    const { page } = await show(
      viewOf(server, `open=whole.safetensors&with=broken.safetensors&tensor=${nameOf(1)}`),
    );
    await page.getByText('6.25 % of the values differ: NaN in one only.').waitFor();
    const { page: same } = await show(
      viewOf(server, 'open=whole.safetensors&with=copy.safetensors&view=compare'),
    );
    await same.getByRole('heading', { name: 'No tensor with other values' }).waitFor();
    expect(await legend(same).count()).toBe(0);
  });
});
