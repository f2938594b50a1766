/** Models on the Hub: headers that are counted, and adapters with the configuration next to them. */
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { HubServer } from '../../support/hub-server.js';
import { filesOf } from '../../support/make-checkpoint.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { answerForHub, atEnd, PAGE_FILE, show } from '../../support/viewer-page.js';

const TARGET = 'model.layers.1.self_attn.q_proj';
const RANK = 2;
const SIZE = 8;
const ALPHA = 6;

const values = (count: number, of: (at: number) => number) =>
  Float32Array.from({ length: count }, (_, at) => of(at));
const WEIGHT = values(SIZE * SIZE, (at) => Math.sin(at));
const DOWN = values(RANK * SIZE, (at) => Math.cos(at) / 9);
const UP = values(SIZE * RANK, (at) => Math.sin(3 * at) / 9);

function entry(name: string, shape: number[], of: Float32Array): Entry {
  return { name, dtype: 'F32', shape, bytes: new Uint8Array(of.buffer) };
}

/** ‖scale · B · A‖ ÷ ‖W‖. */
function strength(scale: number): number {
  const product = values(SIZE * SIZE, (at) => {
    const [row, column] = [Math.floor(at / SIZE), at % SIZE];
    let sum = 0;
    for (let i = 0; i < RANK; i++)
      sum += (UP[row * RANK + i] as number) * (DOWN[i * SIZE + column] as number);
    return scale * sum;
  });
  return Math.hypot(...product) / Math.hypot(...WEIGHT);
}

const ADAPTER = fileBytes([
  entry(`base_model.model.${TARGET}.lora_A.weight`, [RANK, SIZE], DOWN),
  entry(`base_model.model.${TARGET}.lora_B.weight`, [SIZE, RANK], UP),
]);

function configOf(more: object): string {
  return JSON.stringify({ peft_type: 'LORA', r: RANK, lora_alpha: ALPHA, ...more });
}

const SHARDS = ['model-00001-of-00003', 'model-00002-of-00003', 'model-00003-of-00003'];

let hub: HubServer;

beforeAll(async () => {
  const shards = SHARDS.map((name, at) => [
    `${name}.safetensors`,
    [{ name: `w${at}`, dtype: 'U8', shape: [3] } as Entry],
  ]);
  const adapter = (more: object) => ({
    files: { 'adapter_model.safetensors': ADAPTER, 'adapter_config.json': configOf(more) },
  });
  hub = await HubServer.start({
    'org/base': {
      files: { 'model.safetensors': fileBytes([entry(`${TARGET}.weight`, [SIZE, SIZE], WEIGHT)]) },
    },
    'org/plain': adapter({}),
    'org/stable': adapter({ use_rslora: true }),
    'org/bare': { files: { 'adapter_model.safetensors': ADAPTER } },
    'org/sharded': { files: Object.fromEntries(filesOf({ shards: Object.fromEntries(shards) })) },
  });
  atEnd(() => hub.close());
});

/** A page from a file, which asks the Hub. */
async function pageAt(address: string): Promise<Page> {
  const { page } = await show(pathToFileURL(PAGE_FILE).href);
  await answerForHub(page, hub);
  await page.evaluate(`location.hash = ${JSON.stringify(address)}; location.reload()`);
  return page;
}

describe('an adapter on the Hub', () => {
  it.each([
    ['plain', ALPHA / RANK],
    ['stable', ALPHA / Math.sqrt(RANK)],
  ])('org/%s has the strength that its adapter_config.json gives it', async (name, scale) => {
    const page = await pageAt(`open=hf://org/base&with=hf://org/${name}&view=compare`);
    const share = `${Number((100 * strength(scale)).toPrecision(3))} %`;
    const headline = page.getByRole('heading', { level: 1, name: /changes 1 of 1 tensor/ });
    await headline.waitFor();
    expect(await headline.textContent()).toMatch(new RegExp(`, by ${share} at most\\.$`));
    const asked = hub.requests.filter(({ path }) => path.includes(`org/${name}/`));
    expect(asked.some(({ path }) => path.endsWith('/adapter_config.json'))).toBe(true);
  });

  it('without one has no percentage', async () => {
    const page = await pageAt('open=hf://org/base&with=hf://org/bare&view=compare');
    const headline = page.getByRole('heading', { level: 1, name: /changes 1 of 1 tensor/ });
    await headline.waitFor();
    expect(await headline.textContent()).not.toContain('%');
  });
});

it('opening a checkpoint of shards counts the headers that have arrived', async () => {
  const { page } = await show(pathToFileURL(PAGE_FILE).href);
  await answerForHub(page, hub);
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.context().route(`**/${SHARDS[2]}.safetensors`, async (route) => {
    await held;
    await route.fallback();
  });
  await page.getByLabel('Address of a checkpoint').fill('org/sharded');
  await page.getByLabel('Address of a checkpoint').press('Enter');
  await page.getByText(/^Reading headers of .*sharded, 2 of 3/).waitFor();
  release();
  await page.getByRole('treeitem').first().waitFor();
});
