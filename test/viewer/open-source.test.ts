/** Opening what an address names. */
import { expect, it } from 'vitest';
import { openSource } from '../../viewer/worker/sources.js';

it.each(['writer', '/tmp/model.safetensors'])('%j is no address of a model', async (url) => {
  const { signal } = new AbortController();
  await expect(openSource({ kind: 'url', url }, null, signal, () => {})).rejects.toThrow(
    `unknown model "${url}"; enter org/name on the Hub, or an address that begins with https://`,
  );
});
