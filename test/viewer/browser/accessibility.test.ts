/** Every view for people who use a keyboard, a screen reader, a small screen, light or dark. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PageServer } from '../../../src/cli/serve/server.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import {
  expectAccessible,
  folderUntilEnd,
  serve,
  show,
  viewOf,
} from '../../support/viewer-page.js';

const LAYERS = 6;
const QUERY = 'model.layers.3.self_attn.q_proj.weight';

const METADATA = {
  'modelspec.title': 'Small writer',
  'modelspec.date': 'yesterday',
  ss_tag_frequency: '{"a": {"house": 3, "tree": 1}}',
  format: 'pt',
  long: 'many words '.repeat(200),
};

/** Values that differ from row to row; `change` is added to those of the third layer. */
function values(count: number, layer: number, change: number): Uint8Array {
  const more = layer === 3 ? change : 0;
  const at = (i: number) => Math.sin(i * (layer + 1)) / 10 + more;
  return new Uint8Array(Float32Array.from({ length: count }, (_, i) => at(i)).buffer);
}

function model(change: number): Entry[] {
  return Array.from({ length: LAYERS }, (_, layer): Entry[] => [
    {
      name: `model.layers.${layer}.self_attn.q_proj.weight`,
      dtype: 'F32',
      shape: [24, 32],
      bytes: values(24 * 32, layer, change),
    },
    {
      name: `model.layers.${layer}.mlp.experts`,
      dtype: 'F32',
      shape: [2, 8, 16],
      bytes: values(256, layer, change),
    },
    { name: `model.layers.${layer}.norm.weight`, dtype: 'F8_E4M3', shape: [16] },
  ]).flat();
}

const ADAPTER: Entry[] = [
  { name: `${QUERY.replace('.weight', '')}.lora_A.weight`, dtype: 'F32', shape: [4, 32] },
  { name: `${QUERY.replace('.weight', '')}.lora_B.weight`, dtype: 'F32', shape: [24, 4] },
];

let server: PageServer;

beforeAll(async () => {
  const folder = folderUntilEnd();
  const write = (name: string, entries: readonly Entry[], metadata = {}) => {
    writeFileSync(join(folder, name), fileBytes(entries, { metadata }));
    return join(folder, name);
  };
  server = await serve(
    write('writer.safetensors', model(0), METADATA),
    write('tuned.safetensors', model(0.5)),
    write('adapter.safetensors', ADAPTER),
  );
});

const FIRST = 'open=writer.safetensors';

/** Views: the address, which is a step from the one before, and what is awaited. */
const VIEWS: readonly (readonly [string, (page: Page) => Promise<unknown>])[] = [
  [`${FIRST}&view=overview`, (page) => page.getByRole('heading', { name: 'Health' }).waitFor()],
  [`${FIRST}&view=tensors`, (page) => page.getByRole('treeitem').first().waitFor()],
  [
    `${FIRST}&view=tensors&find=proj 3&sort=size`,
    (page) => page.getByText('1 found').waitFor({ state: 'attached' }),
  ],
  [`${FIRST}&view=map`, (page) => page.getByRole('heading', { name: 'Map of bytes' }).waitFor()],
  [`${FIRST}&tensor=${QUERY}`, (page) => page.getByRole('gridcell').first().waitFor()],
  [
    `${FIRST}&tensor=model.layers.1.mlp.experts&slice=1, 2:4`,
    (page) => page.getByRole('gridcell').first().waitFor(),
  ],
  [`${FIRST}&tensor=${QUERY}&slice=900`, (page) => page.getByRole('alert').waitFor()],
  [`${FIRST}&tensor=missing`, (page) => page.getByRole('alert').waitFor()],
  [`${FIRST}&view=compare`, (page) => page.getByRole('heading', { level: 1 }).waitFor()],
];

const LOOKS = [
  { width: 1440, colorScheme: 'light' },
  { width: 1440, colorScheme: 'dark' },
  { width: 390, colorScheme: 'light' },
  { width: 390, colorScheme: 'dark' },
] as const;

/** Controls that fingers miss. Links in texts are as high as their lines. */
function smallTargets(page: Page): Promise<string[]> {
  return page
    .locator('button, summary.button, select, [role=treeitem]')
    .filter({ visible: true })
    .evaluateAll((all) =>
      all
        .filter((one) => one.getBoundingClientRect().height < 44)
        .map((one) => one.outerHTML.slice(0, 200)),
    );
}

describe.each(LOOKS)('at $width pixels, $colorScheme', ({ width, colorScheme }) => {
  // Narrow screens are those of phones.
  const hasTouch = width === 390;
  const options = { viewport: { width, height: 844 }, colorScheme, hasTouch };

  it('every view of one model passes axe, and has one main heading', async () => {
    const { page, faults } = await show(server.address, options);
    await page.getByRole('listitem').first().waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: /writer/ }).click();
    await page.getByRole('heading', { name: 'Small writer' }).waitFor();
    for (const [address, shown] of VIEWS) {
      await page.evaluate(`location.hash = ${JSON.stringify(address)}`);
      await shown(page);
      await expectAccessible(page);
      const headings = await page.getByRole('heading', { level: 1 }).count();
      expect([address, headings]).toEqual([address, 1]);
      // Nothing is wider than the screen.
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      if (hasTouch) expect([address, await smallTargets(page)]).toEqual([address, []]);
    }
    expect(faults).toEqual([]);
  });

  it('two models, and an adapter, pass axe', async () => {
    const both = await show(
      viewOf(server, `${FIRST}&with=tuned.safetensors&view=compare`),
      options,
    );
    await both.page.getByRole('heading', { name: '2 tensors with other values' }).waitFor();
    await expectAccessible(both.page);
    // No column is cut.
    const table = both.page.getByRole('region', { name: 'Tensors with other values' });
    const excess = await table.evaluate((box) => {
      const { scrollWidth, clientWidth } = box as unknown as Record<string, number>;
      return Number(scrollWidth) - Number(clientWidth);
    });
    expect(excess).toBe(0);
    const adapter = await show(
      viewOf(server, `${FIRST}&with=adapter.safetensors&view=compare`),
      options,
    );
    await adapter.page.getByRole('heading', { name: 'LoRA: 1 pair' }).waitFor();
    await expectAccessible(adapter.page);
    expect([...both.faults, ...adapter.faults]).toEqual([]);
  });
});

describe('with the keyboard alone', () => {
  /** Presses Tab until an element of that role and name has the focus. */
  async function tabTo(page: Page, selector: string): Promise<void> {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press('Tab');
      const isThere = `document.activeElement.matches(${JSON.stringify(selector)})`;
      if (await page.evaluate(isThere)) return;
    }
    throw new Error(`Tab does not lead to ${selector}`);
  }

  it('a visit goes from opening to a value, a slice, the map and back', async () => {
    const { page, faults } = await show(server.address);
    await page.getByRole('listitem').first().waitFor();
    await tabTo(page, '.choices button');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Small writer' }).waitFor();
    // Search, then the list.
    await tabTo(page, 'input[type=search]');
    await page.keyboard.type('3 q_proj');
    await page.getByText('1 found').waitFor();
    await tabTo(page, '[role=tree]');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: QUERY }).waitFor();
    await page.getByRole('gridcell').first().waitFor();
    // A slice, then a cell of it.
    await tabTo(page, '.selection input');
    await page.keyboard.type('2:, ::-1');
    await page.keyboard.press('Enter');
    await page.getByRole('rowheader', { name: '2', exact: true }).waitFor();
    await tabTo(page, '[role=grid]');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('End');
    await page.getByText('[3, 0] =').waitFor();
    // The map: the largest tensor is first.
    await page.keyboard.press('Escape');
    await tabTo(page, 'a[href*="view=map"]');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Map of bytes' }).waitFor();
    await tabTo(page, 'canvas');
    await page.keyboard.press('ArrowRight');
    await page.goBack();
    await page.getByText('[2, 31] =').waitFor();
    expect(faults).toEqual([]);
  });

  it('the tree opens, closes and tells its levels', async () => {
    const { page } = await show(viewOf(server, `${FIRST}&view=tensors`));
    const rows = page.getByRole('treeitem');
    await rows.first().waitFor();
    await page.getByRole('tree').focus();
    await page.keyboard.press('End');
    const last = await rows.last().getAttribute('aria-level');
    await page.keyboard.press('ArrowRight');
    await expect
      .poll(async () => Number(await rows.last().getAttribute('aria-level')))
      .toBeGreaterThan(Number(last));
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => rows.last().getAttribute('aria-level')).toBe(last);
  });
});
