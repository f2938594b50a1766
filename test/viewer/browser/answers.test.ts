/** Questions that people come with, answered without a click or by one: broken values, the largest tensor, adapters. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PageServer } from '../../../src/cli/serve/server.js';
import { writeCheckpoint } from '../../support/make-checkpoint.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { drop, folderUntilEnd, serve, show, viewOf } from '../../support/viewer-page.js';

const LAYERS = 3;
const SHAPE = [900, 1000];
const BROKEN = [700, 13];
const nameOf = (layer: number) => `h.${layer}.mlp.c_fc.weight`;

/** Layers of 3.6 MB, of which samples are shorter. One value is NaN, where no sample of the whole model is. */
function model(): Entry[] {
  return Array.from({ length: LAYERS }, (_, layer): Entry => {
    const count = 900 * 1000;
    const values = Float32Array.from(
      { length: count },
      (_, at) => Math.sin(at) / (at % 2 ? 7 : 4e4),
    );
    const [row, column] = BROKEN as [number, number];
    if (layer === 1) values[row * 1000 + column] = Number.NaN;
    const bytes = new Uint8Array(values.buffer);
    return { name: nameOf(layer), dtype: 'F32', shape: SHAPE, bytes };
  });
}

function zeros(name: string, shape: number[]): Entry {
  const count = shape.reduce((product, size) => product * size, 1);
  const bytes = new Uint8Array(Float32Array.from({ length: count }, (_, at) => at % 3).buffer);
  return { name, dtype: 'F32', shape, bytes };
}

const SHARDS = ['model-00001-of-00003', 'model-00002-of-00003', 'model-00003-of-00003'];

const folder = folderUntilEnd();
const adapter = join(folder, 'adapter');
let server: PageServer;

beforeAll(async () => {
  const path = join(folder, 'broken.safetensors');
  writeFileSync(path, fileBytes([...model(), zeros('wte.weight', [2000, 500])]));
  const base = join(folder, 'base.safetensors');
  const target = 'model.layers.1.self_attn.q_proj';
  writeFileSync(base, fileBytes([zeros(`${target}.weight`, [8, 8])]));
  mkdirSync(adapter);
  const file = fileBytes([
    zeros(`base_model.model.${target}.lora_A.weight`, [2, 8]),
    zeros(`base_model.model.${target}.lora_B.weight`, [8, 2]),
  ]);
  writeFileSync(join(adapter, 'adapter_model.safetensors'), file);
  const config = JSON.stringify({
    ...{ peft_type: 'LORA', r: 2, lora_alpha: 4 },
    base_model_name_or_path: 'org/base',
  });
  writeFileSync(join(adapter, 'adapter_config.json'), config);
  const shards = SHARDS.map((name, at) => [
    `${name}.safetensors`,
    [{ name: `w${at}`, dtype: 'U8', shape: [3] } as Entry],
  ]);
  const sharded = join(folder, 'sharded');
  writeCheckpoint({ shards: Object.fromEntries(shards) }, sharded);
  const copy = join(folder, 'copy.safetensors');
  copyFileSync(path, copy);
  server = await serve(path, copy, base, adapter, sharded);
});

/** Pixels of the heat map in the colour of values that are broken. */
async function brokenPixels(page: Page): Promise<{ count: number; x: number; y: number }> {
  return await page.evaluate(`(() => {
    const canvas = document.querySelector('.heat canvas');
    const { width, height } = canvas;
    const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
    let [count, x, y] = [0, 0, 0];
    for (let at = 0; at < data.length; at += 4) {
      if (data[at] !== 191 || data[at + 1] !== 0 || data[at + 2] !== 125) continue;
      count++;
      x += ((at / 4) % width) / width;
      y += Math.floor(at / 4 / width) / height;
    }
    return { count, x: x / count, y: y / count };
  })()`);
}

/** Opens a view; the bytes of the last tensors arrive when the test lets them. */
async function showHalf(address: string): Promise<{ page: Page; release: () => void }> {
  const { page } = await show('about:blank');
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.context().route('**/source/**', async (route) => {
    const [, begin] = /bytes=(\d+)/.exec((await route.request().allHeaders())['range'] ?? '') ?? [];
    if (Number(begin) > 2 * 900 * 1000 * 4) await gate;
    else await new Promise((resolve) => setTimeout(resolve, 200));
    await route.continue();
  });
  await page.goto(viewOf(server, address));
  return { page, release };
}

/** The cell of the values with the NaN is chosen, marked, and has a row and a column on each side. */
async function expectNeighbours(page: Page): Promise<void> {
  const cell = page.getByRole('gridcell', { name: 'nan', selected: true });
  await cell.waitFor();
  expect(await cell.getAttribute('class')).toContain('broken');
  const row = page.getByRole('row').filter({ has: cell });
  const texts = await row.getByRole('gridcell').allTextContents();
  expect([texts.indexOf('nan') > 0, texts.indexOf('nan') < texts.length - 1]).toEqual([true, true]);
  const rows = await page.getByRole('rowheader').allTextContents();
  expect(rows).toEqual(expect.arrayContaining(['699', '700', '701']));
}

/** The table of values has the focus, and is in sight. */
async function expectFocusInSight(page: Page): Promise<void> {
  const grid = page.getByRole('grid', { name: 'Values' });
  await expect.poll(() => page.evaluate('document.activeElement.ariaLabel')).toBe('Values');
  await expect
    .poll(async () => {
      const { y = -1, height = 1e9 } = (await grid.boundingBox()) ?? {};
      return y >= 0 && y + height <= 700;
    })
    .toBe(true);
}

describe('is there a NaN', () => {
  it('is known of a small model without a click, and exactly', async () => {
    const { page } = await show(viewOf(server, 'open=broken.safetensors'));
    await page.getByText('Counted in all values.').waitFor();
    await page.getByText('1 tensor with NaN or infinities').waitFor();
    await page.getByText('No tensor with outliers').waitFor();
    expect(await page.getByText('seen in the sample').count()).toBe(0);
    await page.getByRole('link', { name: nameOf(1) }).click();
    await page.getByText('first at [700, 13]').waitFor();
    await expect.poll(() => page.evaluate('location.hash')).toContain('slice=684:717,%20:30');
    await expectNeighbours(page);
  });

  it.each([1440, 390])('is gone to from its tensor, %i pixels wide', async (width) => {
    const { page } = await show(viewOf(server, `open=broken.safetensors&tensor=${nameOf(1)}`), {
      viewport: { width, height: 700 },
    });
    const button = page.getByRole('button', { name: 'Go to it' });
    await button.click();
    await expectNeighbours(page);
    await expectFocusInSight(page);
    // The mark is well inside.
    await expect.poll(async () => (await brokenPixels(page)).count).toBeGreaterThan(30);
    const { x, y } = await brokenPixels(page);
    expect([x > 0.3 && x < 0.6, y > 0.4 && y < 0.6]).toEqual([true, true]);
    // Again, with the slice already there.
    const address = await page.evaluate('location.hash');
    await page.keyboard.press('Home');
    await page.keyboard.press('PageUp');
    await button.click();
    await expectNeighbours(page);
    await expectFocusInSight(page);
    expect(await page.evaluate('location.hash')).toBe(address);
  });

  it('is no answer as long as tensors are being read', async () => {
    const { page, release } = await showHalf('open=broken.safetensors');
    await page.getByText(/^In progress: [123] of 4 tensors read\.$/).waitFor();
    await page.getByText('Looking for tensors with outliers').waitFor();
    expect(await page.getByText(/No tensor|Counted in/).count()).toBe(0);
    expect(await page.locator('.health-mark').allTextContents()).not.toContain('✓');
    release();
    await page.getByText('Counted in all values.').waitFor();
    await page.getByText('1 tensor with NaN or infinities').waitFor();
    await page.getByText('No tensor with outliers').waitFor();
  });

  it('is marked in the heat map, even between the values of its sample', async () => {
    const { page } = await show(viewOf(server, `open=broken.safetensors&tensor=${nameOf(1)}`));
    await page.getByText('Sampled: 1 of 3 rows, 1 of 3 columns. Zoom in for all').waitFor();
    await page.getByText('first at [700, 13]').waitFor();
    await expect.poll(async () => (await brokenPixels(page)).count).toBeGreaterThan(30);
    // Its left half is beyond the edge of the picture.
    const { x, y } = await brokenPixels(page);
    expect(x).toBeLessThan(0.06);
    expect(Math.abs(y - 700.5 / 900)).toBeLessThan(0.02);
  });
});

it('histogram, heat map and values of a tensor are in sight without scrolling', async () => {
  const { page } = await show(viewOf(server, `open=broken.safetensors&tensor=${nameOf(0)}`));
  const shown = [
    page.getByRole('img', { name: /^histogram/ }),
    page.getByRole('application', { name: /^Heat map/ }),
    page.getByRole('gridcell').first(),
  ];
  for (const one of shown) {
    const box = await one.boundingBox();
    expect(box?.y).toBeGreaterThan(0);
    expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThan(900);
  }
});

it('the largest tensor is named in the heading', async () => {
  const { page } = await show(viewOf(server, 'open=broken.safetensors'));
  const heading = page.locator('main header');
  await heading.getByText('Largest tensor: wte.weight, 4.00 MB').waitFor();
  await heading.getByRole('link', { name: 'wte.weight' }).click();
  await page.getByRole('heading', { level: 1, name: 'wte.weight' }).waitFor();
});

describe('an adapter', () => {
  it('is described by its names and shapes', async () => {
    const { page } = await show(viewOf(server, 'open=adapter'));
    const places = 'It changes 1 tensor by 1 pair of matrices of rank 2: q_proj in layer 1';
    await page.getByText(`${places}; scale 2 = alpha 4 ÷ r 2.`).waitFor();
    await page.getByRole('link', { name: 'Open its base to see by how much' }).click();
    // Its base first, and not itself.
    await page.getByText('The adapter names it as its base').waitFor();
    const choices = page.locator('.choices button span:first-child');
    const names = ['base.safetensors', 'broken.safetensors', 'copy.safetensors', 'sharded'];
    expect(await choices.allTextContents()).toEqual(names);
    await choices.first().click();
    await page
      .getByRole('heading', { level: 1, name: /adapter changes 1 of 1 tensor, by/ })
      .waitFor();
    await page.getByText('‖scale · B · A‖ ÷ ‖weight‖').first().waitFor();
    await page.getByText('scale 2 = alpha 4 ÷ r 2').waitFor();
  });

  it.each([
    ['is the second', 'open=base.safetensors&with=adapter'],
    ['is the first', 'open=adapter&with=base.safetensors'],
  ])('that %s leads to the weights of the base, by its poster and its table', async (_, opened) => {
    const weight = 'model.layers.1.self_attn.q_proj.weight';
    const { page, faults } = await show(viewOf(server, `${opened}&view=compare`));
    const poster = page.getByRole('application', { name: /^changes of base/ });
    await poster.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: weight }).waitFor();
    await page.getByRole('gridcell').first().waitFor();
    await page.goBack();
    await page.getByRole('region', { name: 'Pairs' }).getByRole('link').click();
    const shape = page.locator('main dl').getByText('8 × 8');
    await shape.waitFor();
    // The address has what the page shows.
    await page.reload();
    await shape.waitFor();
    expect(await page.getByRole('heading', { name: /^Next to/ }).count()).toBe(0);
    expect(await page.getByRole('alert').count()).toBe(0);
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('that is dropped on its base is scaled by the configuration in its folder', async () => {
    const { page } = await show(viewOf(server, 'open=base.safetensors'));
    await page.getByRole('heading', { name: 'Storage' }).waitFor();
    await drop(page, [adapter], 'main');
    const served = await show(viewOf(server, 'open=base.safetensors&with=adapter&view=compare'));
    const headline = served.page.getByRole('heading', { level: 1, name: /^adapter changes/ });
    await headline.waitFor();
    const text = (await headline.textContent()) as string;
    expect(text).toMatch(/, by [\d.]+ % at most\.$/);
    // What is dropped has the name of its file.
    const [, ending] = text.split('adapter');
    await page.getByRole('heading', { level: 1, name: ending as string }).waitFor();
  });
});

it('values of a column are aligned on the decimal point', async () => {
  const { page } = await show(viewOf(server, `open=broken.safetensors&tensor=${nameOf(0)}`));
  await page.getByRole('gridcell').first().waitFor();
  await expect.poll(() => page.getByRole('gridcell').filter({ hasText: /^…$/ }).count()).toBe(0);
  const points: number[][] = await page.evaluate(`(() => {
    const columns = [];
    for (const row of document.querySelectorAll('.grid-row')) {
      for (const [column, cell] of [...row.querySelectorAll('[role=gridcell]')].entries()) {
        const at = cell.textContent.indexOf('.');
        const range = document.createRange();
        range.setStart(cell.firstChild, at);
        range.setEnd(cell.firstChild, at + 1);
        (columns[column] ??= []).push(range.getBoundingClientRect().x);
      }
    }
    return columns;
  })()`);
  const lengths = new Set(
    (await page.getByRole('gridcell').allTextContents()).map((text) => text.split('.')[1]?.length),
  );
  expect(lengths.size).toBeGreaterThan(2);
  for (const column of points) {
    expect(column.length).toBeGreaterThan(10);
    expect(Math.max(...column) - Math.min(...column)).toBeLessThan(1);
  }
});

describe('the map of bytes', () => {
  it.each([
    ['base.safetensors', 'RMS', 'all bytes'],
    ['broken.safetensors', 'Part', '73 % of the bytes'],
  ])('of %s begins with the colours of %s, since one part has %s', async (name, label) => {
    const { page } = await show(viewOf(server, `open=${name}&view=map`));
    await page.getByRole('button', { name: label, exact: true, pressed: true }).waitFor();
    await page.waitForLoadState('networkidle');
    const pressed = page.locator('main').getByRole('button', { pressed: true });
    expect(await pressed.allTextContents()).toEqual([label]);
  });
});

it('a checkpoint of shards is read by few requests', async () => {
  const { page, requests } = await show(viewOf(server, 'open=sharded'));
  await page.getByText('Counted in all values.').waitFor();
  const ofFiles = requests.filter((url) => url.includes('/source/') || url.endsWith('/ranges'));
  // The index, the headers of three shards, their values; two files that are not there.
  expect(ofFiles.filter((url) => url.endsWith('.safetensors'))).toEqual([]);
  expect(ofFiles.filter((url) => url.endsWith('/ranges')).length).toBeLessThanOrEqual(2);
});

it('a served model is compared with another by one click', async () => {
  const { page } = await show(viewOf(server, 'open=base.safetensors'));
  const offer = page.getByRole('paragraph').filter({ hasText: 'Compare with' });
  await offer.getByRole('button').first().waitFor();
  const names = await offer.getByRole('button').allTextContents();
  expect(names).toEqual(['broken.safetensors', 'copy.safetensors', 'adapter', 'sharded']);
  await offer.getByRole('button', { name: 'adapter' }).click();
  await page.getByRole('heading', { level: 1, name: /^adapter changes 1 of 1 tensor/ }).waitFor();
  expect(await page.evaluate('location.hash')).toContain('with=adapter');
});

describe('whether two models differ', () => {
  const address = 'open=broken.safetensors&with=copy.safetensors&view=compare';

  it('is no answer as long as tensors are being compared', async () => {
    const { page, release } = await showHalf(address);
    await page.getByRole('heading', { name: 'In progress: comparing two models' }).waitFor();
    await page.getByRole('heading', { name: 'In progress: no difference so far' }).waitFor();
    expect(await page.getByText(/No difference/).count()).toBe(0);
    release();
    await page.getByRole('heading', { name: /^All 4 tensors in both have the same/ }).waitFor();
    await page.getByRole('heading', { name: 'No tensor with other values' }).waitFor();
    expect(await page.getByText('In progress').count()).toBe(0);
  });

  it('is what has been read after a stop', async () => {
    const { page, release } = await showHalf(address);
    await page.getByRole('heading', { name: 'In progress: no difference so far' }).waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    const stopped = /^Stopped: no difference found in [\d.]+ MB of [\d.]+ MB$/;
    await page.getByRole('heading', { name: stopped }).waitFor();
    release();
  });
});
