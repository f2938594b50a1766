// The Hub of the tests, for processes that run no TypeScript.
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../support/hub-server.ts', import.meta.url));
const BUILT = new URL('../../build/faults/hub-server.mjs', import.meta.url);

/** Compiles it. */
export async function buildHub() {
  const { build } = await import('esbuild');
  const outfile = fileURLToPath(BUILT);
  await build({ entryPoints: [SOURCE], outfile, bundle: true, platform: 'node', format: 'esm' });
}

/** Starts a Hub with these repositories, and lets `hf://` mean it in this process. */
export async function startHub(repositories) {
  const { HubServer } = await import(BUILT);
  const hub = await HubServer.start(repositories);
  process.env.HF_ENDPOINT = hub.url;
  return hub;
}
