/** Unknown options, which would be ignored when misspelt. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Checkpoint,
  convert,
  createWriter,
  download,
  editMetadata,
  loadFile,
  open,
  openPipeline,
  openRemote,
  parse,
  safeOpen,
  saveCheckpoint,
  saveFile,
  scanPickle,
  serialize,
  splitStateDictIntoShards,
  type Tensor,
} from '../support/api.js';
import { writeTensors } from '../support/write-tensors.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-'));
const path = join(folder, 'model.safetensors');
const target = join(folder, 'new.safetensors');
const tensors = { t: { dtype: 'U8', shape: [1], data: Uint8Array.of(7) } } as const;

let file: Checkpoint;
let checkpoint: Checkpoint;
let tensor: Tensor;

beforeAll(() => {
  writeTensors(path, tensors);
  file = safeOpen(path);
  checkpoint = safeOpen(folder);
  tensor = file.getTensor('t');
});

afterAll(() => {
  file.close();
  checkpoint.close();
  rmSync(folder, { recursive: true });
});

type Call = (options: never) => unknown;

const calls: readonly (readonly [name: string, call: Call, option: string, meant: string])[] = [
  ['safeOpen', (o) => safeOpen(path, o), 'storag', 'storage'],
  ['loadFile', (o) => loadFile(path, o), 'gaurd', 'guard'],
  ['parse', (o) => parse(serialize(tensors), o), 'maxHeaderBytes', 'maxHeaderByteLength'],
  ['safeOpen', (o) => safeOpen(folder, o), 'Variant', 'variant'],
  ['loadFile', (o) => loadFile(folder, o), 'revison', 'revision'],
  ['serialize', (o) => serialize(tensors, o), 'meta_data', 'metadata'],
  ['saveFile', (o) => saveFile(target, tensors, o), 'onprogress', 'onProgress'],
  ['saveFile', (o) => saveFile(target, tensors, o), 'durabel', 'durable'],
  ['createWriter', (o) => createWriter(target, tensors, o), 'alignement', 'alignment'],
  ['editMetadata', (o) => editMetadata(path, { a: 'b' }, o), 'inplace', 'inPlace'],
  ['saveCheckpoint', (o) => saveCheckpoint(folder, tensors, o), 'maxShardsize', 'maxShardSize'],
  [
    'convert into a folder',
    (o) => convert(folder, folder, o),
    'filenamepattern',
    'filenamePattern',
  ],
  ['splitStateDictIntoShards', (o) => splitStateDictIntoShards([], o), 'storageID', 'storageId'],
  ['file.prefetch', (o) => file.prefetch([], o), 'signals', 'signal'],
  ['file.readTensors', (o) => file.readTensors([], o), 'Signal', 'signal'],
  ['file.close', (o) => file.close(o), 'detached', 'detach'],
  ['checkpoint.prefetch', (o) => checkpoint.prefetch([], o), 'signals', 'signal'],
  ['checkpoint.readTensors', (o) => checkpoint.readTensors([], o), 'Signal', 'signal'],
  ['checkpoint.close', (o) => checkpoint.close(o), 'detached', 'detach'],
  ['tensor.toFloat32', (o) => tensor.toFloat32(o), 'Into', 'into'],
  ['tensor.toFloat32Async', (o) => tensor.toFloat32Async(o), 'signall', 'signal'],
  ['tensor.take', (o) => tensor.take([], o), 'Into', 'into'],
  ['tensor.takeAsync', (o) => tensor.takeAsync([], o), 'signall', 'signal'],
  ['tensor.takeFloat32', (o) => tensor.takeFloat32([], o), 'Into', 'into'],
  ['tensor.takeFloat32Async', (o) => tensor.takeFloat32Async([], o), 'signall', 'signal'],
  ['tensor.view', (o) => tensor.view(Uint8Array, o), 'reinterprete', 'reinterpret'],
  ['open, for PyTorch', (o) => open(path, o), 'unknownglobals', 'unknownGlobals'],
  ['open, for NumPy', (o) => open(path, o), 'voidDType', 'voidDtype'],
  ['openPipeline', (o) => openPipeline(folder, o), 'skipfailed', 'skipFailed'],
  ['scanPickle', (o) => scanPickle(path, o), 'verfy', 'verify'],
  ['convert', (o) => convert(path, folder, o), 'copyOtherfiles', 'copyOtherFiles'],
  ['openRemote', (o) => openRemote(new Blob([]), o), 'Signal', 'signal'],
  ['download', (o) => download('org/name', folder, o), 'dryrun', 'dryRun'],
  ['tensor.chunks', (o) => [...tensor.chunks(o)], 'maxBytelength', 'maxByteLength'],
];

describe.each(calls)('%s', (_, call, option, meant) => {
  test.each([null, 3, 'mmap'])('does not take %o for options', async (options) => {
    await expect(async () => call(options as never)).rejects.toMatchObject({
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringMatching(/^options must be an object, but is /),
    });
  });

  test(`does not know ${option}, but ${meant}`, async () => {
    await expect(async () => call({ [option]: 1 } as never)).rejects.toMatchObject({
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_VALUE',
      message: `unknown option "${option}"; did you mean ${meant}?`,
    });
  });
});

test('an array, a Map or a signal is not taken for options', async () => {
  const wrong = [[], new Map([['into', 1]]), new Float32Array(1), AbortSignal.abort()];
  for (const options of wrong) {
    await expect(tensor.toFloat32Async(options as never)).rejects.toMatchObject({
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringMatching(
        /^options must be an object with into, signal, rows, onProgress, but is an /,
      ),
    });
  }
});

test('a name with underscores is understood', async () => {
  await expect(convert(folder, folder, { max_shard_size: 1 } as never)).rejects.toThrow(
    'unknown option "max_shard_size"; did you mean maxShardSize?',
  );
});

test('without a near name all options are listed', async () => {
  await expect(saveFile(target, tensors, { format: 'pt' } as never)).rejects.toThrow(
    'unknown option "format"; the options are metadata, alignment, reserve, durable, digests, signal, onProgress; if it is metadata, ' +
      'write { metadata: { "format": … } }',
  );
});

test('an option that is undefined is as one that is not there', () => {
  const options = { storage: 'read', storag: undefined } as const;
  const opened = safeOpen(path, options);
  expect(opened.storage).toBe('read');
  opened.close();
});

test('names of the prototype are no options', () => {
  expect(() => safeOpen(path, { toString: 1 } as never)).toThrow('unknown option "toString"');
});

test.each<[name: string, call: () => unknown]>([
  ['saveFile(path, tensors)', () => saveFile(tensors as never, target as never)],
  ['saveCheckpoint(folder, tensors)', () => saveCheckpoint(tensors as never, folder as never)],
  ['createWriter(path, specs)', () => createWriter(tensors as never, target as never)],
])('%s: the path comes first', async (call, swapped) => {
  await expect(async () => await swapped()).rejects.toThrow(`; the path comes first: ${call}`);
});
