/** Commands that take pipelines of diffusers: folders and DDUF archives. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { servedSources } from '../../../src/cli/serve/sources.js';
import { FILES } from '../../foreign/dduf/pipeline-files.js';
import { storedArchive } from '../../foreign/stored-archive.js';
import { loadFile, parse } from '../../support/api.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { call, printed, toTarget } from '../call.js';

it('makes a folder of an archive of a pipeline, as it said', async () => {
  const path = temporaryPath('pipeline.dduf');
  writeFileSync(path, storedArchive(FILES));
  const target = join(dirname(path), 'unpacked');
  const plan = JSON.parse(await printed(['convert', path, target, '--dry-run', '--json']));
  expect(existsSync(target)).toBe(false);
  const text = await printed(['convert', path, target]);
  expect(text).toContain('not copied: unet/diffusion_pytorch_model.fp16.safetensors');
  for (const name of [...plan.files, ...plan.copied])
    expect(existsSync(join(target, name))).toBe(true);
  const other = join(dirname(path), 'other');
  const done = JSON.parse(await printed(['convert', path, other, '--json']));
  expect(done).toEqual({ ...plan, target: other, dryRun: false, overflowed: {} });
  expect((await call(['diff', path, target])).code).toBe(0);
  for (const [option, value] of [
    ['--filter', 'a'],
    ['--rename', 'a=>b'],
    ['--root', 'a'],
  ]) {
    const { code, stderr } = await call([
      'convert',
      path,
      other,
      option as string,
      value as string,
    ]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(option as string)]);
  }
  expect((await call(['convert', path, '-'])).stderr).toContain('a DDUF archive');
});

describe('--variant', () => {
  let count = 0;

  function folderOf(files: Readonly<Record<string, string | Uint8Array>>): string {
    const folder = temporaryPath(`folder-${count++}`);
    for (const [name, content] of Object.entries(files)) writeBelow(folder, name, content);
    return folder;
  }

  const MODEL = {
    'model.safetensors': fileBytes([{ name: 'a', dtype: 'U8', shape: [4] }], {
      metadata: { is: 'usual' },
    }),
    'model.fp16.safetensors': fileBytes([{ name: 'half', dtype: 'U8', shape: [2] }], {
      metadata: { is: 'fp16' },
    }),
  };

  it('chooses what metadata get and export print', async () => {
    const folder = folderOf(MODEL);
    expect(await printed(['metadata', 'get', folder, 'is'])).toBe('usual\n');
    expect(await printed(['metadata', 'get', folder, 'is', '--variant', 'fp16'])).toBe('fp16\n');
    const text = await printed(['metadata', 'export', folder, '--variant', 'fp16', '--json']);
    expect(JSON.parse(text)).toEqual({ is: 'fp16' });
    const { code, stderr } = await call(['metadata', 'set', folder, 'a=b', '--variant', 'fp16']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--variant chooses in a folder')]);
    const none = await call(['metadata', 'get', folder, '--variant', 'int8']);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('CHECKPOINT_NOT_FOUND')]);
  });

  it.each(['convert', 'split', 'join'])('chooses what %s writes', async (command) => {
    const folder = folderOf({ ...MODEL, 'config.json': '{}' });
    const target = join(dirname(folder), 'target');
    const args = [
      command,
      folder,
      ...toTarget(command, target),
      '--variant',
      'fp16',
      '--copy-other-files',
      '--json',
    ];
    const { source, files, copied } = JSON.parse(await printed(args));
    expect({ source, files, copied }).toEqual({
      source: folder,
      files: ['model.fp16.safetensors'],
      copied: ['config.json'],
    });
    const { tensors } = JSON.parse(await printed(['inspect', target, '--json']));
    expect(tensors.map(({ name }: { name: string }) => name)).toEqual(['half']);
    const revised = await call([
      command,
      folder,
      ...toTarget(command, target),
      '--revision',
      'main',
    ]);
    expect([revised.code, revised.stderr]).toEqual([2, expect.stringContaining('revision')]);
  });

  it.each([
    ['convert', '--dtype', 'F32'],
    ['split', '--max-shard-size', '100B'],
    ['join', '--dtype', 'F32'],
  ])(
    'leaves the files of other variants where %s writes into their folder',
    async (command, ...more) => {
      const half = ['a', 'b'].map((name) => ({ name, dtype: 'F16', shape: [40] }) as const);
      const folder = folderOf({ ...MODEL, 'model.fp16.safetensors': fileBytes(half) });
      const args = [
        command,
        folder,
        ...toTarget(command, folder),
        '--variant',
        'fp16',
        ...more,
        '--json',
      ];
      const { files, deleted } = JSON.parse(await printed(args));
      expect(files.every((name: string) => name.startsWith('model.fp16'))).toBe(true);
      expect(deleted).not.toContain('model.safetensors');
      expect(readFileSync(join(folder, 'model.safetensors'))).toEqual(
        Buffer.from(MODEL['model.safetensors']),
      );
      const { tensors } = JSON.parse(
        await printed(['inspect', folder, '--variant', 'fp16', '--json']),
      );
      expect(tensors).toHaveLength(2);
    },
  );

  it('chooses what goes to the standard output, and from several sources', async () => {
    const folder = folderOf(MODEL);
    const { bytes } = await call(['convert', folder, '-', '--variant', 'fp16']);
    expect(parse(bytes as Buffer).keys()).toEqual(['half']);
    const other = writeTemporary([{ name: 'b', dtype: 'U8', shape: [1] }]);
    const target = join(dirname(folder), 'merged.safetensors');
    const args = ['join', folder, other, '-o', target];
    // A file has no variants.
    expect((await call([...args, '--variant', 'fp16'])).stderr).toContain('variant');
    await printed(args);
  });

  it.each(['archive', 'folder'])('chooses in the folders of a pipeline: %s', async (kind) => {
    let source = folderOf(FILES);
    if (kind === 'archive') {
      source = temporaryPath('pipeline.dduf');
      writeFileSync(source, storedArchive(FILES));
    }
    const target = join(dirname(source), 'target');
    const args = ['convert', source, target, '--variant', 'fp16', '--json'];
    const { files } = JSON.parse(await printed(args));
    expect(files).toEqual([
      'text_encoder/model.safetensors',
      'unet/diffusion_pytorch_model.fp16.safetensors',
    ]);
    const { code } = await call(['convert', source, target, '--variant', 'int8']);
    expect(code).toBe(1);
  });

  it('chooses what is served', async () => {
    const { signal } = new AbortController();
    const filesOf = async (source: string, variant: string): Promise<object> => {
      const { sources } = await servedSources(source, { variant }, signal);
      return sources.map(({ files }) => files.map(({ name }) => name));
    };
    expect(await filesOf(folderOf(MODEL), 'fp16')).toEqual([['model.fp16.safetensors']]);
    const { 'text_encoder/model.safetensors.index.json': _, ...files } = FILES;
    const pipeline = folderOf({
      ...files,
      'text_encoder/model.safetensors': MODEL['model.safetensors'],
    });
    expect(await filesOf(pipeline, 'fp16')).toContainEqual([
      'diffusion_pytorch_model.fp16.safetensors',
      'config.json',
    ]);
    const code = 'SAFETENSORS_CHECKPOINT_NOT_FOUND';
    await expect(filesOf(pipeline, 'int8')).rejects.toMatchObject({ code });
  });
});

describe('--revision', () => {
  const COMMITS = { main: '1'.repeat(40), old: '2'.repeat(40) };

  /** A cache with a model, and a pipeline, each with a file for each of two branches. */
  function useCache(): void {
    const cache = temporaryPath('hub');
    vi.stubEnv('HF_HUB_CACHE', cache);
    for (const [branch, commit] of Object.entries(COMMITS)) {
      const weights = fileBytes([{ name: branch, dtype: 'U8', shape: [4] }], {
        metadata: { branch },
      });
      for (const name of ['models--org--model', 'models--org--pipe']) {
        writeBelow(cache, `${name}/refs/${branch}`, commit);
        const snapshot = `${name}/snapshots/${commit}`;
        const below = name.endsWith('pipe') ? `${snapshot}/unet` : snapshot;
        writeBelow(cache, `${below}/model.safetensors`, weights);
        if (below === snapshot) continue;
        writeBelow(cache, `${snapshot}/model_index.json`, '{}');
      }
    }
  }

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it.each(['convert', 'split', 'join'])('chooses what %s takes of the cache', async (command) => {
    useCache();
    const target = temporaryPath('target');
    await printed([command, 'org/model', ...toTarget(command, target), '--revision', 'old']);
    expect(loadFile(target).has('old')).toBe(true);
    await printed([command, 'org/model', ...toTarget(command, target), '--force']);
    expect(loadFile(target).has('main')).toBe(true);
  });

  it('chooses in a pipeline, for metadata, and for what is served', async () => {
    useCache();
    const target = temporaryPath('target');
    await printed(['convert', 'org/pipe', target, '--revision', 'old']);
    expect(loadFile(join(target, 'unet')).has('old')).toBe(true);
    const get = ['metadata', 'get', 'org/model', 'branch', '--revision', 'old'];
    expect(await printed(get)).toBe('old\n');
    const { signal } = new AbortController();
    for (const source of ['org/model', 'org/pipe']) {
      const { sources } = await servedSources(source, { revision: 'old' }, signal);
      expect(sources[0]?.files[0]?.path).toContain(COMMITS.old);
    }
  });
});
