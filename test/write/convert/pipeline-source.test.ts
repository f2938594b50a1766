/** Which pipelines are taken as sources, during other saves, and into which targets. */
import { closeSync, existsSync, openSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { TransferProgress } from '../../../src/work/transfer.js';
import { tryToLock } from '../../../src/write/replacement/locks.js';
import { Replacement } from '../../../src/write/replacement/replacement.js';
import { archiveOf, contentsOf, FILES, folderOf, UNET } from '../../foreign/dduf/pipeline-files.js';
import { convert, loadFile, openPipeline } from '../../support/api.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { countedBytes, fileBytes, temporaryPath } from '../../support/make-file.js';

const options = { durable: false };

function canLock(folder: string): boolean {
  const fd = openSync(folder, 'r');
  try {
    return tryToLock(fd);
  } finally {
    closeSync(fd);
  }
}

/** Converts a pipeline into itself while another save has the lock of unet: `change` is what that save does. */
async function convertMeanwhile(folder: string, change: () => void): Promise<unknown> {
  const unet = openSync(join(folder, 'unet'), 'r');
  expect(tryToLock(unet)).toBe(true);
  const converted = convert(folder, folder, { ...options, dtype: 'F16' });
  converted.catch(() => undefined);
  try {
    // Locks are taken in the order of names.
    await expect.poll(() => canLock(join(folder, 'text_encoder'))).toBe(false);
    change();
  } finally {
    closeSync(unet);
  }
  return await converted;
}

describe.skipIf(process.platform === 'win32')('beside another save into a model', () => {
  it('writes what that save wrote', async () => {
    const folder = folderOf(FILES);
    await convertMeanwhile(folder, () => {
      const bytes = fileBytes([{ name: 'new', dtype: 'F32', shape: [1], bytes: countedBytes(4) }]);
      const written = join(folder, 'unet', 'written');
      writeFileSync(written, bytes);
      renameSync(written, join(folder, 'unet/diffusion_pytorch_model.safetensors'));
    });
    const names = [...loadFile(join(folder, 'unet')).keys()];
    expect(names).toEqual(['new']);
  });

  it('rejects when that save adds a model, which has no lock', async () => {
    const folder = folderOf(FILES);
    const adds = convertMeanwhile(folder, () => {
      writeBelow(folder, 'vae/diffusion_pytorch_model.safetensors', UNET);
    });
    await expect(adds).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
  });
});

it.each([
  ['pytorch_model.bin', 'vae")'],
  ['pytorch_model.bin.index.json', 'vae")'],
  ['diffusion_pytorch_model.fp16.bin', 'diffusion_pytorch_model{suffix}.safetensors'],
])('refuses a folder that has %s alone, and says what to do', async (name, end) => {
  const files = { ...FILES, [`vae/${name}`]: 'PK', 'vae/config.json': '{}' };
  if (name.endsWith('json')) Object.assign(files, { 'vae/pytorch_model-00001-of-00001.bin': 'PK' });
  const folder = folderOf(files);
  const target = temporaryPath('target');
  for (const dryRun of [true, false]) {
    const converted = convert(folder, target, { dryRun });
    await expect(converted).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
      message: expect.stringMatching(/found in "vae" only "[^,]*"; convert them first: convert\(/),
    });
    await expect(converted).rejects.toThrow(end);
  }
  expect(existsSync(target)).toBe(false);
});

it('lists weights of other formats in a folder without a model as skipped', async () => {
  const others = { 'vae/flax_model.msgpack': 'x', 'unet/diffusion_flax_model.msgpack': 'x' };
  const source = folderOf({ ...FILES, ...others });
  const { skipped } = await convert(source, temporaryPath('target'), options);
  expect(skipped).toEqual(['vae/flax_model.msgpack']);
});

it.each(['half', 'unet', 'unet/deep'])(
  'refuses the target %s within the pipeline',
  async (below) => {
    const folder = folderOf(FILES);
    const before = contentsOf(folder);
    for (const dryRun of [true, false]) {
      await expect(convert(folder, join(folder, below), { dryRun })).rejects.toThrow(
        'target must be the folder of the pipeline itself, or one outside of it',
      );
    }
    expect(contentsOf(folder)).toEqual(before);
    expect(existsSync(join(folder, 'half'))).toBe(false);
    // A name that only begins alike is outside.
    await convert(folder, `${folder}-half`, options);
  },
);

it.each(['unet/config.json', 'scheduler/scheduler_config.json'])(
  'gives model_index.json its name last, also where %s replaces a file',
  async (name) => {
    const target = folderOf({ [name]: 'old' });
    const moves = vi.spyOn(Replacement.prototype, 'moveTo');
    try {
      await convert(folderOf(FILES), target, options);
      expect(moves.mock.calls.at(-1)).toEqual([join(target, 'model_index.json')]);
    } finally {
      moves.mockRestore();
    }
  },
);

describe.skipIf(process.platform === 'win32')('with links that lead nowhere', () => {
  const unet = 'unet/diffusion_pytorch_model.safetensors';

  it('takes the variant that is there, as openPipeline does', async () => {
    const { [unet]: _, ...files } = FILES;
    const folder = folderOf(files);
    symlinkSync('nowhere', join(folder, unet));
    using pipeline = await openPipeline(folder);
    expect(pipeline.models.get('unet')?.keys()).toEqual(['half']);
    const target = temporaryPath('target');
    const { files: written } = await convert(folder, target, options);
    expect(written).toContain('unet/diffusion_pytorch_model.fp16.safetensors');
    expect([...loadFile(join(target, 'unet')).keys()]).toEqual(['half']);
  });

  it('leaves out weights of the whole pipeline', async () => {
    const folder = folderOf(FILES);
    for (const name of ['v1-pruned.safetensors', 'v1-ema.safetensors']) {
      symlinkSync('nowhere', join(folder, name));
    }
    const { files } = await convert(folder, temporaryPath('target'), options);
    expect(files).toContain(unet);
  });
});

it.each([
  ['an archive', archiveOf],
  ['a folder', folderOf],
])('limits the indexes of %s', async (_, made) => {
  const source = made(FILES);
  const target = temporaryPath('target');
  const byteLength = FILES['text_encoder/model.safetensors.index.json'].length;
  const limited = (maxIndexByteLength: number): Promise<unknown> =>
    convert(source, target, { ...options, limits: { maxIndexByteLength } });
  const code = 'SAFETENSORS_INDEX_TOO_LARGE';
  await expect(limited(byteLength - 1)).rejects.toMatchObject({ code });
  await limited(byteLength);
});

it('refuses to leave out the other files', async () => {
  const source = folderOf(FILES);
  const target = temporaryPath('target');
  await expect(convert(source, target, { copyOtherFiles: false })).rejects.toThrow(
    'copyOtherFiles must be left out or true for a pipeline',
  );
  expect(existsSync(target)).toBe(false);
  await convert(source, target, { ...options, copyOtherFiles: true });
});

it('counts the bytes that are compared with checksums before those that are written', async () => {
  const source = archiveOf(FILES);
  const progressOf = async (verify: boolean): Promise<TransferProgress[]> => {
    const seen: TransferProgress[] = [];
    const onProgress = (progress: TransferProgress): number => seen.push(progress);
    await convert(source, temporaryPath('target'), {
      ...options,
      overwrite: true,
      verify,
      onProgress,
    });
    return seen;
  };
  const { totalBytes: written } = (await progressOf(false)).at(-1) as TransferProgress;
  const seen = await progressOf(true);
  const { 'unet/diffusion_pytorch_model.fp16.safetensors': _, ...read } = FILES;
  const compared = Object.values(read).reduce((sum, content) => sum + content.length, 0);
  const totalBytes = compared + written;
  expect(seen).toContainEqual({ bytes: compared, totalBytes });
  expect(seen.at(-1)).toEqual({ bytes: totalBytes, totalBytes });
  const bytes = seen.map((each) => each.bytes);
  expect(bytes).toEqual(bytes.toSorted((a, b) => a - b));
});
