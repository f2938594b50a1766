import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { type MappingStatus, mappingStatus } from '../../support/api.js';
import { useHub } from '../../support/hub-environment.js';
import { temporaryPath } from '../../support/make-file.js';
import { printed } from '../call.js';

const TOKEN = 'hf_secret';

afterEach(() => {
  vi.unstubAllEnvs();
});

it('doctor says what matters, and shows no token', async () => {
  useHub('https://hub.example');
  const cache = temporaryPath('hub-cache');
  for (const name of ['models--org--name', 'datasets--org--other', '.locks']) {
    mkdirSync(join(cache, name), { recursive: true });
  }
  vi.stubEnv('HF_HUB_CACHE', cache);
  vi.stubEnv('HF_TOKEN', TOKEN);
  const result = JSON.parse(await printed(['doctor', '--json']));
  expect(result).toMatchObject({
    platform: `${process.platform}-${process.arch}`,
    runtime: `Node ${process.versions.node}`,
    mapping: mappingStatus(),
    hub: {
      ...{ endpoint: 'https://hub.example', offline: false, hasToken: true },
      ...{ cache, cachedRepositories: 2 },
    },
  });
  expect(Object.keys(result)).toEqual(['version', 'runtime', 'platform', 'mapping', 'hub']);
  const text = await printed(['doctor'], { columns: 80 });
  expect(text).toMatch(/^token +found$/m);
  expect(text).toContain(`${cache}: repositories: 2\n`);
  expect(text + JSON.stringify(result)).not.toContain(TOKEN);
});

it('doctor says which addon is used, and whether the engine counts its buffers', async () => {
  const status = mappingStatus() as MappingStatus & { available: true };
  const used = `mapping +files are mapped, by ${status.addon}`;
  const { counted } = status.buffers;
  const buffers = counted
    ? 'the engine counts them .*, because '
    : 'the engine does not count them';
  expect(await printed(['doctor'])).toMatch(new RegExp(`^${used}\nbuffers +${buffers}`, 'm'));
  vi.stubEnv('SAFETENSORS_MMAP_ADDON', status.addon);
  expect(await printed(['doctor'])).toMatch(
    new RegExp(`^${used}, which SAFETENSORS_MMAP_ADDON names$`, 'm'),
  );
});

it('doctor says what is missing', async () => {
  useHub('https://hub.example');
  vi.stubEnv('HF_HUB_OFFLINE', '1');
  const { hub } = JSON.parse(await printed(['doctor', '--json']));
  expect(hub).toMatchObject({ offline: true, hasToken: false, cachedRepositories: null });
  expect(await printed(['doctor'])).toMatch(
    /unused: offline\ntoken +none\ncache .*: missing or unreadable\n$/m,
  );
});

it('doctor goes on where the cache is no folder', async () => {
  const cache = temporaryPath('file');
  writeFileSync(cache, '');
  vi.stubEnv('HF_HUB_CACHE', cache);
  const { hub } = JSON.parse(await printed(['doctor', '--json']));
  expect(hub).toMatchObject({ cache, cachedRepositories: null });
});
