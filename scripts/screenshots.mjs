// Draws the pictures of docs/viewer: `node scripts/screenshots.mjs`. With `--all FOLDER` every view at three widths,
// light and dark, to look at. It needs Chromium; `npx vitest run --project viewer` needs the same one. The package has
// one of the pictures: `pngquant --ext .png --force docs/viewer/*.png` makes them a third as long.

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

const root = fileURLToPath(new URL('..', import.meta.url));
const WIDTHS = { 1440: 900, 1024: 768, 390: 844 };

const QUERY = 'model.layers.5.self_attn.q_proj.weight';

/** Views by the name of their picture: an address, and what must be done and awaited before it is complete. */
const VIEWS = {
  open: { address: '' },
  overview: { address: 'open=writer-135m.safetensors&view=overview' },
  tensor: { address: `open=writer-135m.safetensors&tensor=${QUERY}`, wait: '.grid-cell' },
  expert: {
    address: 'open=writer-135m.safetensors&tensor=model.layers.9.mlp.experts&slice=3, :, :',
  },
  map: { address: 'open=writer-135m.safetensors&view=map' },
  compare: {
    address: 'open=writer-135m.safetensors&with=writer-135m-tuned.safetensors&view=compare',
  },
  pair: {
    address: `open=writer-135m.safetensors&with=writer-135m-tuned.safetensors&tensor=${QUERY}`,
    wait: '.grid-cell',
  },
  lora: { address: 'open=writer-135m.safetensors&with=writer-lora.safetensors&view=compare' },
  search: { address: 'open=writer-135m.safetensors&view=tensors&find=5 proj&sort=size' },
  wrong: { address: `open=writer-135m.safetensors&tensor=${QUERY}&slice=0:4, 900` },
};

/** The pictures of the documentation, and how each is taken. */
const PICTURES = {
  overview: { scheme: 'light', height: 800 },
  tensor: { scheme: 'light' },
  map: { scheme: 'light' },
  compare: { scheme: 'light' },
};

const { values } = parseArgs({ options: { all: { type: 'string' }, only: { type: 'string' } } });
await build();
const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
const sources = await writeDemoModels(folder);
const server = spawn(process.execPath, [join(root, 'lib/cli.js'), 'serve', '--json', ...sources], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb', '--hide-scrollbars'],
});
try {
  const base = await addressOf(server);
  if (values.all === undefined) {
    const target = join(root, 'docs/viewer');
    mkdirSync(target, { recursive: true });
    for (const [name, { scheme, height = 700 }] of Object.entries(PICTURES)) {
      await take(base, name, { scheme, width: 1120, height }, join(target, `${name}.png`));
    }
  } else {
    mkdirSync(values.all, { recursive: true });
    for (const name of values.only?.split(',') ?? Object.keys(VIEWS)) {
      for (const [width, height] of Object.entries(WIDTHS)) {
        for (const scheme of ['light', 'dark']) {
          const file = join(values.all, `${name}-${width}-${scheme}.png`);
          await take(base, name, { scheme, width: Number(width), height }, file);
        }
      }
    }
  }
} finally {
  await browser.close();
  server.kill('SIGINT');
  await once(server, 'exit');
  rmSync(folder, { recursive: true, force: true });
}

/** The address that the server prints, up to its `#`. */
async function addressOf({ stdout }) {
  const [line] = await once(createInterface({ input: stdout }), 'line');
  return JSON.parse(line).address.replace(/#.*$/, '');
}

async function take(base, name, { scheme, width, height }, file) {
  const { address, press, wait = 'main' } = VIEWS[name];
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    deviceScaleFactor: 1,
  });
  const page = await context.newPage();
  await page.goto(`${base}#${address}`);
  await page.locator(wait).first().waitFor();
  if (press !== undefined) await page.getByRole('button', { name: press }).click();
  await page.waitForLoadState('networkidle');
  await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
  // Canvases are drawn after the results are there.
  await page.waitForTimeout(600);
  await page.screenshot({ path: file });
  if (values.all !== undefined) {
    // What is further down, in a window as high as the view.
    const whole = await page.evaluate(() => document.querySelector('main').scrollHeight + 80);
    await page.setViewportSize({ width, height: Math.min(whole, 3600) });
    await page.waitForTimeout(500);
    await page.screenshot({ path: file.replace('.png', '-whole.png') });
  }
  await context.close();
}
