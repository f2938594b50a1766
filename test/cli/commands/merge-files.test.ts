/** The files next to the weights of a merge, for bases in the Hub cache and on servers. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { pathOf } from '../../merge/fixtures.js';
import { FileServer } from '../../support/file-server.js';
import { HubCache } from '../../support/hub-cache.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { printed } from '../call.js';

const adapter = pathOf('peft-linear-f32', 'adapter');
const weights = readFileSync(join(pathOf('peft-linear-f32', 'base'), 'model.safetensors'));
const files = {
  'config.json': '{"model_type": "llama", "torch_dtype": "float32"}',
  'tokenizer_config.json': '{}',
  'notes.txt': 'notes',
};

const read = (folder: string): Record<string, string> => {
  const names = readdirSync(folder).filter((name) => name !== 'model.safetensors');
  return Object.fromEntries(
    names.sort().map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
  );
};

const linear = (...sources: string[]): string[] => {
  return [...sources, '--method', 'linear', ...sources.flatMap(() => ['--weight', '1'])];
};

describe('of a base in the Hub cache', () => {
  beforeEach(() => {
    const cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    cache.addShared('model.safetensors', weights);
    for (const [name, text] of Object.entries(files)) cache.addShared(name, text);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it.each([
    [['org/name', '--adapter', adapter], files],
    [
      [...linear('org/name', 'org/name'), '--dtype', 'BF16'],
      { ...files, 'config.json': files['config.json'].replace('float32', 'bfloat16') },
    ],
  ])('all are copied: %j', async (args, expected) => {
    const target = temporaryPath('merged');
    await printed(['merge', ...args, '-o', target]);
    expect(read(target)).toEqual(expected);
  });

  it('those of a recipe are copied', async () => {
    const folder = temporaryPath('recipes');
    writeBelow(
      folder,
      'recipe.json',
      '{"method": "linear", "models": [{"source": "org/name", "weight": 1}]}',
    );
    await printed(['merge', join(folder, 'recipe.json'), '-o', join(folder, 'merged')]);
    expect(read(join(folder, 'merged'))).toEqual(files);
  });
});

describe('of a remote base', () => {
  const { 'notes.txt': _, ...copied } = files;
  let server: FileServer;

  beforeEach(async () => {
    const text = new TextEncoder();
    const named = Object.entries(files).map(([name, contents]) => [
      `/m/${name}`,
      text.encode(contents),
    ]);
    server = await FileServer.start({
      '/m/model.safetensors': weights,
      ...Object.fromEntries(named),
    });
  });
  afterEach(async () => {
    await server.close();
  });

  it('configuration and tokenizer are copied', async () => {
    const source = server.at('/m/model.safetensors');
    const [first, second] = [temporaryPath('adapted'), temporaryPath('merged')];
    await printed(['merge', source, '--adapter', adapter, '-o', first]);
    expect(read(first)).toEqual(copied);
    await printed(['merge', ...linear(source, source), '--dtype', 'F16', '-o', second]);
    const config = copied['config.json'].replace('float32', 'float16');
    expect(read(second)).toEqual({ ...copied, 'config.json': config });
  });
});

it('a single file has none', async () => {
  const folder = temporaryPath('base');
  writeBelow(folder, 'config.json', '{}');
  writeBelow(folder, 'model.safetensors', weights);
  const target = temporaryPath('merged');
  await printed(['merge', join(folder, 'model.safetensors'), '--adapter', adapter, '-o', target]);
  expect(read(target)).toEqual({});
});
