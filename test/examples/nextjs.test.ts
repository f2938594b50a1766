/** The Next.js app: built and started, it lists tensors, shows values, gives rows, and takes a new model. */
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { saveFile } from '../support/api.js';
import { Example, freePort } from './example.js';
import { DEPENDENCIES } from './setup.js';

const NEXT = join(DEPENDENCIES, 'node_modules/next/dist/bin/next');

/** Next looks for packages below its root, and in the tests they are above the app. */
function widenRoot(example: Example): void {
  renameSync(example.path('next.config.js'), example.path('own.config.js'));
  const root = JSON.stringify(DEPENDENCIES);
  writeFileSync(
    example.path('next.config.js'),
    `import own from './own.config.js';
export default { ...own, outputFileTracingRoot: ${root}, turbopack: { root: ${root} } };`,
  );
}

it('reads the model on the server', async () => {
  const example = new Example('nextjs');
  widenRoot(example);
  const env = { NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' } as const;
  const { code, stdout, stderr } = example.run([NEXT, 'build'], { env });
  if (code !== 0) throw new Error(stdout + stderr);
  expect(existsSync(example.path('.next'))).toBe(true);

  example.lines(['make-model.js']);
  const port = await freePort();
  const args = ['start', '--hostname', '127.0.0.1', '--port', `${port}`];
  const server = example.start([NEXT, ...args], { env });
  await server.line(/Ready in/);
  const get = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`);

  const list = await (await get('/')).text();
  expect(list).toContain('<h1>2 tensors</h1>');
  const [, link = ''] = /href="([^"]*)">embed\.weight</.exec(list) ?? [];
  expect(list).toContain('<td>F32</td><td>1000 × 16</td>');
  const page = await (await get(link)).text();
  expect(page).toContain('<p>F32, 1000 × 16, 64000 bytes</p><p>0, 0.0625, 0.125,');
  expect((await get('/tensor?name=other')).status).toBe(404);

  const rows = await get('/rows?name=embed.weight&ids=7,-1');
  const { shape, values } = (await rows.json()) as { shape: number[]; values: number[] };
  expect(shape).toEqual([2, 16]);
  expect([values[0], values[1], values[16]]).toEqual([7, 7.0625, 999]);
  const statuses = ['embed.weight&ids=1000', 'embed.weight&ids=x', 'other&ids=1'].map(
    async (query) => (await get(`/rows?name=${query}`)).status,
  );
  expect(await Promise.all(statuses)).toEqual([400, 400, 404]);

  const data = Float32Array.of(5, 6);
  await saveFile(example.path('model.safetensors'), { new: { dtype: 'F32', shape: [2], data } });
  expect(await (await get('/')).text()).toContain('<h1>1 tensors</h1>');
  expect(await (await get('/tensor?name=new')).text()).toContain('<p>5, 6</p>');

  // A file that cannot be opened is an error of the request, and the next one is served again.
  writeFileSync(example.path('bad'), 'no model');
  renameSync(example.path('bad'), example.path('model.safetensors'));
  expect((await get('/')).status).toBe(500);
  await saveFile(example.path('model.safetensors'), { last: { dtype: 'F32', shape: [2], data } });
  await delay(10);
  expect((await get('/tensor?name=last')).status).toBe(200);

  const ended = await server.end('SIGTERM');
  expect(ended.stderr).toMatch(/SAFETENSORS_/);
  expect(ended.stderr).not.toMatch(/MAPPING_UNAVAILABLE/);
});
