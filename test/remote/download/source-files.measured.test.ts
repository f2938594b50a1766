import { expect, it } from 'vitest';
import { DEFAULT_HUB_SETTINGS } from '../../../src/file/hub/settings.js';
import { findSourceFiles } from '../../../src/remote/download/source-files.js';
import { sourceSession } from '../../../src/remote/source.js';
import { measuredAsync } from '../../support/processor-cost.mjs';

it('finds thousands of files in a list without stalling the event loop', async () => {
  const names = Array.from({ length: 5000 }, (_, i) => `model-${i}.safetensors`);
  const oid = 'a'.repeat(40);
  const headers = { 'x-repo-commit': 'c'.repeat(40) };
  const listFetch: typeof fetch = async (input) =>
    String(input).includes('/tree/')
      ? Response.json(names.map((path) => ({ type: 'file', path, size: 10, oid })))
      : Response.json({ sha: 'c'.repeat(40) }, { headers });
  const source = sourceSession('hf://org/many', { fetch: listFetch }, DEFAULT_HUB_SETTINGS);
  const { signal } = new AbortController();
  try {
    const files = await findSourceFiles(source, {}, signal);
    const cost = await measuredAsync(() =>
      Promise.all(names.map((name) => files.find(name, signal))),
    );
    expect(cost.result.map(({ name }) => name)).toEqual(names);
    // None of it waits for anything. A look through the whole list for every file takes ten seconds.
    expect(cost.milliseconds).toBeLessThan(2000);
  } finally {
    source.session.close();
  }
});
