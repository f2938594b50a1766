/** A second model, and a base: sentences, histograms over one range, differences in the heat map; keys of the page. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
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

const LAYERS = 6;
const SHAPE = [8, 12];
const COUNT = 96;

const nameOf = (layer: number) => `model.layers.${layer}.mlp.up_proj.weight`;

function values(layer: number): Float32Array {
  return Float32Array.from({ length: COUNT }, (_, at) => Math.sin(at * (layer + 1)) / 4);
}

/** A model whose weights are twice as large in some layers. */
function model(changed: readonly number[], broken = -1): Entry[] {
  return Array.from({ length: LAYERS }, (_, layer): Entry => {
    const all = values(layer).map((value) => (changed.includes(layer) ? 2 * value : value));
    if (layer === broken) all[5 * 12 + 7] = Number.NaN;
    return { name: nameOf(layer), dtype: 'F32', shape: SHAPE, bytes: new Uint8Array(all.buffer) };
  });
}

let server: PageServer;
let single: PageServer;

beforeAll(async () => {
  const folder = folderUntilEnd();
  const write = (name: string, entries: readonly Entry[]) => {
    writeFileSync(join(folder, name), fileBytes(entries));
    return join(folder, name);
  };
  server = await serve(
    write('base.safetensors', model([])),
    write('one.safetensors', model([2, 3, 4])),
    write('two.safetensors', model([4, 5], 1)),
  );
  const only = join(folder, 'only');
  mkdirSync(only);
  writeFileSync(join(only, 'model.safetensors'), fileBytes(model([], 4)));
  const config = { architectures: ['Small'], num_hidden_layers: LAYERS, hidden_size: 12 };
  writeFileSync(join(only, 'config.json'), JSON.stringify(config));
  single = await serve(only);
});

/** Faults but those of files that are not there: Chromium writes of a missing configuration in its console. */
const real = (faults: readonly string[]) => faults.filter((fault) => !fault.includes('404'));

describe('two models', () => {
  it('with the one that both were made from: which layers each touched', async () => {
    const address = 'open=one.safetensors&with=two.safetensors&base=base.safetensors&view=compare';
    const { page, faults } = await show(viewOf(server, address));
    await page.getByText('a touched layers 2–4, b 1, 4 and 5; both 4.').waitFor();
    const name = 'relative difference of base.safetensors and one.safetensors';
    const saved = JSON.parse(await savedText(page, `Save ${name} as JSON`));
    expect(saved.map(({ value }: { value: number }) => value)).toEqual([0, 0, 1, 1, 1, 0]);
    await expectAccessible(page);
    expect(real(faults)).toEqual([]);
  });

  it('have a tensor next to each other', async () => {
    const address = `open=base.safetensors&with=one.safetensors&tensor=${nameOf(2)}`;
    const { page, faults } = await show(viewOf(server, address));
    await page.getByRole('heading', { name: 'Next to one.safetensors' }).waitFor();
    await page.getByText('‖a − b‖ ÷ ‖a‖ is 100 %').waitFor();
    const rows = JSON.parse(await savedText(page, `Save histograms of ${nameOf(2)} as JSON`));
    const sum = (key: string) =>
      rows.reduce((all: number, row: Record<string, number>) => all + (row[key] as number), 0);
    // b is twice as wide: in the common range both have all their values.
    expect([sum('a'), sum('b')]).toEqual([COUNT, COUNT]);
    const map = page.getByRole('application', { name: /^Heat map/ });
    await page.getByText(/^Exact: every value/).waitFor();
    const status = page.locator('section', { has: map }).getByRole('status').last();
    const shownAt = async () => {
      await map.hover({ position: { x: 3, y: 3 } });
      await expect.poll(() => status.textContent()).toContain('[0, 0] =');
      return status.textContent();
    };
    expect(await shownAt()).toBe('[0, 0] = 0');
    const corner = async () => {
      await map.hover({ position: { x: 3, y: 255 } });
      await expect.poll(() => status.textContent()).toContain('[7, 0] =');
      return Number((await status.textContent())?.split('= ')[1]?.replace('−', '-'));
    };
    const value = values(2)[84] as number;
    for (const [mode, expected] of [
      ['a', value],
      ['b', 2 * value],
      ['a − b', -value],
    ] as const) {
      await page.getByRole('button', { name: mode, exact: true }).click();
      await expect.poll(corner).toBeCloseTo(expected, 4);
    }
    await page.getByRole('button', { name: 'Blink' }).click();
    await page.getByRole('button', { name: 'b', exact: true, pressed: true }).waitFor();
    await page.getByRole('button', { name: 'a', exact: true, pressed: true }).waitFor();
    expect(real(faults)).toEqual([]);
  });
});

describe('the only model of a server', () => {
  it('is opened, with its architecture and its health; a broken value is one click away', async () => {
    const { page, faults } = await show(single.address);
    await page.getByRole('heading', { level: 1, name: 'only' }).waitFor();
    expect(await page.title()).toBe('overview – only');
    const architecture = page.locator('section', {
      has: page.getByRole('heading', { name: 'Architecture' }),
    });
    expect(await architecture.locator('dd').allTextContents()).toEqual(['Small', '6', '12']);
    await page.getByText('1 tensor with NaN or infinities').waitFor();
    await page
      .locator('section', { has: page.getByRole('heading', { name: 'Health' }) })
      .getByRole('link', { name: nameOf(4) })
      .click();
    await page.getByRole('gridcell', { name: 'nan' }).first().waitFor();
    expect(await page.getByRole('gridcell').first().textContent()).toBe('nan');
    // From the tensor itself, too.
    await page.evaluate(`location.hash = 'open=only&tensor=${nameOf(4)}'`);
    await page.getByRole('button', { name: 'Go to it' }).click();
    await expect.poll(() => page.evaluate('location.hash')).toContain('slice=5:,%207:');
    // Closing it leads to the list.
    await page.getByRole('button', { name: 'Close', exact: true }).click();
    await page.getByRole('listitem').getByRole('button', { name: /only/ }).waitFor();
    expect(faults).toEqual([]);
  });

  it('names tensors like one that is not there', async () => {
    const { page } = await show(viewOf(single, `open=only&tensor=${nameOf(4)}s`));
    await page.getByRole('alert').filter({ hasText: 'did you mean' }).waitFor();
  });
});

describe('keys', () => {
  const hashOf = (page: Page) => page.evaluate<string>('location.hash');

  it('search, go to views and layers, and list themselves', async () => {
    const { page, faults } = await show(viewOf(single, 'open=only'));
    await page.getByRole('treeitem').first().waitFor();
    await page.keyboard.press('/');
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('search');
    await page.keyboard.type('gm');
    expect(await hashOf(page)).toContain('find=gm');
    await page.getByRole('searchbox').fill('');
    await page.locator('main').focus();
    await page.keyboard.press('g');
    await page.keyboard.press('m');
    await page.getByRole('heading', { name: 'Map of bytes' }).waitFor();
    await page.keyboard.press('Control+k');
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('search');
    await page.evaluate(`location.hash = 'open=only&tensor=${nameOf(2)}'`);
    await page.locator('main').focus();
    await page.keyboard.press(']');
    await page.getByRole('heading', { level: 1, name: nameOf(3) }).waitFor();
    await page.keyboard.press('?');
    const dialog = page.getByRole('dialog', { name: 'Keyboard' });
    await dialog.waitFor();
    await expectAccessible(page);
    await dialog.getByRole('checkbox').uncheck();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    await page.locator('main').focus();
    await page.keyboard.press(']');
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(nameOf(3));
    expect(faults).toEqual([]);
  });

  it('move in a poster, and open a tensor', async () => {
    const { page } = await show(viewOf(single, 'open=only'));
    await page.getByText('Of all values.').waitFor();
    const poster = page.getByRole('application', { name: /^RMS by role and layer/ });
    await poster.focus();
    for (let step = 0; step < 3; step++) await page.keyboard.press('ArrowRight');
    await page.locator('.popover').getByText(nameOf(2)).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: nameOf(2) }).waitFor();
  });
});
