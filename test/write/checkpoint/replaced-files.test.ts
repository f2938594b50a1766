/** What commands replace: nothing that existed and is not the source's is gone without being listed. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { convert, safeOpen, saveCheckpoint } from '../../support/api.js';
import { writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { filled } from '../../support/saved-tensors.js';

const INDEX = 'model.safetensors.index.json';
const NAMES = [
  'model.safetensors',
  'model-00001-of-00002.safetensors',
  'model-00002-of-00002.safetensors',
  'model-00001-of-00003.safetensors',
  'model-00003-of-00003.safetensors',
  'model.fp16.safetensors',
  'other.safetensors',
  'pytorch_model.bin',
  'config.json',
  'model-00001-of-00002.safetensors.index.json',
  'notes.txt',
];
const TENSORS = ['a', 'b', 'c'].map((name) => [name, filled(2, 7)] as const);

/** Files of a target by name, and the shards that its index names, if it has one. */
const folders = fc.record({
  names: fc.uniqueArray(fc.constantFrom(...NAMES)),
  shards: fc.option(fc.uniqueArray(fc.constantFrom(...NAMES.slice(0, 5)), { minLength: 1 })),
});

function contentsOf(folder: string): Map<string, string> {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), 'latin1')]));
}

/** Writes a random folder; every file has other contents than new ones. */
function makeFolder({
  names,
  shards,
}: {
  names: readonly string[];
  shards: string[] | null;
}): string {
  const folder = temporaryPath('target');
  rmSync(folder, { recursive: true, force: true });
  writeBelow(folder, 'kept.txt', 'kept');
  for (const name of names) writeFileSync(join(folder, name), `old ${name}`);
  if (shards !== null) {
    const map = Object.fromEntries(shards.map((shard, i) => [`${i}`, shard]));
    writeFileSync(join(folder, INDEX), JSON.stringify({ metadata: {}, weight_map: map }));
  }
  return folder;
}

const SEED = process.env['SAFETENSORS_SEED'];
const seed = SEED === undefined ? {} : { seed: Number(SEED) };

describe('files that existed', () => {
  it.each(['saveCheckpoint', 'convert'])(
    'are there after %s, or listed as replaced',
    async (command) => {
      const source = join(temporaryPath('source'), '..', 'source-model');
      await saveCheckpoint(source, TENSORS, { durable: false });
      writeFileSync(join(source, 'config.json'), '{"new":1}');
      await fc.assert(
        fc.asyncProperty(
          folders,
          fc.constantFrom(8, 16, Number.POSITIVE_INFINITY),
          fc.boolean(),
          async (before, maxShardSize, copyOtherFiles) => {
            const target = makeFolder(before);
            const old = contentsOf(target);
            const options = { durable: false, maxShardSize };
            const write = (more: object): Promise<{ readonly replaced: readonly object[] }> => {
              if (command === 'saveCheckpoint') {
                return saveCheckpoint(target, TENSORS, { ...options, ...more });
              }
              return convert(source, target, { ...options, copyOtherFiles, ...more });
            };
            const plan = await write({ dryRun: true });
            expect(contentsOf(target)).toEqual(old);
            const listed = plan.replaced.map((file) => Object(file).name as string);
            const hasWeights = listed.some((name) => name.includes('.safetensors'));
            if (command !== 'saveCheckpoint' && hasWeights) {
              const stopped: Error = await write({}).then(
                () => expect.unreachable(),
                (error) => error,
              );
              expect(stopped).toMatchObject({ code: 'SAFETENSORS_TARGET_EXISTS' });
              for (const name of listed.filter((one) => one.includes('.safetensors'))) {
                expect(stopped.message).toContain(`"${name}"`);
              }
              expect(contentsOf(target)).toEqual(old);
            }
            const done = await write(command === 'saveCheckpoint' ? {} : { overwrite: true });
            expect(done.replaced).toEqual(plan.replaced);
            const now = contentsOf(target);
            const gone = [...old.keys()].filter((name) => now.get(name) !== old.get(name));
            expect(listed).toEqual(gone.sort());
            for (const { name, byteLength } of plan.replaced as {
              name: string;
              byteLength: number;
            }[]) {
              expect(byteLength).toBe(old.get(name)?.length);
            }
            expect(safeOpen(target).keys().toSorted()).toEqual(['a', 'b', 'c']);
          },
        ),
        { numRuns: 15, ...seed },
      );
    },
  );

  it('are the source: it is rewritten in its folder without a stop', async () => {
    const folder = writeCheckpoint({
      shards: { 'model-00001-of-00001.safetensors': [{ name: 'a', dtype: 'U8', shape: [4] }] },
    });
    const { replaced, deleted } = await convert(folder, folder, { durable: false });
    expect([replaced, deleted.length]).toEqual([[], 2]);
    const stray = 'model-00001-of-00002.safetensors';
    writeFileSync(join(folder, stray), 'of another model');
    await convert(folder, folder, { durable: false, maxShardSize: 2 });
    expect(readFileSync(join(folder, stray), 'utf8')).toBe('of another model');
  });

  it('are the source, and tensors of it are left out: they are listed, without a stop', async () => {
    for (const names of [['a'], (name: string) => name === 'a']) {
      const folder = temporaryPath('model');
      await saveCheckpoint(folder, TENSORS, { durable: false, maxShardSize: 8 });
      writeFileSync(join(folder, 'config.json'), '{}');
      const files = readdirSync(folder).filter((name) => name.includes('.safetensors'));
      const options = { durable: false, copyOtherFiles: true, names };
      const plan = await convert(folder, folder, { ...options, dryRun: true });
      expect(plan.replaced.map(({ name }) => name)).toEqual(files.sort());
      const done = await convert(folder, folder, options);
      expect(done.replaced).toEqual(plan.replaced);
      expect(safeOpen(folder).keys()).toEqual(['a']);
    }
  });

  it.each(['gguf', 'ckpt', 'npz', 'h5', 'onnx', 'dduf', 'Safetensors', 'safetensors.index.json'])(
    'no folder is created that is named like a .%s file',
    async (extension) => {
      const source = temporaryPath('model');
      await saveCheckpoint(source, TENSORS, { durable: false });
      const target = join(source, `x.${extension}`);
      const refused = { code: 'ERR_OUT_OF_RANGE' };
      await expect(convert(source, target)).rejects.toMatchObject(refused);
      expect(existsSync(target)).toBe(false);
    },
  );
});

describe('config.json of cast weights', () => {
  const CONFIG = '{"dtype": "bfloat16", "text_config": {"torch_dtype": "bfloat16"}, "theta": 1.0}';
  const model = async (): Promise<string> => {
    const folder = temporaryPath('model');
    const data = new Uint16Array(2);
    const a = { dtype: 'BF16', shape: [2], data } as const;
    await saveCheckpoint(folder, { a, b: { ...a } }, { durable: false });
    writeFileSync(join(folder, 'config.json'), CONFIG);
    return folder;
  };

  it.each(['copied', 'in place'])('lists the new dtype: %s', async (kind) => {
    const source = await model();
    const target = kind === 'copied' ? temporaryPath('half') : source;
    const options = { durable: false, dtype: 'F16', copyOtherFiles: true } as const;
    const { copied, configMismatches } = await convert(source, target, options);
    expect([copied, configMismatches]).toEqual([['config.json'], []]);
    const text = readFileSync(join(target, 'config.json'), 'utf8');
    expect(text).toBe(CONFIG.replaceAll('bfloat16', 'float16'));
  });

  it('stays, and is reported, when tensors have several dtypes', async () => {
    const source = await model();
    const target = temporaryPath('mixed');
    const dtype = (name: string): 'F16' | 'F32' => (name === 'a' ? 'F16' : 'F32');
    const options = { durable: false, dtype, copyOtherFiles: true };
    const { configMismatches } = await convert(source, target, options);
    const found = { name: 'config.json', declared: 'bfloat16', dtypes: ['F16', 'F32'] };
    expect(configMismatches).toEqual([found]);
    expect(readFileSync(join(target, 'config.json'), 'utf8')).toBe(CONFIG);
  });
});

describe('weights that appear while others are written', () => {
  const targets = ['file.safetensors', 'folder', 'shards', 'pipeline'] as const;

  it.each(targets)('stay, unless overwrite is true: %s', async (kind) => {
    const source = temporaryPath('source');
    const models = kind === 'pipeline' ? ['unet', 'vae'] : ['.'];
    for (const name of models) {
      await saveCheckpoint(join(source, name), new Map(TENSORS), { durable: false });
    }
    const classes = Object.fromEntries(models.map((name) => [name, ['diffusers', 'Model']]));
    if (kind === 'pipeline') writeBelow(source, 'model_index.json', JSON.stringify(classes));
    const target = temporaryPath(kind);
    const file = {
      'file.safetensors': target,
      folder: join(target, 'model.safetensors'),
      shards: join(target, 'model-00001-of-00003.safetensors'),
      pipeline: join(target, 'vae/model.safetensors'),
    }[kind];
    const converting = (overwrite: boolean): Promise<unknown> => {
      rmSync(target, { recursive: true, force: true });
      return convert(source, target, {
        ...{ durable: false, verify: false, overwrite },
        ...(kind === 'shards' ? { maxShardSize: 8 } : {}),
        onProgress: ({ bytes, totalBytes }) => {
          if (bytes < totalBytes || existsSync(file)) return;
          writeBelow(join(file, '..'), basename(file), 'of another process');
        },
      });
    };
    const code = 'SAFETENSORS_TARGET_EXISTS';
    await expect(converting(false)).rejects.toThrow(expect.objectContaining({ code }));
    expect(readFileSync(file, 'latin1')).toBe('of another process');
    await converting(true);
    expect(readFileSync(file, 'latin1')).not.toBe('of another process');
  });
});
