/** A second model, and a base: sentences, histograms over one range, differences in the heat map; keys of the page. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page, Route } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PageServer } from '../../../src/cli/serve/server.js';
import { FileServer } from '../../support/file-server.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import {
  atEnd,
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

/** Values of two tensors, and what the page shows as their cosine. */
const COSINES: Readonly<Record<string, readonly [number[], number[], string]>> = {
  half_right: [[1, 0], [1, 1], '0.707107'],
  opposite: [[1, -2], [-2, 4], '−1'],
  across: [[1, 0], [-1e-9, 1], '0'],
  nearly: [[1, 0], [1, 1e-4], '0.999999…'],
  same: [[0.1, 0.7], [0.1, 0.7], '1'],
  zero: [[0, 0], [1, 2], '– undefined: among values finite in both, a or b is 0'],
  broken: [[1, 5, Number.NaN, 7], [2, 10, 3, Number.POSITIVE_INFINITY], '1'],
};

/** More than the heat map has cells. */
const WIDE = 600;

function cosineModel(side: 0 | 1): Entry[] {
  const small = Object.entries(COSINES).map(([name, values]): Entry => {
    const all = Float32Array.from(values[side]);
    return { name, dtype: 'F32', shape: [all.length], bytes: new Uint8Array(all.buffer) };
  });
  const long = new Float32Array(WIDE * WIDE).fill(side + 1);
  const ramp = Float32Array.from(
    { length: WIDE * WIDE },
    (_, at) => Math.floor(at / WIDE) + 1000 * side,
  );
  const wide = (name: string, { buffer }: Float32Array): Entry => {
    return {
      name,
      dtype: 'F32',
      shape: [WIDE, WIDE],
      bytes: new Uint8Array(buffer as ArrayBuffer),
    };
  };
  return [...small, wide('long', long), wide('ramp', ramp)];
}

/** Tensors of one value, of which other servers are asked for samples. */
function constantModel(value: number): Entry[] {
  return Object.entries({ zero: 0, w: value }).map(([name, all]): Entry => {
    const { buffer } = new Float32Array(2 ** 16).fill(all);
    return { name, dtype: 'F32', shape: [256, 256], bytes: new Uint8Array(buffer) };
  });
}

/** Two tensors of a layer, of which one is changed. */
function parts(changed: string): Entry[] {
  return ['q', 'k'].map((part): Entry => {
    const bytes = new Uint8Array(Float32Array.of(part === changed ? 2 : 1).buffer);
    return { name: `layers.0.${part}.weight`, dtype: 'F32', shape: [1], bytes };
  });
}

/** Configurations of two models; one has text that must stay text. */
const MARKUP = '<img src=x onerror=alert(1)>';
const CONFIGS = {
  'config-a': { hidden_size: 12, rope_scaling: { factor: 2 }, eos_token_id: 1, note: MARKUP },
  'config-b': { hidden_size: 12, rope_scaling: { factor: 8 }, eos_token_id: [1, 2] },
};

let server: PageServer;
let single: PageServer;
let configured: PageServer;

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
    write('cosine-a.safetensors', cosineModel(0)),
    write('cosine-b.safetensors', cosineModel(1)),
    ...['none', 'q', 'k'].map((changed) => write(`parts-${changed}.safetensors`, parts(changed))),
    write('three.safetensors', model([4], 2)),
    write('ones.safetensors', constantModel(1)),
    write('twos.safetensors', constantModel(2)),
  );
  const only = join(folder, 'only');
  mkdirSync(only);
  writeFileSync(join(only, 'model.safetensors'), fileBytes(model([], 4)));
  const config = { architectures: ['Small'], num_hidden_layers: LAYERS, hidden_size: 12 };
  writeFileSync(join(only, 'config.json'), JSON.stringify(config));
  single = await serve(only);
  const folders = Object.entries(CONFIGS).map(([name, fields]) => {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'model.safetensors'), fileBytes(model([])));
    writeFileSync(join(folder, name, 'config.json'), JSON.stringify(fields));
    return join(folder, name);
  });
  const broken = join(folder, 'broken');
  mkdirSync(broken);
  writeFileSync(join(broken, 'model.safetensors'), fileBytes(model([])));
  writeFileSync(join(broken, 'config.json'), '{"hidden_size": 12');
  configured = await serve(...folders, only, broken, join(folder, 'base.safetensors'));
});

/** Faults but those of files that are not there: Chromium writes of a missing configuration in its console. */
const real = (faults: readonly string[]) => faults.filter((fault) => !fault.includes('404'));

/** What tests use of a canvas. */
interface Canvas {
  readonly width: number;
  readonly clientWidth: number;
  getContext(kind: '2d'): {
    getImageData(x: number, y: number, width: number, height: number): { data: Uint8ClampedArray };
  };
}

/** Colours of the two halves of a cell in the only row of a poster of 390 px. */
async function sidesAt(poster: Locator, layer: number): Promise<string> {
  const halves = await poster.evaluate((element, column) => {
    const canvas = element as unknown as Canvas;
    const context = canvas.getContext('2d');
    const ratio = canvas.width / canvas.clientWidth;
    // As `posterLayout`: labels, then columns.
    const left = 24 + 6.5 * 'mlp.up_proj'.length;
    const at = (share: number) => left + ((column + share) * (canvas.clientWidth - left)) / 6;
    const colour = (x: number, y: number) =>
      Array.from(context.getImageData(x * ratio, y * ratio, 1, 1).data.subarray(0, 3));
    // The middle of each half, and its edge, which is outlined where a value is NaN.
    return [8, 22].map((y) => [colour(at(0.5), y), colour(Math.round(at(0)) + 1, y)]);
  }, layer);
  const sideOf = ([middle = [], edge = []]: number[][]): string => {
    const [red = 0, green = 0, blue = 0] = middle;
    const [edgeRed = 0, edgeGreen = 0, edgeBlue = 0] = edge;
    if (edgeRed > edgeGreen + 60 && edgeBlue > edgeGreen + 60) return 'nan';
    if (Math.max(red, green, blue) - Math.min(red, green, blue) < 12) return 'none';
    return blue > red ? 'blue' : 'orange';
  };
  return halves.map((half) => sideOf(half as number[][])).join(' ');
}

describe('two models', () => {
  it('with their common base: which layers each touched', async () => {
    const address = 'open=one.safetensors&with=two.safetensors&base=base.safetensors&view=compare';
    const { page, faults } = await show(viewOf(server, address));
    await page.getByText('a touched layers 2–4, b 1, 4 and 5; both 4.').waitFor();
    // Only the view scrolls.
    const [pageHeight, windowHeight] = (await page.evaluate(
      '[document.documentElement.scrollHeight, innerHeight]',
    )) as [number, number];
    expect(pageHeight).toBe(windowHeight);
    const name = 'changes of base.safetensors in a, one.safetensors, and b, two.safetensors';
    const saved = JSON.parse(await savedText(page, `Save ${name} as JSON`));
    const columns = (key: 'a' | 'b') => saved.map((row: Record<string, number>) => row[key]);
    expect(columns('a')).toEqual([0, 0, 1, 1, 1, 0]);
    expect(columns('b')).toEqual([0, 0, 0, 0, 1, 1]);
    // Of layer 4, of which both have twice the values of the base.
    const card = page.locator('section', { hasText: 'Cosine of the changes' });
    await card.getByText('1 tensor changed in a and in b.').waitFor();
    await card.getByText('Median cosine: 1.0000.').waitFor();
    const row = card.getByRole('row', { name: nameOf(4) });
    expect(await row.getByRole('cell').allInnerTexts()).toEqual([
      ...[nameOf(4), '100.00 %', '100.00 %', '1.0000'],
    ]);
    expect(JSON.parse(await savedText(page, 'Save overlap as JSON'))).toEqual([
      { name: nameOf(4), relative_a: 1, relative_b: 1, cosine: expect.closeTo(1, 12) },
    ]);
    await expectAccessible(page);
    // On a phone both shares are below the name.
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await row.getByRole('cell').allInnerTexts()).toEqual([
      `${nameOf(4)}\na 100.00 %, b 100.00 %`,
      '1.0000',
    ]);
    expect(real(faults)).toEqual([]);
  });

  it('list a tensor that differs by NaN only as such', async () => {
    const address =
      'open=one.safetensors&with=three.safetensors&base=base.safetensors&view=compare';
    const { page, faults } = await show(viewOf(server, address));
    const card = page.locator('section', { hasText: 'Cosine of the changes' });
    await card
      .getByText(/^2 tensors changed in a and in b\. Median cosine: 1\.0000\. –: no finite change/)
      .waitFor();
    const rows = await card.getByRole('row').all();
    const texts = await Promise.all(rows.map((row) => row.locator('th, td').allInnerTexts()));
    expect(texts).toEqual([
      ['Name', '‖a − base‖ ÷ ‖base‖', '‖b − base‖ ÷ ‖base‖', 'Cosine of the changes'],
      [nameOf(2), '100.00 %', 'NaN in one only', '–'],
      [nameOf(4), '100.00 %', '100.00 %', '1.0000'],
    ]);
    expect(real(faults)).toEqual([]);
  });

  it('with a base on another server: overlap in the sample, without cosines, which need more requests', async () => {
    const other = await FileServer.start({ '/zeros.safetensors': fileBytes(constantModel(0)) });
    atEnd(() => other.close());
    const base = other.at('/zeros.safetensors');
    const address = `open=ones.safetensors&with=twos.safetensors&base=${base}&view=compare`;
    const { page } = await show(viewOf(server, address));
    for (const letter of ['a', 'b'])
      await page.getByRole('button', { name: `Compare a sample of ${letter},` }).click();
    const card = page.locator('section', {
      has: page.getByRole('heading', { name: 'Overlap', exact: true }),
    });
    await card
      .getByText('At least 1 tensor changed in a and in b. Shares are of a sample.', {
        exact: true,
      })
      .waitFor();
    expect(await card.getByRole('row', { name: 'w' }).getByRole('cell').allInnerTexts()).toEqual([
      ...['w', '100.00 %', '100.00 %'],
    ]);
    for (const letter of ['a', 'b'])
      await page.getByRole('button', { name: `Compare all of ${letter}` }).click();
    await card.getByText('1 tensor changed in a and in b.', { exact: true }).waitFor();
    expect(await card.getByText('Cosine').count()).toBe(0);
  });

  it('that changed other tensors of a layer have no layer in common', async () => {
    const models = 'open=parts-q.safetensors&with=parts-k.safetensors';
    const { page } = await show(
      viewOf(server, `${models}&base=parts-none.safetensors&view=compare`),
    );
    await page.getByText('a touched layers 0, b 0; both none.').waitFor();
    expect(await page.getByRole('heading', { name: 'Overlap' }).count()).toBe(0);
  });

  it('have nothing in common with a base of other names', async () => {
    const models = 'open=one.safetensors&with=two.safetensors';
    const { page } = await show(viewOf(server, `${models}&base=parts-q.safetensors&view=compare`));
    await page.getByText('The base has none of their tensors.').waitFor();
  });

  it('split the cells of the poster: a above, b below', async () => {
    const address = 'open=one.safetensors&with=two.safetensors&base=base.safetensors&view=compare';
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await show(viewOf(server, address), {
        ...{ colorScheme, viewport: { width: 390, height: 844 } },
      });
      await page.getByText('a touched layers 2–4, b 1, 4 and 5; both 4.').waitFor();
      const poster = page.getByRole('application', { name: /^changes of base/ });
      await poster.focus();
      const card = page.locator('section', { has: poster });
      const described = [];
      const sides = [];
      for (let layer = 0; layer < LAYERS; layer++) {
        await page.keyboard.press(layer === 0 ? 'Home' : 'ArrowRight');
        const status = card.getByRole('status');
        await expect.poll(() => status.textContent()).toContain(nameOf(layer));
        described.push((await status.textContent())?.split(': ')[1]);
        sides.push(await sidesAt(poster, layer));
      }
      expect(described).toEqual([
        ...['a 0 %, b 0 %', 'a 0 %, b NaN in one only', 'a 100 %, b 0 %', 'a 100 %, b 0 %'],
        ...['a 100 %, b 100 %', 'a 0 %, b 100 %'],
      ]);
      expect(sides).toEqual([
        ...['none none', 'none nan', 'blue none', 'blue none', 'blue orange', 'none orange'],
      ]);
      await expectAccessible(page);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    }
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

  describe('in the heat map of a ramp', () => {
    /** Opens the ramp of both; b is that of a + 1000, and its requests are answered by `route`. */
    const opened = async (route: (route: Route) => Promise<void>) => {
      const address = 'open=cosine-a.safetensors&with=cosine-b.safetensors&tensor=ramp';
      const viewer = await show(viewOf(server, address));
      const { page } = viewer;
      const map = page.getByRole('application', { name: /^Heat map/ });
      const card = page.locator('section', { has: map });
      await page.getByText('Sampled: 1 of 2 rows, 1 of 2 columns.').waitFor();
      // Both are there.
      await press(page, 'b');
      await page.getByText('Sampled: 1 of 2 rows, 1 of 2 columns.').waitFor();
      await press(page, 'a');
      await page.context().route(({ href }) => href.includes('source/4/'), route);
      const zoomIn = page.getByRole('button', { name: 'Zoom in' });
      for (let i = 0; i < 3; i++) await zoomIn.click();
      await page.getByText(/^Exact: every value is shown\.$/).waitFor();
      await map.hover({ position: { x: 100, y: 100 } });
      const status = card.getByRole('status').last();
      /** The value at the pointer without its row, after a sign that it is exact, or near. */
      const valueShown = async (sign: '=' | '≈') => {
        const [, row, found, value] =
          /^(?:near )?\[(\d+), \d+\] ([=≈]) (−?\d+)$/.exec((await status.textContent()) ?? '') ??
          [];
        return found === sign ? Number(value?.replace('−', '-')) - Number(row) : Number.NaN;
      };
      return { ...viewer, map, card, status, valueShown };
    };
    const press = (page: Page, name: string) =>
      page.getByRole('button', { name, exact: true }).click();

    it('values at the pointer are those of the model that is shown, also while others are being read', async () => {
      let release = () => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const { page, map, status, valueShown, faults } = await opened(async (route) => {
        await held;
        await route.continue();
      });
      await expect.poll(() => valueShown('=')).toBe(0);
      await press(page, 'b');
      await map.hover({ position: { x: 140, y: 100 } });
      // Of the picture before, which has one of two rows.
      await expect.poll(() => valueShown('≈')).toBeGreaterThan(990);
      await press(page, 'a − b');
      await map.hover({ position: { x: 100, y: 100 } });
      await expect.poll(() => status.textContent()).toBe('');
      await press(page, 'b');
      await map.hover({ position: { x: 140, y: 100 } });
      release();
      await expect.poll(() => valueShown('=')).toBe(1000);
      expect(real(faults)).toEqual([]);
    });

    it('there is nothing after a failed read, not even the picture of the other model', async () => {
      const { page, map, card, status, valueShown } = await opened((route) => route.abort());
      await expect.poll(() => valueShown('=')).toBe(0);
      /** Number of colours of the picture. */
      const colours = () =>
        map.evaluate((element) => {
          const canvas = element as unknown as Canvas & { height: number };
          const { width, height } = canvas;
          const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
          return new Set(new Uint32Array(data.buffer)).size;
        });
      await expect.poll(colours).toBeGreaterThan(10);
      for (const name of ['b', 'a − b']) {
        await press(page, name);
        await card.getByRole('alert').waitFor();
        await map.hover({ position: { x: 140, y: 100 } });
        expect(await status.textContent()).toBe('');
        expect(await colours()).toBe(1);
        await press(page, 'a');
        await map.hover({ position: { x: 100, y: 100 } });
        await expect.poll(() => valueShown('=')).toBe(0);
      }
    });
  });
});

describe('the configurations of two models', () => {
  it('are compared key by key, as text', async () => {
    for (const width of [1440, 390]) {
      const { page, faults } = await show(
        viewOf(configured, 'open=config-a&with=config-b&view=compare'),
        { viewport: { width, height: 900 } },
      );
      const table = page.getByRole('region', { name: 'Keys that differ' });
      await table.waitFor();
      const rows = await table.getByRole('row').all();
      const texts = await Promise.all(rows.map((row) => row.locator('th, td').allInnerTexts()));
      expect(texts).toEqual([
        ['config.json', 'a', 'b'],
        ['rope_scaling.factor', '2', '8'],
        ['eos_token_id', '1', '[1, 2]'],
        ['note', JSON.stringify(MARKUP), 'not set'],
      ]);
      await page
        .getByText('1 other key with the same value. a is config-a, b is config-b.')
        .waitFor();
      expect(await table.locator('img').count()).toBe(0);
      const cut = await table.evaluate((box) => {
        const { scrollWidth, clientWidth } = box as unknown as Record<string, number>;
        return Number(scrollWidth) - Number(clientWidth);
      });
      expect(cut).toBe(0);
      await expectAccessible(page);
      expect(faults).toEqual([]);
    }
  });

  it('are not shown unless both have one', async () => {
    const { page } = await show(
      viewOf(configured, 'open=config-a&with=base.safetensors&view=compare'),
    );
    await page.getByRole('heading', { name: 'Tensors', exact: true }).waitFor();
    await page.getByText('have the same values.').waitFor();
    expect(await page.getByRole('heading', { name: 'Configuration' }).count()).toBe(0);
  });

  it('that cannot be parsed are reported in the card', async () => {
    const { page } = await show(viewOf(configured, 'open=config-a&with=broken&view=compare'));
    const card = page.locator('section', {
      has: page.getByRole('heading', { name: 'Configuration' }),
    });
    await card.getByText('config.json: invalid JSON').waitFor();
    await page.getByText('have the same values.').waitFor();
  });
});

/** The greatest RMS of the rows and of the columns of a matrix of the models, with its position. */
function greatestEdges(all: Float32Array): { row: string; column: string } {
  const [rows = 0, columns = 0] = SHAPE;
  const greatest = (of: string, lines: number[][]) => {
    const rms = lines.map((line) => Math.sqrt(line.reduce((s, v) => s + v * v, 0) / line.length));
    const most = Math.max(...rms);
    return `${Number(most.toPrecision(5))} in ${of} ${rms.indexOf(most)}`;
  };
  const line = (count: number, at: (i: number) => number) =>
    Array.from({ length: count }, (_, i) => all[at(i)] as number);
  return {
    row: greatest(
      'row',
      Array.from({ length: rows }, (_, r) => line(columns, (i) => r * columns + i)),
    ),
    column: greatest(
      'column',
      Array.from({ length: columns }, (_, c) => line(rows, (i) => i * columns + c)),
    ),
  };
}

describe('the edges of the heat map', () => {
  it('have the RMS of rows and columns, of what is shown', async () => {
    const address = `open=base.safetensors&with=one.safetensors&tensor=${nameOf(2)}`;
    const { page, faults } = await show(viewOf(server, address));
    for (const [mode, factor] of [
      ['a', 1],
      ['b', 2],
    ] as const) {
      await page.getByRole('button', { name: mode, exact: true }).click();
      const { row, column } = greatestEdges(values(2).map((value) => factor * value));
      await page
        .getByText(
          `Bars at the edges: RMS of the finite values shown, greatest ${row} and ${column}.`,
        )
        .waitFor();
      await page.getByRole('img', { name: `RMS of rows: greatest ${row}` }).waitFor();
    }
    // Only the longest bar reaches the end of the strip, in the column that the text has.
    const strip = page.getByRole('img', { name: /^RMS of columns/ });
    const longest = await strip.evaluate((element) => {
      const canvas = element as unknown as Canvas;
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, 1);
      const reds = [...data].filter((_, at) => at % 4 === 0);
      return Math.floor((12 * (reds.indexOf(Math.min(...reds)) + 0.5)) / canvas.width);
    });
    const { column } = greatestEdges(values(2));
    expect(longest).toBe(Number(column.split(' ').at(-1)));
    await expectAccessible(page);
    expect(real(faults)).toEqual([]);
  });
});

describe('the cosine of a tensor of two models', () => {
  it('is exact or of a sample, and undefined for zeros', async () => {
    const address = 'open=cosine-a.safetensors&with=cosine-b.safetensors';
    const { page, faults } = await show(viewOf(server, `${address}&tensor=same`));
    const shown = async (name: string) => {
      await page.evaluate(`location.hash = '${address}&tensor=${name}'`);
      await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
      const list = page.locator('section', { hasText: 'Next to cosine-b' }).locator('dl');
      await list.getByText('Cosine of a and b').waitFor();
      return [await list.locator('dt').textContent(), await list.locator('dd').textContent()];
    };
    const [exact, sample] = ['Cosine of a and b', 'Cosine of a and b, in the sample'];
    const expected = Object.entries(COSINES).map(([name, [, , text]]) => [
      name,
      [name === 'broken' ? `${exact}, of values finite in both` : exact, text],
    ]);
    for (const [name, texts] of expected)
      expect([name, await shown(name as string)]).toEqual([name, texts]);
    expect(await shown('long')).toEqual([sample, '1']);
    await expectAccessible(page);
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
    await page.getByRole('gridcell', { name: 'nan', selected: true }).waitFor();
    // From the tensor itself, too.
    await page.evaluate(`location.hash = 'open=only&tensor=${nameOf(4)}'`);
    await page.getByRole('button', { name: 'Go to it' }).click();
    // All of it is shown: the values lead there.
    await expect.poll(() => page.evaluate('document.activeElement.ariaLabel')).toBe('Values');
    await page.getByRole('gridcell', { name: 'nan', selected: true }).waitFor();
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

it('the button of the colours switches between light and dark at once', async () => {
  const { page, faults } = await show(viewOf(single, 'open=only'), { colorScheme: 'light' });
  const ground = () => page.evaluate('getComputedStyle(document.body).backgroundColor');
  const light = await ground();
  await page.getByRole('button', { name: 'Colours: light; switch to dark' }).click();
  await expect.poll(ground).not.toBe(light);
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Colours: dark; switch to light' }).click();
  await expect.poll(ground).toBe(light);
  expect(faults).toEqual([]);
});

describe('keys', () => {
  const hashOf = (page: Page) => page.evaluate<string>('location.hash');

  it('lead from the search to its hits', async () => {
    const { page } = await show(viewOf(single, 'open=only'));
    const search = page.getByRole('searchbox');
    await search.fill(nameOf(3));
    await expect.poll(() => page.getByRole('treeitem').count()).toBe(1);
    await search.press('ArrowDown');
    expect(await page.evaluate('document.activeElement.getAttribute("role")')).toBe('tree');
    await search.press('Enter');
    await page.getByRole('heading', { level: 1, name: nameOf(3) }).waitFor();
    await search.fill('no such name');
    await page.getByText('No tensor matches.').waitFor();
  });

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
