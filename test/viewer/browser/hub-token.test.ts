/** A gated model on the Hub: the page asks for a token, which stays in its memory and goes only to the Hub. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { HubServer, TOKEN } from '../../support/hub-server.js';
import { fileBytes } from '../../support/make-file.js';
import { answerForHub, atEnd, PAGE_FILE, show, shownTensors } from '../../support/viewer-page.js';

describe('a gated model of the Hub', () => {
  it('asks for a token, which is kept in memory alone', async () => {
    const hub = await HubServer.start({
      'org/gated': {
        files: {
          'model.safetensors': fileBytes([{ name: 'a.weight', dtype: 'F32', shape: [2, 3] }]),
        },
        access: 'gated',
      },
    });
    atEnd(() => hub.close());
    const { page } = await show(pathToFileURL(PAGE_FILE).href);
    await answerForHub(page, hub);
    const sent: { url: string; headers: Promise<Record<string, string>> }[] = [];
    page
      .context()
      .on('request', (request) => sent.push({ url: request.url(), headers: request.allHeaders() }));
    const expectForgotten = async () => {
      const kept = await page.evaluate(`JSON.stringify([
        location.href, history.state, document.cookie, document.querySelector('#page').outerHTML,
        { ...localStorage }, { ...sessionStorage }, name,
      ])`);
      expect(kept).not.toContain(TOKEN);
      expect(kept).toContain('hf://org/gated');
    };
    await page.getByLabel('Address of a checkpoint').fill('hf://org/gated');
    await page.getByLabel('Address of a checkpoint').press('Enter');
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').textContent()).toContain('memory of this page');
    const field = page.getByLabel('Token of the Hub');
    expect(await field.getAttribute('type')).toBe('password');
    // Without one nothing was sent.
    expect(hub.requests.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
    await field.fill('hf_other');
    await field.press('Enter');
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('gated');
    await field.fill(TOKEN);
    await field.press('Enter');
    expect(await shownTensors(page)).toEqual(['a.weight']);
    await expectForgotten();
    await page.evaluate(`location.hash = 'open=hf://org/gated&tensor=a.weight'`);
    await page.getByRole('gridcell').first().waitFor();
    await page.waitForLoadState('networkidle');
    // The Hub had it, and nobody else.
    const bearer = `Bearer ${TOKEN}`;
    const allowed = hub.requests.filter(({ headers }) => headers.authorization === bearer);
    expect(allowed.length).toBeGreaterThan(0);
    expect(new Set(allowed.map(({ server: one }) => one))).toEqual(new Set(['hub']));
    const hosts = new Set<string>();
    for (const { url, headers } of sent) {
      const text = JSON.stringify([url, await headers]);
      if (text.includes(TOKEN)) hosts.add(new URL(url).host);
    }
    expect([...hosts]).toEqual(['huggingface.co']);
    expect(await page.context().storageState({ indexedDB: true })).toEqual({
      cookies: [],
      origins: [],
    });
    await expectForgotten();
    // The page that is loaded again has forgotten it.
    hub.requests.length = 0;
    await page.reload();
    await field.waitFor();
    expect(await field.inputValue()).toBe('');
    expect(hub.requests.length).toBeGreaterThan(0);
    expect(hub.requests.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
  });
});

describe('a server that is not the Hub', () => {
  it('is never given a token of the Hub, whatever it answers', async () => {
    const server = createServer((_request, response) => {
      const headers = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Headers': '*' };
      response.writeHead(401, { ...headers, 'X-Error-Code': 'GatedRepo' }).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    atEnd(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { page } = await show(pathToFileURL(PAGE_FILE).href);
    const address = page.getByLabel('Address of a checkpoint');
    await address.fill(`http://127.0.0.1:${port}/model.safetensors`);
    await address.press('Enter');
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.textContent()).toContain('wants to know who asks');
    expect(await page.getByLabel('Token of the Hub').count()).toBe(0);
  });
});
