/** Names, metadata and thumbnails of a file are text of other people: never markup, a link or a request. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, serve, show, viewOf } from '../../support/viewer-page.js';

const ATTACKS = [
  '<img src=x onerror="document.title=`attacked`">',
  '<script>document.title="attacked"</script>',
  '"><svg onload=alert(1)>',
  'javascript:alert(1)',
  'https://example.org/beacon.png',
  '</style><link rel=stylesheet href=https://example.org/a.css>',
  'url(https://example.org/a.png)',
  '__proto__',
  'constructor',
  '\u202egnp.exe\u0000\u001b[31m',
  `model.layers.0.${'x'.repeat(3000)}.weight`,
  '&view=map&open=https://example.org/x.safetensors#tensor=a',
];

/** An image that would load another, if it were shown as a document. */
const PICTURE = Buffer.from(
  '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><image href="https://example.org/b.png"/></svg>',
).toString('base64');

async function attacked(thumbnail: string): Promise<string> {
  const path = join(folderUntilEnd(), 'hostile.safetensors');
  const entries = ATTACKS.map((name): Entry => ({ name, dtype: 'U8', shape: [2] }));
  const metadata = {
    'modelspec.title': ATTACKS[0] as string,
    'modelspec.thumbnail': thumbnail,
    ss_tag_frequency: JSON.stringify({ [ATTACKS[1] as string]: { [ATTACKS[2] as string]: 3 } }),
    ss_training_started_at: '99999999999.9',
    ...Object.fromEntries(ATTACKS.map((text) => [text, text])),
  };
  writeFileSync(path, fileBytes(entries, { metadata }));
  return path;
}

/** What a file could have made: elements, links that lead out, handlers. */
async function foreignElements(page: Page): Promise<unknown> {
  return await page.evaluate(`[...document.querySelectorAll('body *')]
    .filter((one) => one.matches('script:not(body > script), iframe, object, embed, link, style, svg, base, form[action]')
      || (one.tagName === 'IMG' && !one.src.startsWith('blob:'))
      || (one.tagName === 'A' && !one.getAttribute('href').startsWith('#'))
      || [...one.attributes].some(({ name }) => name.startsWith('on')))
    .map((one) => one.outerHTML.slice(0, 200))`);
}

describe.each([
  ['a picture with a script', `data:image/svg+xml;base64,${PICTURE}`],
  ['an address', 'https://example.org/thumbnail.png'],
  ['a picture that is none', `data:image/png;base64,${PICTURE}`],
])('a hostile file, whose thumbnail is %s', (_, thumbnail) => {
  it('shows its texts as texts, in every view', async () => {
    const server = await serve(await attacked(thumbnail));
    const { page, faults, requests } = await show(viewOf(server, 'open=hostile.safetensors'));
    await page
      .getByRole('heading', { level: 1, name: ATTACKS[0] as string, exact: true })
      .waitFor();
    expect(await foreignElements(page)).toEqual([]);
    for (const name of ATTACKS) {
      const address = `open=hostile.safetensors&tensor=${encodeURIComponent(name)}`;
      await page.evaluate(`location.hash = ${JSON.stringify(address)}`);
      const shown = page.getByRole('gridcell', { name: '2' });
      await shown.waitFor();
      expect(await foreignElements(page)).toEqual([]);
    }
    for (const view of ['map', 'layers', 'compare', 'tensors&find=img&sort=name']) {
      await page.evaluate(`location.hash = 'open=hostile.safetensors&view=${view}'`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      expect(await foreignElements(page)).toEqual([]);
    }
    const { origin } = new URL(server.address);
    const others = requests.filter(
      (url) => !url.startsWith(`${origin}/`) && !url.startsWith('blob:'),
    );
    expect(others).toEqual([]);
    expect(await page.title()).not.toBe('attacked');
    // Browsers write of a missing configuration, and of a picture that they cannot decode.
    expect(faults.filter((fault) => !/404|decode/.test(fault))).toEqual([]);
  });
});
