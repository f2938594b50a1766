/** Pipelines of diffusers, folders and DDUF archives, written into folders. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convertStream } from '../../../src/write/convert/convert-stream.js';
import { archiveOf, contentsOf, FILES, folderOf, UNET } from '../../foreign/dduf/pipeline-files.js';
import { convert, loadFile, openPipeline, parse } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';

const OTHERS = Object.keys(FILES).filter(
  (name) => !/safetensors/.test(name),
) as (keyof typeof FILES)[];

const VARIANT = 'unet/diffusion_pytorch_model.fp16.safetensors';

const options = { durable: false };

const hex = (content: string | Uint8Array): string =>
  Buffer.from(content as string).toString('hex');

function bytesIn(tensors: Iterable<[string, { readonly bytes: Uint8Array }]>): object {
  return Object.fromEntries(Array.from(tensors, ([name, { bytes }]) => [name, hex(bytes)]));
}

describe.each([
  ['an archive', archiveOf],
  ['a folder', folderOf],
])('%s', (kind, made) => {
  it('becomes a folder with the same tensors and files', async () => {
    const target = temporaryPath('target');
    const progress: number[] = [];
    const result = await convert(made(FILES), target, {
      ...options,
      onProgress: ({ bytes, totalBytes }) => progress.push(bytes / totalBytes),
    });
    expect(result).toMatchObject({
      path: join(target, 'model_index.json'),
      files: ['text_encoder/model.safetensors', 'unet/diffusion_pytorch_model.safetensors'],
      index: null,
      totalSize: 8 + 4803,
      deleted: [],
      skipped: kind === 'a folder' ? [] : [VARIANT],
    });
    expect([...result.copied].sort()).toEqual(OTHERS);
    expect(progress.at(-1)).toBe(1);
    for (const name of OTHERS) {
      expect(readFileSync(join(target, name), 'utf8')).toBe(FILES[name]);
    }
    expect(Object.keys(contentsOf(target)).sort()).toEqual([...OTHERS, ...result.files].sort());
    const unet = loadFile(join(target, 'unet'));
    expect(bytesIn(unet)).toEqual(bytesIn(parse(UNET)));
    expect(bytesIn(loadFile(join(target, 'text_encoder')))).toEqual({
      a: '01020304',
      b: '01020304',
    });
    using pipeline = await openPipeline(target);
    expect((await pipeline.verify()).problems).toEqual([]);
  });

  it('has a plan, which is what is written', async () => {
    const source = made(FILES);
    const target = temporaryPath('target');
    const choices = { ...options, maxShardSize: 4, dtype: 'F16' } as const;
    const plan = await convert(source, target, { ...choices, dryRun: true });
    expect(existsSync(target)).toBe(false);
    const { files, cast, deleted } = await convert(source, target, choices);
    expect(cast).toEqual(['unet/wide']);
    expect(plan).toMatchObject({ cast, deleted, copied: expect.arrayContaining(OTHERS) });
    expect(files).toEqual(
      plan.files.filter(({ tensors }) => tensors !== null).map(({ name }) => name),
    );
    const lengths = Object.entries(contentsOf(target)).map(([name, text]) => [
      name,
      text.length / 2,
    ]);
    expect(Object.fromEntries(lengths)).toEqual(
      Object.fromEntries(plan.files.map(({ name, byteLength }) => [name, byteLength])),
    );
    expect(plan.files.map(({ name }) => name)).toContain(
      'unet/diffusion_pytorch_model.safetensors.index.json',
    );
  });

  it('takes the place of an earlier pipeline, whose weights are deleted', async () => {
    const target = folderOf({
      ...FILES,
      'model_index.json': '{"old":1}',
      'unet/keep.txt': 'mine',
    });
    const source = made(FILES);
    const { deleted } = await convert(source, target, { ...options, overwrite: true });
    expect([...deleted].sort()).toEqual([
      'text_encoder/model-00001-of-00002.safetensors',
      'text_encoder/model-00002-of-00002.safetensors',
      'text_encoder/model.safetensors.index.json',
    ]);
    expect(readFileSync(join(target, 'unet/keep.txt'), 'utf8')).toBe('mine');
    expect(readFileSync(join(target, 'model_index.json'), 'utf8')).toBe(FILES['model_index.json']);
  });

  it('leaves the target as it was when a file is bad or the call is aborted', async () => {
    const old = folderOf({ ...FILES, 'model_index.json': '{"old":1}' });
    const before = contentsOf(old);
    const broken = made({ ...FILES, 'unet/diffusion_pytorch_model.safetensors': 'no' });
    const code = 'SAFETENSORS_HEADER_TOO_SMALL';
    await expect(convert(broken, old, options)).rejects.toMatchObject({ code });
    const source = made(FILES);
    const onProgress = (): never => {
      throw new Error('enough');
    };
    await expect(convert(source, old, { ...options, overwrite: true, onProgress })).rejects.toThrow(
      'enough',
    );
    expect(contentsOf(old)).toEqual(before);
    const none = temporaryPath('none');
    await expect(convert(broken, none, options)).rejects.toMatchObject({ code });
    await expect(
      convert(source, none, { ...options, signal: AbortSignal.abort(new Error('at once')) }),
    ).rejects.toThrow('at once');
    expect(existsSync(none)).toBe(false);
  });

  it('dequantizes each model, and its configuration with it', async () => {
    const quantized = fileBytes([
      { name: 'up.weight', dtype: 'F8_E4M3', shape: [2, 2] },
      {
        name: 'up.weight_scale_inv',
        dtype: 'F32',
        shape: [1, 1],
        bytes: Buffer.from([0, 0, 128, 63]),
      },
    ]);
    const quantization_config = { quant_method: 'fp8', weight_block_size: [2, 2] };
    const source = made({
      ...FILES,
      'unet/diffusion_pytorch_model.safetensors': quantized,
      'unet/config.json': JSON.stringify({ torch_dtype: 'bfloat16', quantization_config }),
    });
    const target = temporaryPath('target');
    const { dequantized } = await convert(source, target, { ...options, dequantize: 'F16' });
    expect(dequantized).toEqual(['unet/up.weight']);
    const config = JSON.parse(readFileSync(join(target, 'unet/config.json'), 'utf8'));
    expect(config).toEqual({ torch_dtype: 'float16' });
    expect(loadFile(join(target, 'unet')).get('up.weight')?.dtype).toBe('F16');
  });

  it('rejects options about the names of one model, and a file as its target', async () => {
    const source = made(FILES);
    const target = temporaryPath('target');
    const given = {
      names: ['a'],
      rename: { a: 'b' },
      filenamePattern: 'x{suffix}.safetensors',
    };
    for (const [name, value] of Object.entries(given)) {
      await expect(convert(source, target, { [name]: value })).rejects.toThrow(
        `${name} must be left out for a pipeline`,
      );
    }
    await expect(convert(source, target, { root: [] })).rejects.toThrow('root must be left out');
    await expect(convert(source, `${target}.safetensors`)).rejects.toThrow(
      'target must be the path of a folder',
    );
    const code = 'SAFETENSORS_DIFFUSERS_PIPELINE';
    await expect(convertStream(source)).rejects.toMatchObject({ code });
    expect(existsSync(target)).toBe(false);
  });
});

it.each([
  'unet/diffusion_pytorch_model.safetensors',
  'text_encoder/model-00002-of-00002.safetensors',
  'scheduler/scheduler_config.json',
] as const)('compares the checksum of %s before anything is written', async (name) => {
  const path = archiveOf({ ...FILES, 'scheduler/scheduler_config.json': '{"a": 1}' });
  const bytes = readFileSync(path);
  const content = name.startsWith('scheduler') ? Buffer.from('{"a": 1}') : Buffer.from(FILES[name]);
  const at = bytes.lastIndexOf(content) + content.length - 1;
  bytes[at] = (bytes[at] as number) ^ 1;
  writeFileSync(path, bytes);
  const target = temporaryPath('target');
  const code = 'SAFETENSORS_CHECKSUM_MISMATCH';
  await expect(convert(path, target, options)).rejects.toMatchObject({ code });
  expect(existsSync(target)).toBe(false);
  await convert(path, target, { ...options, verify: false });
});

it('writes a pipeline into its own folder', async () => {
  const folder = folderOf(FILES);
  const { files } = await convert(folder, folder, { ...options, maxShardSize: 4800 });
  expect(files).toEqual([
    'text_encoder/model.safetensors',
    'unet/diffusion_pytorch_model-00001-of-00002.safetensors',
    'unet/diffusion_pytorch_model-00002-of-00002.safetensors',
  ]);
  expect(bytesIn(loadFile(join(folder, 'unet')))).toEqual(bytesIn(parse(UNET)));
  expect(readFileSync(join(folder, VARIANT)).equals(FILES[VARIANT])).toBe(true);
});

it.each([
  ['an archive', archiveOf],
  ['a folder', folderOf],
])('takes a variant of %s where a folder has it', async (_, made) => {
  const target = temporaryPath('target');
  const { files } = await convert(made(FILES), target, { ...options, variant: 'fp16' });
  expect(files).toEqual(['text_encoder/model.safetensors', VARIANT]);
  const code = 'SAFETENSORS_CHECKPOINT_NOT_FOUND';
  const none = convert(made(FILES), target, { ...options, variant: 'int8' });
  await expect(none).rejects.toMatchObject({ code });
});

it('keeps the names of a variant, also in several files', async () => {
  const { 'unet/diffusion_pytorch_model.safetensors': unet, [VARIANT]: _, ...files } = FILES;
  const target = temporaryPath('target');
  const source = archiveOf({ ...files, [VARIANT]: unet });
  await convert(source, target, { ...options, maxShardSize: 4800 });
  expect(readdirSync(join(target, 'unet')).sort()).toEqual([
    'config.json',
    'diffusion_pytorch_model.fp16-00001-of-00002.safetensors',
    'diffusion_pytorch_model.fp16-00002-of-00002.safetensors',
    'diffusion_pytorch_model.safetensors.index.fp16.json',
  ]);
});

it.skipIf(process.platform === 'win32')('refuses links in place of folders', async () => {
  const target = temporaryPath('target');
  const elsewhere = temporaryPath('elsewhere');
  mkdirSync(target);
  mkdirSync(elsewhere);
  symlinkSync(elsewhere, join(target, 'unet'));
  const code = 'SAFETENSORS_UNSAFE_SHARD_NAME';
  const source = archiveOf(FILES);
  for (const dryRun of [true, false]) {
    await expect(convert(source, target, { dryRun })).rejects.toMatchObject({ code });
  }
  expect([readdirSync(target), readdirSync(elsewhere)]).toEqual([['unet'], []]);
});

const python = findPython('huggingface_hub');

const EXPORT = `
import sys
from huggingface_hub import export_folder_as_dduf
export_folder_as_dduf(sys.argv[2], sys.argv[1])
`;

const READ = `
import sys, json
from pathlib import Path
from huggingface_hub import read_dduf_file
entries = read_dduf_file(sys.argv[1])
same = []
for name, entry in entries.items():
    path = Path(sys.argv[2]) / name
    with entry.as_mmap() as content:
        same.append(path.exists() and path.read_bytes() == content[:])
print(json.dumps([len(entries), sum(same)]))
`;

it.skipIf(isSkipped(python))(
  titleWith(python, 'a folder, its archive of Python, and the folder made of that are the same'),
  async () => {
    const { [VARIANT]: _, ...files } = FILES;
    const folder = temporaryPath('folder');
    // As this package writes them, so that files have the same bytes, too.
    await convert(folderOf(files), folder, { ...options, maxShardSize: 4800 });
    const archive = temporaryPath('python.dduf');
    runPython(python, ['-c', EXPORT, folder, archive]);
    const target = temporaryPath('target');
    await convert(archive, target, { ...options, maxShardSize: 4800 });
    expect(contentsOf(target)).toEqual(contentsOf(folder));
    const [count, same] = JSON.parse(runPython(python, ['-c', READ, archive, target]));
    expect([count, same]).toEqual([Object.keys(contentsOf(folder)).length, count]);
  },
);
