/** Statistics of all layers, differences and LoRA pairs are the library's numbers, in tables and on the map. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PageServer } from '../../../src/cli/serve/server.js';
import {
  compareTensors,
  type Statistics,
  safeOpen,
  statistics,
  tensorValues,
} from '../../support/api.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, savedText, serve, show, viewOf } from '../../support/viewer-page.js';

const LAYERS = 4;
const DEAD = 1;
const EXPLODING = 3;
const ROLES = ['self_attn.q_proj', 'mlp.up_proj'] as const;
const SHAPE = [24, 32];
const COUNT = 24 * 32;

const nameOf = (layer: number, role: string) => `model.layers.${layer}.${role}.weight`;
const roleOf = (role: string) => `model.layers.*.${role}.weight`;

/** Waves of different heights; nothing but zeros in one layer, a thousand times as much in another. */
function wave(layer: number, role: string, change: number): Float32Array {
  const height = layer === DEAD ? 0 : layer === EXPLODING ? 1000 : 1;
  const values = Float32Array.from(
    { length: COUNT },
    (_, i) => height * (Math.sin(i * (layer + 1) + role.length) / 10 + 0.02 + change),
  );
  if (layer === EXPLODING && role === ROLES[0]) values[7] = Number.POSITIVE_INFINITY;
  return values;
}

/** The upper halves of numbers: BF16. */
function bf16(values: Float32Array): Uint8Array {
  const bits = new Uint32Array(values.buffer);
  return new Uint8Array(Uint16Array.from(bits, (one) => one >>> 16).buffer);
}

/** Two roles in every layer. `change` is added to the values of layer 2. */
function model(change: number): Entry[] {
  return Array.from({ length: LAYERS }, (_, layer) =>
    ROLES.map((role): Entry => {
      const values = wave(layer, role, layer === 2 ? change : 0);
      return role === ROLES[0]
        ? { name: nameOf(layer, role), dtype: 'F32', shape: SHAPE, bytes: bytesOf(values) }
        : { name: nameOf(layer, role), dtype: 'BF16', shape: SHAPE, bytes: bf16(values) };
    }),
  ).flat();
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer);
}

const folder = folderUntilEnd();
const FIRST = join(folder, 'first.safetensors');
const TUNED = join(folder, 'tuned.safetensors');
const ADAPTER = join(folder, 'adapter.safetensors');
const PEFT = join(folder, 'peft');
const OPEN = 'open=first.safetensors';
const POSTER = 'by role and layer of first.safetensors';

/** A pair of matrices of rank `rank` for a weight, by the names of PEFT or of kohya. */
interface Pair {
  readonly target: string;
  readonly rank: number;
  readonly alpha: number | null;
  readonly down: Float32Array;
  readonly up: Float32Array;
}

function pair(target: string, rank: number, alpha: number | null): Pair {
  const [rows, columns] = SHAPE as [number, number];
  const matrix = (count: number, seed: number) =>
    Float32Array.from({ length: count }, (_, i) => Math.cos(i * seed + rank) / 8);
  return { target, rank, alpha, down: matrix(rank * columns, 3), up: matrix(rows * rank, 5) };
}

const PAIRS: readonly Pair[] = [
  pair('base_model.model.model.layers.0.self_attn.q_proj', 4, null),
  pair('lora_unet_model_layers_2_mlp_up_proj', 2, 1),
];

function adapter(pairs: readonly Pair[]): Entry[] {
  const [rows, columns] = SHAPE as [number, number];
  return pairs.flatMap(({ target, rank, alpha, down, up }): Entry[] => {
    const [downName, upName] = alpha === null ? ['lora_A', 'lora_B'] : ['lora_down', 'lora_up'];
    const entry = (part: string, shape: number[], values: Float32Array): Entry => {
      const name = `${target}.${part}`;
      return { name, dtype: 'F32', shape, bytes: bytesOf(values) };
    };
    return [
      entry(`${downName}.weight`, [rank, columns], down),
      entry(`${upName}.weight`, [rows, rank], up),
      ...(alpha === null ? [] : [entry('alpha', [], Float32Array.of(alpha))]),
    ];
  });
}

let server: PageServer;

beforeAll(async () => {
  writeFileSync(FIRST, fileBytes(model(0)));
  writeFileSync(TUNED, fileBytes(model(0.25)));
  writeFileSync(ADAPTER, fileBytes(adapter(PAIRS)));
  mkdirSync(PEFT);
  writeFileSync(join(PEFT, 'adapter_model.safetensors'), fileBytes(adapter(PAIRS.slice(0, 1))));
  const config = { peft_type: 'LORA', r: 4, lora_alpha: 8 };
  writeFileSync(join(PEFT, 'adapter_config.json'), JSON.stringify(config));
  server = await serve(FIRST, TUNED, ADAPTER, PEFT);
});

/** The library's statistics of a tensor of the first model. */
async function libraryStatistics(name: string): Promise<Statistics> {
  using file = safeOpen(FIRST);
  const tensor = file.getTensor(name);
  return await statistics(tensorValues(tensor), tensor.dtype);
}

/** What the page specifies of a tensor, by the names that it has for the columns. */
async function libraryColumns(name: string): Promise<Record<string, number>> {
  const { mean, std, min, max, zero, elements } = await libraryStatistics(name);
  const norm = Math.hypot(mean as number, std as number);
  const greatest = Math.max(Math.abs(min as number), Math.abs(max as number));
  return {
    RMS: norm,
    Std: std as number,
    'Peak ÷ RMS': norm === 0 ? 0 : greatest / norm,
    Zeros: zero / elements,
  };
}

interface CellRow {
  readonly role: string;
  readonly layer: number;
  readonly value: number | 'NaN';
}

async function savedCells(page: Page, label: string): Promise<CellRow[]> {
  return JSON.parse(await savedText(page, label));
}

/** A number as the page shows it, of a text that ends in it. */
function numberIn(text: string | null): number {
  return Number(/([\d.e+−-]+)\s*%?$/.exec(text ?? '')?.[1]?.replaceAll('−', '-'));
}

/** Expects five digits of a number. */
function expectShown(shown: number, expected: number): void {
  expect(shown).toBe(Number(expected.toPrecision(5)));
}

/** Presses a button, and waits for the end of what it starts. */
async function run(page: Page, name: RegExp | string): Promise<void> {
  await page.getByRole('button', { name }).click();
  await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
}

/** Goes to an address of the page that is open. */
async function go(page: Page, address: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(address)}`);
}

/** Goes over the map by keys, and gives what it says of every tensor. */
async function saidByMap(page: Page): Promise<Map<string, string>> {
  const map = page.getByRole('application', { name: /^Map of 8 tensors/ });
  const status = page.locator('section', { has: map }).getByRole('status');
  await map.focus();
  const said = new Map<string, string>();
  for (let step = 0; step < LAYERS * ROLES.length; step++) {
    const before = await status.textContent();
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => status.textContent()).not.toBe(before);
    const text = (await status.textContent()) as string;
    said.set(text.slice(0, text.indexOf(':')), text);
  }
  return said;
}

describe('statistics by layer', () => {
  it('are the numbers of the library, in tables, under the keys and on the map', async () => {
    const { page, faults } = await show(viewOf(server, OPEN));
    // A sample of a small model has all of its values.
    await page.getByText('Of all values.').waitFor();
    await page.getByText('1 tensor with NaN or infinities').waitFor();
    await page.getByRole('link', { name: nameOf(EXPLODING, ROLES[0]) }).waitFor();
    await page.getByText('2 tensors with one value only').waitFor();
    for (const label of ['RMS', 'Std', 'Peak ÷ RMS', 'Zeros']) {
      await page.getByRole('button', { name: label, exact: true }).click();
      const cells = await savedCells(page, `Save ${label} ${POSTER} as JSON`);
      expect(cells.length).toBe(LAYERS * ROLES.length);
      for (const [layer, role] of allTensors()) {
        const expected = (await libraryColumns(nameOf(layer, role)))[label] as number;
        const cell = cells.find((one) => one.role === roleOf(role) && one.layer === layer);
        expect(cell?.value).toBeCloseTo(expected, 12);
      }
    }
    // The dead layer, then the one that explodes.
    await page.getByRole('button', { name: 'RMS', exact: true }).click();
    const table = page.getByRole('application', { name: `RMS ${POSTER}: 2 roles in 4 layers` });
    const status = page.locator('figure', { has: table }).getByRole('status');
    await table.focus();
    for (let step = 0; step <= DEAD; step++) await page.keyboard.press('ArrowRight');
    await expect.poll(() => status.textContent()).toBe(`${nameOf(DEAD, ROLES[0])}: 0`);
    for (let step = DEAD; step < EXPLODING; step++) await page.keyboard.press('ArrowRight');
    await expect.poll(() => status.textContent()).toContain(nameOf(EXPLODING, ROLES[0]));
    const { RMS } = await libraryColumns(nameOf(EXPLODING, ROLES[0]));
    const [shown] = ((await status.textContent()) ?? '').split(', with NaN or Inf');
    expectShown(numberIn(shown as string), RMS as number);

    for (const [by, label] of [
      ['norm', 'RMS'],
      ['outliers', 'Peak ÷ RMS'],
    ] as const) {
      await go(page, `${OPEN}&view=map&by=${by}`);
      const pressed = page.getByRole('button', { name: label, pressed: true });
      await pressed.waitFor();
      const said = await saidByMap(page);
      for (const [layer, role] of allTensors()) {
        const text = said.get(nameOf(layer, role)) ?? '';
        expect(text).toContain(
          role === ROLES[0] ? 'F32 24 × 32, 3.07 kB' : 'BF16 24 × 32, 1.54 kB',
        );
        expect(text).toContain(`, ${label} `);
        const expected = (await libraryColumns(nameOf(layer, role)))[label] as number;
        expectShown(numberIn(text), expected);
      }
    }
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('come one after the other, and end when people stop them', async () => {
    const { page } = await show(viewOf(server, `${OPEN}&view=compare`));
    await page.getByRole('treeitem').first().waitFor();
    let count = 0;
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    // One request comes later than what is reported at most once in 300 ms; the others do not come.
    await page.context().route(/\/(?:source\/|ranges\?)/, async (route) => {
      if (count++ === 0) await new Promise((resolve) => setTimeout(resolve, 400));
      else await released;
      await route.continue().catch(() => {});
    });
    const ended: string[] = [];
    page.context().on('requestfailed', (request) => ended.push(request.url()));
    await page.getByRole('link', { name: 'Overview' }).click();
    const bar = page.getByRole('progressbar', { name: 'Reading values' });
    await bar.waitFor();
    const whole = (4 + 2) * COUNT * LAYERS;
    expect(await bar.getAttribute('max')).toBe(String(whole));
    const done = Number(await bar.getAttribute('value'));
    expect([4 * COUNT, 2 * COUNT]).toContain(done);
    const known = async () => {
      const cells = await savedCells(page, `Save RMS ${POSTER} as JSON`);
      return cells.filter(({ value }) => value !== 'NaN');
    };
    expect((await known()).length).toBe(1);
    await page.getByRole('button', { name: 'Stop' }).click();
    await bar.waitFor({ state: 'detached' });
    await expect.poll(() => ended.length).toBeGreaterThan(0);
    release();
    // What is known stays, and is not said to be all.
    expect((await known()).length).toBe(1);
    await page.getByText('Not finished: of some tensors only.').waitFor();
    expect(await page.getByText('Of all values.').count()).toBe(0);
    await page.getByRole('link', { name: 'Map', exact: true }).click();
    await page.getByRole('button', { name: 'RMS', exact: true }).click();
    const said = [...(await saidByMap(page)).values()];
    expect(said.filter((text) => text.endsWith(', RMS not known')).length).toBe(7);
    await go(page, OPEN);
    await run(page, /^Read all/);
    await page.getByText('Of all values.').waitFor();
    expect((await known()).length).toBe(LAYERS * ROLES.length);
  });
});

/** Layers and roles. */
function allTensors(): (readonly [layer: number, role: string])[] {
  return Array.from({ length: LAYERS }, (_, layer) =>
    ROLES.map((role) => [layer, role] as const),
  ).flat();
}

describe('two models', () => {
  it('differ on the page and on its map as the library says', async () => {
    const both = `${OPEN}&with=tuned.safetensors`;
    const { page, faults } = await show(viewOf(server, `${both}&view=compare`));
    await page.getByRole('heading', { name: '2 tensors with other values' }).waitFor();
    await page
      .getByRole('heading', { level: 1, name: '2 of 8 tensors differ, most in layer 2.' })
      .waitFor();
    const saved: { name: string; relative: number; differing: number; max_error: number }[] =
      JSON.parse(await savedText(page, 'Save differences of values as JSON'));
    using before = safeOpen(FIRST);
    using after = safeOpen(TUNED);
    const relative = new Map<string, number>();
    for (const [layer, role] of allTensors()) {
      const name = nameOf(layer, role);
      const found = await compareTensors(before.getTensor(name), after.getTensor(name));
      relative.set(name, found.relative ?? 0);
      const row = saved.find((one) => one.name === name);
      expect(row === undefined).toBe(layer !== 2);
      if (row === undefined) continue;
      expect(row.relative).toBeCloseTo(found.relative as number, 12);
      expect(row.differing).toBe(found.differing / found.elements);
      expect(row.max_error).toBeCloseTo(found.maxError as number, 12);
    }
    await page.getByRole('link', { name: 'Show it on the map of bytes' }).click();
    await page.getByRole('button', { name: 'Difference', pressed: true }).waitFor();
    const said = await saidByMap(page);
    for (const [name, expected] of relative) {
      expect(said.get(name)).toContain(', difference ');
      expectShown(numberIn(said.get(name) ?? ''), expected);
    }
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('have the colours of the theme, also when it changes', async () => {
    const both = `${OPEN}&with=tuned.safetensors`;
    for (const view of ['compare', 'overview']) {
      const { page } = await show(viewOf(server, `${both}&view=${view}`));
      await page
        .getByText(/Of all values\.|All values have been compared\./)
        .first()
        .waitFor();
      const colours = async () => [
        await page.locator('.legend .ramp').getAttribute('style'),
        await page
          .locator('.poster canvas')
          .evaluate((one) => (one as { toDataURL(): string }).toDataURL()),
      ];
      const [light, dark] = [await colours(), async () => (await colours())[0]];
      await page.emulateMedia({ colorScheme: 'dark' });
      await expect.poll(dark).not.toBe(light[0]);
      const { page: other } = await show(viewOf(server, `${both}&view=${view}`), {
        colorScheme: 'dark',
      });
      await other
        .getByText(/Of all values\.|All values have been compared\./)
        .first()
        .waitFor();
      const expected = await other.locator('.legend .ramp').getAttribute('style');
      await expect.poll(dark).toBe(expected);
      await page.emulateMedia({ colorScheme: 'light' });
      await expect.poll(colours).toEqual(light);
    }
  });

  it('of which one is a LoRA adapter show the rank and the norm of each pair', async () => {
    const { page, faults } = await show(
      viewOf(server, `${OPEN}&with=adapter.safetensors&view=compare`),
    );
    await page.getByRole('heading', { name: 'LoRA: 2 pairs' }).waitFor();
    const saved = JSON.parse(await savedText(page, 'Save pairs as JSON'));
    const rows = page.getByRole('region', { name: 'Pairs' }).locator('tbody tr');
    const bases = [nameOf(0, ROLES[0]), nameOf(2, ROLES[1])];
    for (const [at, { target, rank, alpha, down, up }] of PAIRS.entries()) {
      const scale = alpha === null ? null : alpha / rank;
      const norm = productNorm(up, down, rank) * (scale ?? 1);
      const { mean, std } = await libraryStatistics(bases[at] as string);
      const share = norm / (Math.hypot(mean as number, std as number) * Math.sqrt(COUNT));
      expect(saved[at]).toMatchObject({ target, rank, alpha, scale, base: bases[at] });
      expect(saved[at].norm).toBeCloseTo(norm, 10);
      if (scale === null) expect(saved[at].relative).toBe(null);
      else expect(saved[at].relative).toBeCloseTo(share, 10);
      const texts = await rows.nth(at).getByRole('cell').allTextContents();
      expect(texts.slice(0, 2)).toEqual([target, String(rank)]);
      // Numbers of a column have the same decimals.
      expect(texts[2]).toMatch(/^\d\.\d{3}$/);
      expect(Number(texts[2])).toBeCloseTo(norm, 3);
      expect(texts[3]).toBe(scale === null ? '–' : `${(100 * share).toFixed(2)} %`);
    }
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('scale the pairs of PEFT by their configuration', async () => {
    const { page } = await show(viewOf(server, `${OPEN}&with=peft&view=compare`));
    await page.getByRole('heading', { name: 'LoRA: 1 pair' }).waitFor();
    const [saved] = JSON.parse(await savedText(page, 'Save pairs as JSON'));
    const share = `${Number((100 * saved.relative).toPrecision(3))} %`;
    const headline = `peft changes 1 of 8 tensors, by ${share} at most.`;
    await page.getByRole('heading', { level: 1, name: headline }).waitFor();
    const changes = await savedCells(page, 'Save changes of first.safetensors by peft as JSON');
    expect(changes.filter(({ value }) => value !== 0)).toEqual([
      { role: roleOf(ROLES[0]), layer: 0, value: saved.relative },
    ]);
    const [{ target, rank, down, up }] = PAIRS as [Pair];
    expect(saved).toMatchObject({ target, rank, alpha: 8, scale: 2 });
    expect(saved.norm).toBeCloseTo(2 * productNorm(up, down, rank), 10);
    const { mean, std } = await libraryStatistics(nameOf(0, ROLES[0]));
    const norm = Math.hypot(mean as number, std as number) * Math.sqrt(COUNT);
    expect(saved.relative).toBeCloseTo(saved.norm / norm, 10);
  });
});

/** ‖up · down‖, of the product itself. */
function productNorm(up: Float32Array, down: Float32Array, rank: number): number {
  const [rows, columns] = SHAPE as [number, number];
  let squares = 0;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let sum = 0;
      for (let i = 0; i < rank; i++)
        sum += (up[row * rank + i] as number) * (down[i * columns + column] as number);
      squares += sum ** 2;
    }
  }
  return Math.sqrt(squares);
}
