// Draws site/card.png, the picture of a link on social media, from site/card.svg: `node site/card.mjs`. Needs Chromium.

import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const site = fileURLToPath(new URL('.', import.meta.url));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
});
const page = await browser.newPage({ viewport: { width: 1200, height: 630 } });
await page.goto(pathToFileURL(join(site, 'card.svg')).href);
await page.screenshot({ path: join(site, 'card.png') });
await browser.close();
