// Draws the pictures of docs/viewer: `node scripts/screenshots.mjs`. With `--all DIRECTORY` every view of five kinds of
// models at three widths, light and dark, to look at; with `--only gpt2,lora-map` those whose names begin so. It needs
// Chromium; `npx vitest run --project viewer` needs the same one. The package has one of the pictures: `pngquant --ext
// .png --force docs/viewer/*.png` makes them a third as long.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { build } from './build.mjs';
import { writeDemoModels } from './screenshots/demo-models.mjs';
import { KINDS } from './screenshots/model-kinds.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const WIDTHS = { 1440: 900, 1024: 768, 390: 844 };

/** A view without requests for so long is complete. */
const QUIET_MS = 3000;

const QUERY = 'model.layers.5.self_attn.q_proj.weight';

/** The pictures of the documentation: an address, and how each is taken. */
const PICTURES = {
  overview: { address: { open: 'writer-135m.safetensors' }, height: 800 },
  tensor: { address: { open: 'writer-135m.safetensors', tensor: QUERY } },
  map: { address: { open: 'writer-135m.safetensors', view: 'map' } },
  compare: {
    address: {
      ...{ open: 'writer-135m.safetensors', with: 'writer-135m-tuned.safetensors' },
      view: 'compare',
    },
  },
};

/** Addresses of all views of a kind of models. */
function viewsOf({ models, tensor, find, wrong }) {
  const { open } = models;
  return {
    list: {},
    overview: { open },
    tensors: { open, view: 'tensors' },
    map: { open, view: 'map' },
    tensor: { open, tensor },
    compare: { ...models, view: 'compare' },
    other: { open: models.with },
    pair: { ...models, tensor },
    search: { open, view: 'tensors', find },
    wrong: { open, ...wrong },
  };
}

const { values } = parseArgs({ options: { all: { type: 'string' }, only: { type: 'string' } } });
await build();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb', '--hide-scrollbars'],
});
try {
  if (values.all === undefined) await takePictures();
  else await takeAll(values.all, values.only?.split(',') ?? ['']);
} finally {
  await browser.close();
}

async function takePictures() {
  const target = join(root, 'docs/viewer');
  mkdirSync(target, { recursive: true });
  await withServer(writeDemoModels, async (base) => {
    for (const [name, { address, height = 700 }] of Object.entries(PICTURES)) {
      const page = await open(base, address, { width: 1120, height });
      await page.screenshot({ path: join(target, `${name}.png`) });
      await page.context().close();
    }
  });
}

/** Takes the views of all kinds whose names begin with one of `only`, such as `gpt2` or `gpt2-map-390`. */
async function takeAll(target, only) {
  mkdirSync(target, { recursive: true });
  for (const [kind, models] of Object.entries(KINDS)) {
    const sizes = Object.entries(viewsOf(models)).flatMap(([view, address]) =>
      Object.entries(WIDTHS).map(([width, height]) => ({
        ...{ name: `${kind}-${view}-${width}`, address, width: Number(width), height },
      })),
    );
    const selected = sizes.filter(({ name }) => only.some((one) => name.startsWith(one)));
    if (selected.length === 0) continue;
    await withServer(models.write, async (base) => {
      for (const { name, address, ...size } of selected) {
        await takeBoth(await open(base, address, size), size, join(target, name));
      }
    });
  }
}

/** Serves models from a temporary directory as long as `use` needs them. */
async function withServer(write, use) {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  try {
    const sources = await write(folder);
    const args = [join(root, 'lib/cli.js'), 'serve', '--json', ...sources];
    const server = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      await use(await addressOf(server));
    } finally {
      server.kill('SIGINT');
      await once(server, 'exit');
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The address that the server prints, up to its `#`. */
async function addressOf({ stdout }) {
  const [line] = await once(createInterface({ input: stdout }), 'line');
  return JSON.parse(line).address.replace(/#.*$/, '');
}

/** Opens an address, and waits until its view is complete. Narrow screens are those of phones. */
async function open(base, address, viewport) {
  const hasTouch = viewport.width < 600;
  const context = await browser.newContext({ viewport, hasTouch, colorScheme: 'light' });
  let last = Date.now();
  for (const event of ['request', 'requestfinished']) context.on(event, () => (last = Date.now()));
  const page = await context.newPage();
  await page.goto(`${base}#${new URLSearchParams(address)}`);
  const ready = address.open === undefined ? '.choices' : 'nav, .failure';
  await page.locator(ready).first().waitFor();
  // Opening starts work, whose results start more.
  const working = page.getByRole('button', { name: /^(Stop|Cancel)$/ });
  while (Date.now() - last < QUIET_MS || (await working.count()) > 0)
    await page.waitForTimeout(200);
  return page;
}

/** Takes a view light and dark, each also in a window as high as the view. */
async function takeBoth(page, { width, height }, path) {
  const whole = await page.evaluate(() => document.querySelector('main').scrollHeight + 80);
  const heights = { '': height, '-whole': Math.min(3600, Math.max(height, whole)) };
  for (const [end, high] of Object.entries(heights)) {
    await page.setViewportSize({ width, height: high });
    for (const scheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${path}-${scheme}${end}.png` });
    }
  }
  await page.context().close();
}
