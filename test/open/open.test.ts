/** `open`: every kind of source, the handle that it gives, and the options that it accepts. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { FileServer } from '../remote/download/file-server.js';
import {
  type AnyCheckpoint,
  type Checkpoint,
  FormatError,
  open,
  openPipeline,
  type RemoteCheckpoint,
  safeOpen,
  saveCheckpoint,
  saveFile,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { root } from '../support/source-tree.js';

const TORCH = join(root, 'test/fixtures/torch/zip-state-dict.pt');
const NUMPY = join(root, 'test/fixtures/torch/np-savez.npz');
const TENSORS = {
  a: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
  b: { dtype: 'U8', shape: [1], data: Uint8Array.of(3) },
} as const;

let file = '';
let folder = '';
let server: FileServer;
beforeAll(async () => {
  server = await FileServer.start();
});
beforeEach(async () => {
  file = temporaryPath('model.safetensors');
  await saveFile(file, TENSORS);
  folder = temporaryPath('folder');
  await saveCheckpoint(folder, TENSORS, { maxShardSize: 8, durable: false });
  server.files.set('model.safetensors', { bytes: readFileSync(file), tag: '"1"' });
});
afterAll(() => server.close());

/** Reads a tensor of either handle. */
async function valuesOf(checkpoint: AnyCheckpoint): Promise<readonly number[]> {
  const tensor = await checkpoint.getTensor('a');
  checkpoint.close();
  return [...tensor.toFloat32()];
}

describe('local sources', () => {
  it.each<[string, () => Promise<Checkpoint>]>([
    ['a file', () => open(file, { remote: false })],
    ['a folder', () => open(folder, { remote: false })],
    ['an index', () => open(join(folder, 'model.safetensors.index.json'), { remote: false })],
    ['a file: URL', () => open(pathToFileURL(file), { remote: false })],
    ['bytes', () => open(new Uint8Array(readFileSync(file)))],
    ['a Buffer with bytes', () => open(readFileSync(file))],
  ])('%s', async (_, openIt) => {
    const checkpoint = await openIt();
    expect([checkpoint.local, checkpoint.format, checkpoint.root]).toEqual([
      true,
      'safetensors',
      undefined,
    ]);
    expect(await checkpoint.extra()).toBeNull();
    expect(await valuesOf(checkpoint)).toEqual([1, 2]);
  });

  it('a FileHandle and a descriptor, which stay open', async () => {
    const handle = await openFile(file);
    expect(await valuesOf(await open(handle))).toEqual([1, 2]);
    expect(await valuesOf(await open(handle.fd))).toEqual([1, 2]);
    expect((await handle.stat()).size).toBeGreaterThan(0);
    await handle.close();
  });

  it('bytes and descriptors have no folder: files of the working directory are not theirs', async () => {
    const directory = process.cwd();
    const work = temporaryPath('work');
    mkdirSync(work);
    process.chdir(work);
    try {
      const declared = {
        quantization_config: { quant_method: 'gptq', checkpoint_format: 'gptq_v2' },
      };
      writeFileSync('config.json', JSON.stringify(declared));
      writeFileSync('bytes', 'another file');
      await saveFile('summed.safetensors', TENSORS, { digests: true });
      const handle = await openFile('summed.safetensors');
      const sources = [readFileSync('summed.safetensors'), handle, handle.fd] as const;
      for (const source of sources) {
        using checkpoint = await open(source);
        expect(await checkpoint.sibling('config.json')).toBeUndefined();
        // Files are hashed by their paths: these have none, and count as not verified.
        const { ok, files, checks } = await checkpoint.verify();
        expect([ok, checks, files[0]?.reason]).toEqual([true, ['headers'], 'skipped']);
      }
      expect(await safeOpen(handle).sibling('config.json')).toBeUndefined();
      expect(await safeOpen('summed.safetensors').sibling('config.json')).toBeDefined();
      await handle.close();
    } finally {
      process.chdir(directory);
    }
  });

  it('PyTorch and NumPy, whatever their names', async () => {
    const renamed = temporaryPath('weights');
    writeFileSync(renamed, readFileSync(TORCH));
    const misnamed = temporaryPath('pickle.safetensors');
    writeFileSync(misnamed, readFileSync(TORCH));
    for (const path of [TORCH, renamed, misnamed]) {
      using checkpoint = await open(path, { remote: false });
      expect([checkpoint.format, checkpoint.root, checkpoint.size]).toEqual(['torch', [], 7]);
      expect(await checkpoint.extra()).not.toBeNull();
    }
    using arrays = await open(NUMPY, { remote: false });
    expect([arrays.format, arrays.root]).toEqual(['numpy', undefined]);
  });

  it('errors are those of the openers', async () => {
    const missing = temporaryPath('missing.safetensors');
    await expect(open(missing, { remote: false })).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(open(temporaryPath('missing'))).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(open(new Uint8Array(3))).rejects.toBeInstanceOf(FormatError);
    const damaged = temporaryPath('damaged.safetensors');
    writeFileSync(damaged, readFileSync(file).subarray(0, -1));
    const code = await open(damaged).then(
      () => undefined,
      (error: { code: string }) => error.code,
    );
    expect(() => safeOpen(damaged)).toThrow(expect.objectContaining({ code }));
  });
});

describe('sources that are read by requests', () => {
  it.each<[string, () => Promise<RemoteCheckpoint>]>([
    ['an address', async () => (await open(server.url('model.safetensors'))) as RemoteCheckpoint],
    ['a Blob', () => open(new Blob([readFileSync(file)]))],
    [
      'Blobs of a folder',
      () => open(new Map([['model.safetensors', new Blob([readFileSync(file)])]])),
    ],
  ])('%s', async (_, openIt) => {
    const checkpoint = await openIt();
    expect([checkpoint.local, checkpoint.format, checkpoint.problems]).toEqual([
      false,
      'safetensors',
      [],
    ]);
    expect(await checkpoint.extra()).toBeNull();
    expect(await valuesOf(checkpoint)).toEqual([1, 2]);
  });
});

describe("a user's text", () => {
  const guarded = { remote: false, formats: ['safetensors'] } as const;

  it.each(['hf://org/name', 'https://h.example/m.safetensors', 'HTTP://h.example/a', 's3://b/k'])(
    '%s makes no request',
    async (address) => {
      const before = server.requestCount;
      await expect(open(address, guarded)).rejects.toMatchObject({
        code: 'ERR_INVALID_URL_SCHEME',
      });
      expect(server.requestCount).toBe(before);
    },
  );

  it('does not reach the Hub cache, nor the parser of pickles', async () => {
    const id = `org/${Math.random()}`;
    await expect(open(id, guarded)).rejects.toMatchObject({ code: 'ENOENT' });
    for (const path of [TORCH, NUMPY]) {
      await expect(open(path, guarded)).rejects.toBeInstanceOf(FormatError);
    }
    expect(await valuesOf(await open(file, guarded))).toEqual([1, 2]);
    for (const formats of [['torch'], ['numpy'], ['torch', 'numpy']] as const) {
      await expect(open(file, { formats })).rejects.toMatchObject({
        code: 'SAFETENSORS_FOREIGN_FORMAT',
      });
    }
  });
});

describe('options', () => {
  it.each<[string, () => Promise<unknown>, string]>([
    [
      'root of safetensors',
      () => open(file, { root: [] }),
      'root must be left out for safetensors',
    ],
    ['voidDtype of torch', () => open(TORCH, { voidDtype: 'BF16' }), 'left out for a torch file'],
    ['token of a file', () => open(file, { token: 'x' }), 'left out for a local source'],
    ['storage of a Blob', () => open(new Blob([]), { storage: 'read' }), 'read by requests'],
    ['variant of bytes', () => open(new Uint8Array(9), { variant: 'fp16' }), 'bytes in memory'],
    ['revision of NumPy', () => open(NUMPY, { revision: 'main' }), 'left out for a NumPy file'],
  ])('%s is an error', async (_, call, message) => {
    await expect(call()).rejects.toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
      message: expect.stringContaining(message),
    });
  });

  it('do not show the values of options that a source cannot use', async () => {
    const token = 'hidden';
    for (const source of [file, readFileSync(file)]) {
      const error = await open(source, { token }).catch((reason: Error) => reason);
      expect(String(error)).toContain('token must be left out for');
      expect(String(error)).not.toContain(token);
    }
  });

  it('end an opening of any format', async () => {
    for (const path of [TORCH, NUMPY, file]) {
      const controller = new AbortController();
      const opening = open(path, { signal: controller.signal });
      controller.abort(new Error('stop'));
      await expect(opening).rejects.toThrow('stop');
    }
  });

  it('name every kind of source for an argument that is none', async () => {
    for (const source of [undefined, null, true]) {
      await expect(open(source as never)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringContaining(
          'source must be a path, a URL, hf://org/name, a Uint8Array',
        ),
      });
    }
  });

  it('of a pipeline are those of open', async () => {
    const pipeline = temporaryPath('pipeline');
    await saveCheckpoint(join(pipeline, 'unet'), TENSORS, { durable: false });
    writeFileSync(join(pipeline, 'model_index.json'), '{"unet":["diffusers","X"]}');
    const { signal } = new AbortController();
    const opened = await openPipeline(pipeline, { remote: false, signal });
    expect([...opened.models.keys()]).toEqual(['unet']);
    opened.close();
    await expect(openPipeline(pipeline, { verify: true })).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
    });
    const stopped = AbortSignal.abort(new Error('stop'));
    await expect(openPipeline(pipeline, { signal: stopped })).rejects.toThrow('stop');
    for (const [source, option] of [
      [pipeline, 'token'],
      ['pipeline.dduf', 'revision'],
      ['hf://org/name', 'storage'],
    ] as const) {
      await expect(openPipeline(source, { [option]: 'read' })).rejects.toMatchObject({
        name: 'RangeError',
        message: expect.stringMatching(`^${option} must be left out for `),
      });
    }
    // Its files have no hash in common.
    const hashed = { expectedHash: '0'.repeat(64) } as object;
    await expect(openPipeline(pipeline, hashed)).rejects.toThrow(/expectedHash/);
    await expect(openPipeline('hf://org/name', { remote: false })).rejects.toMatchObject({
      code: 'ERR_INVALID_URL_SCHEME',
    });
    await expect(openPipeline('org/none', { remote: false })).rejects.toMatchObject({
      code: 'ENOENT',
    });
  });

  it('are checked', async () => {
    const wrong = [
      { formats: [] },
      { formats: ['onnx'] },
      { remote: 1 },
      { verify: 1 },
      { nope: 1 },
    ];
    for (const options of wrong) {
      await expect(open(file, options as never)).rejects.toBeInstanceOf(TypeError);
    }
    const signal = AbortSignal.abort(new Error('stop'));
    await expect(open(file, { signal })).rejects.toThrow('stop');
  });

  it('verify compares digests', async () => {
    const path = temporaryPath('summed.safetensors');
    await saveFile(path, TENSORS, { digests: true });
    expect(await valuesOf(await open(path, { verify: true }))).toEqual([1, 2]);
    await expect(open(file, { verify: true })).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
    });
    const bytes = readFileSync(path);
    bytes[bytes.length - 1] = 77;
    const blob = new Blob([bytes]);
    await expect((await open(blob)).readTensors()).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
    });
    expect((await (await open(blob, { verify: false })).readTensors()).size).toBe(2);
  });
});

it('takes the handle from the type of the source', async () => {
  const local: Checkpoint = await open('/no/such/file' as const).catch(() =>
    open(readFileSync(file)),
  );
  expect(local.getTensor('a').shape).toEqual([2]);
  const folderOf = (path: string): Promise<AnyCheckpoint> => open(path);
  const any = await folderOf(file);
  expect(any.local ? any.getTensor('a').shape : []).toEqual([2]);
  const host = 'https://h.example' as string;
  const address = async (): Promise<AnyCheckpoint> => open(`${host}/model.safetensors`);
  // @ts-expect-error it may be an address
  const local2 = async (): Promise<Checkpoint> => open(`${host}/model.safetensors`);
  expect([address, local2].length).toBe(2);
  // @ts-expect-error a remote handle returns promises
  const wrong = async (): Promise<number[]> => (await open('hf://org/name')).getTensor('a').shape;
  expect(wrong).toBeTypeOf('function');
});
