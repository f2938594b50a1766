/** Several models in one page: which of them Close, Back and another choice end, and what their steps are. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PageServer } from '../../../src/cli/serve/server.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, serve, show, viewOf } from '../../support/viewer-page.js';

const folder = folderUntilEnd();
const nameOf = (layer: number) => `model.layers.${layer}.mlp.up_proj.weight`;
let server: PageServer;

/** Two layers; the values of the second are times a factor. */
function model(factor: number): Entry[] {
  return [0, 1].map((layer): Entry => {
    const values = Float32Array.from({ length: 64 }, (_, at) => at * (layer === 1 ? factor : 1));
    const bytes = new Uint8Array(values.buffer);
    return { name: nameOf(layer), dtype: 'F32', shape: [8, 8], bytes };
  });
}

beforeAll(async () => {
  const paths = ['base', 'other', 'tuned'].map((name, at) => {
    const path = join(folder, `${name}.safetensors`);
    writeFileSync(path, fileBytes(model(at + 1)));
    return path;
  });
  server = await serve(...paths);
});

async function heading(page: Page, name: string): Promise<void> {
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

/** The names that the chooser offers. */
async function offered(page: Page): Promise<string[]> {
  const names = page.locator('.choices button span:first-child');
  await names.first().waitFor();
  return await names.allTextContents();
}

/** Compares the base with the tuned model, as people do. */
async function compared(): Promise<Page> {
  const { page } = await show(viewOf(server, ''));
  await page.getByRole('button', { name: 'base.safetensors' }).click();
  await heading(page, 'base.safetensors');
  await page.getByRole('button', { name: 'tuned.safetensors' }).click();
  await heading(page, '1 of 2 tensors differ, most in layer 1.');
  return page;
}

const hash = (page: Page) => page.evaluate('location.hash');

describe('the second model ends', () => {
  it('with the first, by Close', async () => {
    const page = await compared();
    await page.getByRole('button', { name: 'Close', exact: true }).click();
    expect(await offered(page)).toEqual(['base', 'other', 'tuned'].map((n) => `${n}.safetensors`));
    expect(await hash(page)).toBe('');
    await page.getByRole('button', { name: 'tuned.safetensors' }).click();
    await heading(page, 'tuned.safetensors');
    await page.getByRole('link', { name: 'Compare', exact: true }).click();
    await heading(page, 'Compare with a second model');
    // No model is compared with itself.
    expect(await offered(page)).toEqual(['base.safetensors', 'other.safetensors']);
    await page.getByLabel('Address of a checkpoint').waitFor();
  });

  it('by Back, at once, and begins again by Forward', async () => {
    const page = await compared();
    await page.goBack();
    await heading(page, 'base.safetensors');
    expect(await hash(page)).toBe('#open=base.safetensors');
    await page.goForward();
    await heading(page, '1 of 2 tensors differ, most in layer 1.');
    await page.goBack();
    await page.goBack();
    await page.getByRole('button', { name: 'other.safetensors' }).click();
    await heading(page, 'other.safetensors');
    await page.getByRole('link', { name: 'Compare', exact: true }).click();
    await heading(page, 'Compare with a second model');
  });

  it('by closing the second, with the base', async () => {
    const { page } = await show(
      viewOf(
        server,
        'open=tuned.safetensors&with=other.safetensors&base=base.safetensors&view=compare',
      ),
    );
    await page.getByText('a is tuned.safetensors, b is other.safetensors').waitFor();
    await page.getByRole('button', { name: 'Close the second' }).click();
    await heading(page, 'Compare with a second model');
    expect(new URL(page.url()).hash).not.toContain('base=');
    expect(await offered(page)).toEqual(['base.safetensors', 'other.safetensors']);
  });

  it('when an address opens another first, with the base', async () => {
    const { page } = await show(
      viewOf(
        server,
        'open=tuned.safetensors&with=other.safetensors&base=base.safetensors&view=compare',
      ),
    );
    await page.getByText('a is tuned.safetensors, b is other.safetensors').waitFor();
    await page.evaluate(`location.hash = '#open=base.safetensors&view=compare'`);
    await heading(page, 'Compare with a second model');
    expect(await offered(page)).toEqual(['other.safetensors', 'tuned.safetensors']);
    await page.getByRole('button', { name: 'other.safetensors' }).click();
    await page.getByText('Add a common base').waitFor();
  });
});

it('an address that compares a model with itself leads to the chooser', async () => {
  const { page } = await show(
    viewOf(server, 'open=base.safetensors&with=base.safetensors&view=compare'),
  );
  await heading(page, 'Compare with a second model');
  expect(await offered(page)).toEqual(['other.safetensors', 'tuned.safetensors']);
});

it('Back closes the popover of a poster', async () => {
  const page = await compared();
  await page.evaluate(
    `location.hash = '#open=base.safetensors&with=other.safetensors&view=compare'`,
  );
  await page.getByText('base.safetensors and other.safetensors').waitFor();
  const poster = page.getByRole('application').first();
  await poster.focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('.popover').waitFor();
  await page.goBack();
  await page.getByText('base.safetensors and tuned.safetensors').waitFor();
  await page.locator('.popover').waitFor({ state: 'detached' });
});
