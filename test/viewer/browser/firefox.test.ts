/** The page in Firefox: what `serve` gives, files that are chosen, an address that is typed. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { FileServer } from '../../support/file-server.js';
import { Firefox, type FirefoxPage } from '../../support/firefox.js';
import { writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes } from '../../support/make-file.js';
import { atEnd, folderUntilEnd, serve, viewOf } from '../../support/viewer-page.js';

const folder = folderUntilEnd();
const file = join(folder, 'small.safetensors');
const bytes = new Uint8Array(Float32Array.of(1, -0, 0.1, Number.NaN, 2 ** 100, -3).buffer);
const small = fileBytes([
  { name: 'a.weight', dtype: 'F32', shape: [2, 3], bytes },
  { name: 'b', dtype: 'U8', shape: [3] },
]);
const TEXTS = ['1.0', '-0.0', '0.1', 'nan', '1.2676506e+30', '-3.0'];

/** Expressions of the page. */
const textsOf = (selector: string) =>
  `[...document.querySelectorAll('${selector}')].map((one) => one.textContent)`;
const CELLS = textsOf('[role=gridcell]');
const NAMES = textsOf('[role=treeitem] .name');
const clickOn = (selector: string, text: string) =>
  `[...document.querySelectorAll('${selector}')].find((one) => one.textContent.includes('${text}')).click()`;

let firefox: Firefox;

beforeAll(async () => {
  writeFileSync(file, small);
  firefox = await Firefox.start();
  atEnd(() => firefox.close());
});

/** Goes to the tensor, and gives its values. */
async function valuesOf(page: FirefoxPage): Promise<unknown> {
  await page.until(`${NAMES}.length === 2`);
  await page.evaluate(clickOn('[role=treeitem]', 'a.weight'));
  await page.until(`${CELLS}.at(-1) === '-3.0'`);
  return await page.evaluate(CELLS);
}

describe('in Firefox the page', () => {
  it('shows what serve gives, and every view of it', async () => {
    const server = await serve(file);
    const page = await firefox.show(server.address);
    expect(await valuesOf(page)).toEqual(TEXTS);
    await page.until(`document.body.innerText.includes('Exact: every value is shown.')`);
    await page.until(`document.body.innerText.includes('Standard deviation')`);
    for (const view of ['Map', 'Compare', 'Overview']) {
      await page.evaluate(clickOn('nav a', view));
      await page.until(`document.querySelector('nav [aria-current]')?.textContent === '${view}'`);
      await page.until(`document.querySelector('main h1') !== null`);
    }
    expect(page.faults).toEqual([]);
  });

  it('opens the view that an address names', async () => {
    const server = await serve(file);
    const page = await firefox.show(
      viewOf(server, 'open=small.safetensors&tensor=a.weight&slice=1'),
    );
    await page.until(`${CELLS}.at(-1) === '-3.0'`);
    expect(await page.evaluate(CELLS)).toEqual(TEXTS.slice(3));
  });

  it('shows files that are chosen, as one checkpoint, and sends nothing', async () => {
    const shards = {
      'model-00001-of-00002.safetensors': [{ name: 'first', dtype: 'U8', shape: [3] }],
      'model-00002-of-00002.safetensors': [{ name: 'last', dtype: 'U8', shape: [3] }],
    } as const;
    const model = writeCheckpoint({ shards }, join(folder, 'model'));
    const server = await serve(file, model);
    const page = await firefox.show(server.address);
    await page.until(`${textsOf('.choices button')}.length === 2`);
    const asked = page.requests.length;
    expect(asked).toBeGreaterThan(0);
    const names = ['model.safetensors.index.json', ...Object.keys(shards)];
    await page.choose(
      'input[type=file]',
      names.map((name) => join(model, name)),
    );
    await page.until(`${NAMES}.length === 2`);
    expect(await page.evaluate(NAMES)).toEqual(['first', 'last']);
    expect(page.requests.slice(asked).filter((url) => !url.startsWith('blob:'))).toEqual([]);
    expect(page.faults).toEqual([]);
  });

  it('opens an address on another server', async () => {
    const other = await FileServer.start({ '/small.safetensors': small });
    atEnd(() => other.close());
    const server = await serve(file);
    const page = await firefox.show(viewOf(server, `open=${other.at('/small.safetensors')}`));
    expect(await valuesOf(page)).toEqual(TEXTS);
  });
});
