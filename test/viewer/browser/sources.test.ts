/** The places that the page reads from, on a page from `file://`, from a static host and from `serve`. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { open } from '../../support/api.js';
import { FileServer } from '../../support/file-server.js';
import { writeCheckpoint } from '../../support/make-checkpoint.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import {
  atEnd,
  drop,
  folderUntilEnd,
  PAGE_FILE,
  savedText,
  serve,
  show,
  shownTensors,
  viewOf,
} from '../../support/viewer-page.js';

const folder = folderUntilEnd();
const file = join(folder, 'small.safetensors');
const model = join(folder, 'model');
const small = fileBytes([
  { name: 'a.weight', dtype: 'F32', shape: [2, 3] },
  { name: 'b', dtype: 'U8', shape: [3] },
]);
const SMALL = ['a.weight', 'b'];
/** Where the page is, by how people get it. */
const pages: Record<'file://' | 'https://', string> = {
  'file://': pathToFileURL(PAGE_FILE).href,
  'https://': '',
};

/** Writes a checkpoint of two shards; `name` is that of its first tensor. */
function writeShards(at: string, name: string): void {
  writeCheckpoint(
    {
      shards: {
        'model-00001-of-00002.safetensors': [{ name, dtype: 'U8', shape: [3] }],
        'model-00002-of-00002.safetensors': [{ name: 'last', dtype: 'U8', shape: [3] }],
      },
    },
    at,
  );
}

beforeAll(async () => {
  writeFileSync(file, small);
  writeShards(model, 'first');
  const host = await FileServer.start({ '/page.html': readFileSync(PAGE_FILE) });
  atEnd(() => host.close());
  pages['https://'] = host.at('/page.html');
});

/** A server that is not the page's, with the files of this test. */
async function otherServer(options?: { isOpen: boolean }): Promise<FileServer> {
  const server = await FileServer.start(
    {
      '/small.safetensors': small,
      ...Object.fromEntries(
        [
          'model.safetensors.index.json',
          'model-00001-of-00002.safetensors',
          'model-00002-of-00002.safetensors',
        ].map((name) => [`/model/${name}`, readFileSync(join(model, name))]),
      ),
    },
    options,
  );
  atEnd(() => server.close());
  return server;
}

describe.each(['file://', 'https://'] as const)('a page from %s', (from) => {
  it('shows a file that is dropped', async () => {
    const { page, faults, requests } = await show(pages[from]);
    await drop(page, [file], '.drop');
    expect(await shownTensors(page)).toEqual(SMALL);
    expect([faults, requests.filter(isSent)]).toEqual([[], []]);
  });

  it('shows a folder that is dropped: index and shards are one checkpoint', async () => {
    const { page, faults, requests } = await show(pages[from]);
    await drop(page, [model], '.drop');
    expect(await shownTensors(page)).toEqual(['first', 'last']);
    await page.getByRole('treeitem', { name: 'last' }).click();
    await page.getByRole('gridcell').first().waitFor();
    expect([faults, requests.filter(isSent)]).toEqual([[], []]);
  });

  it('shows files and folders that are chosen', async () => {
    const { page, faults, requests } = await show(pages[from]);
    await page.getByLabel('Choose files').setInputFiles(file);
    expect(await shownTensors(page)).toEqual(SMALL);
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByLabel('Choose a folder').setInputFiles(model);
    expect(await shownTensors(page)).toEqual(['first', 'last']);
    expect([faults, requests.filter(isSent)]).toEqual([[], []]);
  });

  it('asks which one, when there are several', async () => {
    const several = folderUntilEnd();
    // Names in subfolders are the same.
    for (const name of ['one', 'two']) writeShards(join(several, name), name);
    writeFileSync(join(several, 'two/other.safetensors'), small);
    const { page, faults } = await show(pages[from]);
    await drop(page, [several], '.drop');
    const choices = page.getByRole('listitem').getByRole('button');
    await choices.first().waitFor();
    const top = basename(several);
    expect(await choices.locator('span:first-child').allTextContents()).toEqual([
      `${top}/one/model.safetensors.index.json`,
      `${top}/two/model.safetensors.index.json`,
      `${top}/two/other.safetensors`,
    ]);
    await choices.nth(1).click();
    expect(await shownTensors(page)).toEqual(['two', 'last']);
    expect(faults).toEqual([]);
  });

  it('says of other files that they are none', async () => {
    const other = join(folderUntilEnd(), 'notes.txt');
    writeFileSync(other, 'notes');
    const { page } = await show(pages[from]);
    await drop(page, [other], '.drop');
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.textContent()).toBe('None of these files ends in .safetensors.');
  });

  it('names a file of another format, with the command that shows it', async () => {
    const other = join(folderUntilEnd(), 'model.gguf');
    writeFileSync(other, 'GGUF');
    const { page } = await show(pages[from]);
    await drop(page, [other], '.drop');
    const command = 'npx safetensors-mmap serve "model.gguf"';
    await page.getByRole('alert').filter({ hasText: command }).waitFor();
  });

  it('reads an address by ranges, and sends no other request', async () => {
    const server = await otherServer();
    const { page, faults, requests } = await show(pages[from]);
    await page.getByLabel('Address of a checkpoint').fill(server.at('/small.safetensors'));
    await page.getByLabel('Address of a checkpoint').press('Enter');
    expect(await shownTensors(page)).toEqual(SMALL);
    await settled(page);
    const opening = server.requests.length;
    expect(server.requests).toEqual([
      'GET /small.safetensors bytes=0-99999',
      'GET /config.json bytes=0-9999999',
    ]);
    await page.getByRole('treeitem', { name: 'a.weight' }).click();
    // The cells are there before their values.
    await expect.poll(() => server.requests.length).toBeGreaterThan(opening);
    await settled(page);
    const values = server.requests.slice(opening);
    expect(values.every((one) => one.startsWith('GET /small.safetensors bytes='))).toBe(true);
    // One that was given up before it was sent is known to the browser alone.
    expect(new Set(requests.filter(isSent))).toEqual(
      new Set([server.at('/small.safetensors'), server.at('/config.json')]),
    );
    // Chromium writes of a missing configuration in its console.
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('reads an index at an address, and its shards', async () => {
    const server = await otherServer();
    const address = server.at('/model/model.safetensors.index.json');
    const { page, requests } = await show(`${pages[from]}#open=${address}&tensor=last`);
    await page.getByRole('gridcell').first().waitFor();
    expect(await shownTensors(page)).toEqual(['first', 'last']);
    expect(requests.filter(isSent).every((url) => url.startsWith(server.at('/')))).toBe(true);
  });

  it('says what a server must answer that refuses pages', async () => {
    const server = await otherServer({ isOpen: false });
    const { page } = await show(pages[from]);
    await page.getByLabel('Address of a checkpoint').fill(server.at('/small.safetensors'));
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.textContent()).toContain('Access-Control-Allow-Origin');
    expect(await alert.textContent()).toContain(
      'a page may only ask another origin that allows it by CORS headers',
    );
  });
});

/** Resolves once no request is under way. */
async function settled(page: Page): Promise<void> {
  await page.waitForLoadState('networkidle');
}

/** Whether a request leaves the browser: the worker's own text does not. */
function isSent(url: string): boolean {
  return !url.startsWith('blob:');
}

describe('a page from serve', () => {
  it('offers its sources, and asks for nothing but the list before one is chosen', async () => {
    const server = await serve(file, model);
    const { page, faults, requests } = await show(server.address);
    const choices = page.getByRole('listitem').getByRole('button');
    await choices.first().waitFor();
    const { origin } = new URL(server.address);
    expect(requests.filter(isSent)).toEqual([`${origin}/sources.json`]);
    // One request has the ranges of several files.
    const asked = new Set<string>();
    page.context().on('request', (request) => {
      const [address = '', ranges] = request.url().split('/ranges?');
      for (const range of ranges?.split(',') ?? []) asked.add(`${address}/${range.split(':')[0]}`);
      if (ranges === undefined && isSent(address)) asked.add(address);
    });
    await choices.filter({ hasText: 'model' }).click();
    expect(await shownTensors(page)).toEqual(['first', 'last']);
    await settled(page);
    expect([...asked].toSorted()).toEqual(
      [
        'config.json',
        'model-00001-of-00002.safetensors',
        'model-00002-of-00002.safetensors',
        'model.safetensors.index.json',
      ].map((name) => `${origin}/source/1/${name}`),
    );
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('shows a PyTorch file as safetensors', async () => {
    const torch = join(root, 'test/fixtures/torch/zip-state-dict.pt');
    const server = await serve(torch);
    const { page, faults } = await show(server.address);
    await page.getByRole('heading', { level: 1, name: 'zip-state-dict.pt' }).waitFor();
    const opened = await open(torch);
    const names = [...opened.keys()];
    await page.getByText('Of all values.').waitFor();
    expect(await page.getByRole('treeitem').count()).toBeGreaterThan(0);
    const list = JSON.parse(await savedText(page, 'Save tensors as JSON'));
    expect(list.map(({ name }: { name: string }) => name).sort()).toEqual(names.sort());
    opened.close();
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('shows the headers of a large model before its weights are known', async () => {
    const large = join(folder, 'large.safetensors');
    const entries = Array.from({ length: 2600 }, (_, at): Entry[] => {
      const name = `layers.${at % 100}.mlp.experts.${Math.floor(at / 100)}.up_proj.weight`;
      return [
        { name, dtype: 'F8_E4M3', shape: [2, 2] },
        { name: `${name}_scale_inv`, dtype: 'F32', shape: [1, 1] },
      ];
    });
    writeFileSync(large, fileBytes(entries.flat()));
    const server = await serve(large);
    const { page, faults } = await show('about:blank');
    // What the page shows before and after, when it changes.
    await page.addInitScript(`addEventListener('DOMContentLoaded', () => {
      globalThis.seen = new Set();
      new MutationObserver(() => {
        const [header] = document.querySelectorAll('main header');
        const outline = document.querySelector('.poster canvas')?.getAttribute('aria-label');
        if (header) seen.add(header.textContent + ' | ' + outline);
      }).observe(document.body, { childList: true, subtree: true });
    })`);
    await page.goto(server.address);
    await page.getByText('2,600 weights (5,200 stored tensors)').first().waitFor();
    const [first, ...more] = (await page.evaluate('[...seen]')) as string[];
    expect(first).toContain('large.safetensors');
    expect(first).toContain('1 file · 5,200 stored tensors\u00a0 |');
    // Experts share a row, and scales have none: as in the poster of the weights.
    expect(first).toMatch(/\| 1 role in 100 layers; no values are read yet$/);
    expect(more.at(-1)).toMatch(/\| RMS by role and layer .*: 1 role in 100 layers\./);
    expect(await page.getByText('Finding the weights').count()).toBe(0);
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('leads back to its list, and forward again', async () => {
    const server = await serve(file, model);
    const { page, faults } = await show(server.address);
    const choices = page.getByRole('listitem').getByRole('button');
    await choices.filter({ hasText: 'model' }).click();
    expect(await shownTensors(page)).toEqual(['first', 'last']);
    await page.getByRole('treeitem', { name: 'last' }).click();
    await page.getByRole('heading', { level: 1, name: 'last' }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'model' }).waitFor();
    await page.goBack();
    await choices.first().waitFor();
    await page.goForward();
    await page.getByRole('heading', { level: 1, name: 'model' }).waitFor();
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('opens an address of another server without giving it the token', async () => {
    const server = await serve(file);
    const other = await otherServer();
    const { page } = await show(viewOf(server, `open=${other.at('/small.safetensors')}&tensor=b`));
    await page.getByRole('gridcell').first().waitFor();
    // A header of its own would have made the browser ask before, by OPTIONS.
    expect(other.requests.filter((one) => !one.startsWith('GET'))).toEqual([]);
  });
});

describe('the policy', () => {
  it('is watched: what it refuses is a fault', async () => {
    const { page, faults } = await show(pages['file://']);
    await page.evaluate(
      `document.body.append(Object.assign(new Image(), { src: 'https://example.org/a.png' }))`,
    );
    await expect.poll(() => faults.join('\n')).toContain('violation of img-src');
  });
});

describe('two dropped folders of one name', () => {
  it('are two checkpoints', async () => {
    const top = folderUntilEnd();
    for (const name of ['x', 'y']) {
      mkdirSync(join(top, name));
      writeShards(join(top, name, 'model'), name);
    }
    const { page } = await show(pages['file://']);
    await drop(page, [join(top, 'x/model'), join(top, 'y/model')], '.drop');
    // Browsers that do not give them different names leave it to the page.
    const second = page.getByRole('button', { name: /^model \(\d\)\/model\.safetensors\.index/ });
    await second.click();
    expect(await shownTensors(page)).toEqual(['y', 'last']);
  });
});
