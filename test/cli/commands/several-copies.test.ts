/** Tensors that several shards have: what commands print, list and stop for. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { loadFile } from '../../support/api.js';
import { HubServer } from '../../support/hub-server.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { call, printed } from '../call.js';

const [FIRST, SECOND] = [1, 2].map((shard) => `model-0000${shard}-of-00002.safetensors`);
const filled = (name: string, value: number): Parameters<typeof fileBytes>[0][number] => {
  const bytes = new Uint8Array(Float32Array.of(value, value).buffer);
  return { name, dtype: 'F32', shape: [2], bytes };
};

/** `b` is in both shards; the index places it in the second. */
const FILES = {
  [`${FIRST}`]: fileBytes([filled('a', 1), filled('b', 9)], { metadata: { step: '1' } }),
  [`${SECOND}`]: fileBytes([filled('b', 2)], { metadata: { step: '2' } }),
  'model.safetensors.index.json': JSON.stringify({ weight_map: { a: FIRST, b: SECOND } }),
};
const WARNINGS = [
  'warning: found in several files, written once: b\n',
  'warning: metadata with several values: step\n',
];

function writeModel(folder = temporaryPath('model')): string {
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(FILES)) writeFileSync(join(folder, name), content);
  return folder;
}

function other(): string {
  const path = temporaryPath('other.safetensors');
  writeFileSync(path, fileBytes([filled('c', 3)]));
  return path;
}

const valuesOf = (path: string): Record<string, number> =>
  Object.fromEntries(Array.from(loadFile(path), ([name, t]) => [name, t.toFloat32()[0] ?? 0]));

let hub: HubServer | undefined;
beforeAll(async () => {
  hub = await HubServer.start({ 'org/copies': { files: FILES } });
});
afterAll(() => hub?.close());

it.each([
  ['convert', (to: string) => ['convert', writeModel(), to]],
  ['split', (to: string) => ['split', writeModel(), to, '--max-shard-size', '1KB']],
  ['join', (to: string) => ['join', writeModel(), other(), '-o', to]],
  ['download', (to: string) => ['download', 'hf://org/copies', to, '--rename', 'a=>a2']],
])('%s warns of them, and lists them in --json and dry runs', async (_, command) => {
  vi.stubEnv('HF_ENDPOINT', `${hub?.url}`);
  const facts = { duplicates: ['b'], conflicts: ['step'] };
  const target = temporaryPath('target');
  const plan = JSON.parse(await printed([...command(target), '--dry-run', '--json']));
  expect(plan).toMatchObject(facts);
  const shown = await printed(command(target));
  for (const warning of WARNINGS) expect(shown).toContain(warning);
  expect(valuesOf(target)).toMatchObject({ b: 2 });
  const again = JSON.parse(await printed([...command(temporaryPath('again')), '--json']));
  expect(again).toMatchObject(facts);
});

it('a copy that would be lost in place is listed as replaced; join stops for it', async () => {
  const model = writeModel();
  const joined = await call(['join', model, other(), '-o', model]);
  expect([joined.code, joined.stderr]).toEqual([
    1,
    expect.stringContaining('already holds weights'),
  ]);
  const { replaced } = JSON.parse(await printed(['convert', model, model, '--json']));
  const names = replaced.map(({ name }: { name: string }) => name);
  expect(names).toEqual(expect.arrayContaining([FIRST, SECOND]));
  expect(valuesOf(model)).toEqual({ a: 1, b: 2 });
});

it('of a pipeline they are listed with the folder of the model', async () => {
  const pipeline = temporaryPath('pipeline');
  writeModel(join(pipeline, 'unet'));
  writeFileSync(join(pipeline, 'model_index.json'), '{"unet":["diffusers","X"]}');
  const target = temporaryPath('target');
  const result = JSON.parse(await printed(['convert', pipeline, target, '--json']));
  expect(result.duplicates).toEqual(['unet/b']);
});

it('of a quantized model they are listed when it is dequantized', async () => {
  const folder = writeModel();
  const codes = { name: 'm.weight', dtype: 'F8_E4M3', shape: [2, 2] } as const;
  writeFileSync(
    join(folder, `${SECOND}`),
    fileBytes([filled('b', 2), codes, { name: 'm.weight_scale', dtype: 'F32', shape: [] }]),
  );
  const target = temporaryPath('target');
  const command = ['convert', folder, target, '--dequantize', 'BF16', '--json'];
  expect(JSON.parse(await printed(command))).toMatchObject({
    duplicates: ['b'],
    dequantizedCount: 1,
  });
});
