/** Differences of checkpoints and pipelines, whatever their files, formats and places. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { select } from '../../../src/index.js';
import { FILES } from '../../foreign/dduf/pipeline-files.js';
import { storedArchive } from '../../foreign/stored-archive.js';
import { fixturePath } from '../../foreign/torch/fixtures.js';
import {
  compare,
  openLocalPipeline,
  openRemote,
  openTorch,
  parse,
  safeOpen,
  type TensorSource,
} from '../../support/api.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import {
  countedBytes,
  type Entry,
  fileBytes,
  temporaryPath,
  writeTemporary,
} from '../../support/make-file.js';

const ENTRIES: readonly Entry[] = [
  { name: 'same', dtype: 'F32', shape: [3], bytes: countedBytes(12) },
  { name: 'gone', dtype: 'U8', shape: [1] },
  { name: 'bytes', dtype: 'U8', shape: [4], bytes: Buffer.from([1, 2, 3, 4]) },
  { name: 'dtype', dtype: 'I8', shape: [2], bytes: Buffer.from([1, 2]) },
  { name: 'shape', dtype: 'U8', shape: [2, 1] },
  { name: 'both', dtype: 'U8', shape: [2] },
];

const OTHERS: readonly Entry[] = [
  { name: 'new', dtype: 'U8', shape: [1] },
  { name: 'shape', dtype: 'U8', shape: [2] },
  { name: 'both', dtype: 'U16', shape: [3] },
  { name: 'dtype', dtype: 'U8', shape: [2], bytes: Buffer.from([1, 5]) },
  { name: 'bytes', dtype: 'U8', shape: [4], bytes: Buffer.from([1, 2, 3, 6]) },
  { name: 'same', dtype: 'F32', shape: [3], bytes: countedBytes(12) },
];

const a = parse(fileBytes(ENTRIES));
const b = parse(fileBytes(OTHERS));

function sorted(changed: readonly { readonly name: string; readonly changed: string }[]): object {
  return Object.fromEntries(changed.map((one) => [one.name, one.changed]));
}

describe('two files', () => {
  it('have names of their own, and tensors that differ', async () => {
    const progress: number[] = [];
    const { added, removed, changed, unchanged } = await compare(a, b, {
      onProgress: ({ bytes, totalBytes }) => progress.push(bytes, totalBytes),
    });
    expect({ added, removed, unchanged }).toEqual({
      added: ['new'],
      removed: ['gone'],
      unchanged: 1,
    });
    const expected = { bytes: 'bytes', dtype: 'dtype', shape: 'shape', both: 'dtype and shape' };
    expect(sorted(changed)).toEqual(expected);
    expect(changed.find(({ name }) => name === 'both')).toEqual({
      name: 'both',
      changed: 'dtype and shape',
      dtype: ['U8', 'U16'],
      shape: [[2], [3]],
    });
    expect(progress.slice(-2)).toEqual([16, 16]);
  });

  it('have values that differ, of tensors of one shape', async () => {
    const { changed } = await compare(a, b, { values: true });
    const values = Object.fromEntries(changed.map((one) => [one.name, one.values]));
    expect(values).toMatchObject({
      bytes: { elements: 4, differing: 1, maxError: 2 },
      dtype: { elements: 2, differing: 1, maxError: 3 },
      shape: undefined,
      both: undefined,
    });
  });

  it('are not read without bytes', async () => {
    const unread: TensorSource = {
      ...{ path: 'unread', ok: true, size: 1, metadata: null, keys: () => [], has: () => true },
      tensors: () => a.tensors(),
      readTensors: () => Promise.reject(new Error('read')),
      close: () => {},
    };
    const { unchanged, changed } = await compare(unread, b, { bytes: false });
    expect([unchanged, sorted(changed)]).toEqual([
      2,
      { dtype: 'dtype', shape: 'shape', both: 'dtype and shape' },
    ]);
    await expect(compare(unread, b)).rejects.toThrow('read');
  });

  it('end with a signal, and refuse wrong options', async () => {
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(compare(a, b, { signal })).rejects.toThrow('enough');
    await expect(compare(a, b, { values: 1 as never })).rejects.toThrow(TypeError);
    await expect(compare(a, b, { quick: true } as never)).rejects.toThrow(/quick/);
  });

  it('must be open: paths and others are refused', async () => {
    const code = 'ERR_INVALID_ARG_TYPE';
    for (const wrong of ['a.safetensors', null, undefined, 1, {}, { models: {} }]) {
      const asFirst = compare(wrong as never, b);
      await expect(asFirst).rejects.toMatchObject({
        code,
        message: expect.stringMatching(/^a must be an open checkpoint or pipeline, but is /),
      });
      const asSecond = compare(a, wrong as never);
      await expect(asSecond).rejects.toMatchObject({
        code,
        message: expect.stringMatching(/^b must be an open checkpoint or pipeline, but is /),
      });
    }
  });

  it('are compared to the last byte, wherever these begin', async () => {
    for (const length of [1, 4, 7, 2 ** 20 + 3]) {
      for (const padding of [0, 1, 2]) {
        const bytes = countedBytes(length);
        const tensor: Entry = { name: 't', dtype: 'U8', shape: [length], bytes };
        const one = parse(fileBytes([tensor]));
        const same = parse(fileBytes([tensor], { padding }));
        expect(await compare(one, same)).toMatchObject({ changed: [], unchanged: 1 });
        const changed = bytes.with(length - 1, 0);
        const other = parse(fileBytes([{ ...tensor, bytes: changed }], { padding }));
        expect(await compare(one, other)).toMatchObject({ unchanged: 0 });
      }
    }
  });

  it('leave turns to others while a long tensor is compared, so that a signal can end it', async () => {
    const length = 2 ** 26;
    const bytes = new Uint8Array(length);
    const file = parse(fileBytes([{ name: 'long', dtype: 'U8', shape: [length], bytes }]));
    const tensor = file.getTensor('long');
    const ends = new AbortController();
    const source: TensorSource = {
      ...{ path: 'long', ok: true, size: 1, metadata: null, keys: () => ['long'], has: () => true },
      tensors: () => file.tensors(),
      readTensors: async () => {
        setImmediate(() => ends.abort(new Error('enough')));
        return new Map([['long', tensor]]);
      },
      close: () => {},
    };
    const compared = compare(source, source, { signal: ends.signal });
    await expect(compared).rejects.toThrow('enough');
  });
});

it('compares tensors in whatever files, also remote ones', async () => {
  using shards = safeOpen(writeCheckpoint(TWO_SHARDS));
  const bytes = fileBytes(Object.values(TWO_SHARDS.shards).flat());
  using remote = await openRemote(new Blob([bytes.slice()]));
  const none = { added: [], removed: [], changed: [], unchanged: 4 };
  expect(await compare(shards, remote)).toEqual(none);
  expect(await compare(remote, shards)).toEqual(none);
});

it('throws the problem of a tensor that cannot be read in both', async () => {
  using torch = await openTorch(fixturePath('zip-quantized.pt'));
  expect(torch.problems.length).toBeGreaterThan(0);
  const code = 'SAFETENSORS_UNSUPPORTED_TENSOR';
  await expect(compare(torch, torch)).rejects.toMatchObject({ code });
});

describe('pipelines', () => {
  const changedFiles = {
    ...FILES,
    'unet/diffusion_pytorch_model.safetensors': fileBytes([
      { name: 'odd', dtype: 'U8', shape: [3], bytes: Buffer.from('odD') },
      { name: 'more', dtype: 'U8', shape: [3] },
    ]),
    'vae/config.json': '{}',
    'vae/model.safetensors': fileBytes([{ name: 'v', dtype: 'U8', shape: [1] }]),
  };

  it('are compared model by model, in folders and archives', async () => {
    const archive = temporaryPath('pipeline.dduf');
    writeFileSync(archive, storedArchive(FILES));
    const folder = temporaryPath('folder');
    for (const [name, content] of Object.entries(changedFiles)) writeBelow(folder, name, content);
    using one = await openLocalPipeline(archive);
    using other = await openLocalPipeline(folder);
    const found = await compare(one, other);
    expect(found).toMatchObject({
      added: ['unet/more', 'vae/v'],
      removed: ['unet/wide'],
      changed: [{ name: 'unet/odd', changed: 'bytes' }],
      unchanged: 2,
    });
    const back = await compare(other, one);
    expect([back.added, back.removed]).toEqual([found.removed, found.added]);
    using unet = safeOpen(join(folder, 'unet'));
    await expect(compare(one, unet)).rejects.toThrow(/a pipeline with a pipeline/);
  });
});

describe('local tensors', () => {
  // Long enough to be used where they are.
  const entries = ['a', 'b', 'c'].map((name, at): Entry => {
    const bytes = countedBytes(2 ** 17);
    // One more than it was, two, three.
    bytes[0] = 2 + at;
    return { name, dtype: 'U8', shape: [2 ** 17], bytes };
  });
  const others = entries.map((entry) => ({ ...entry, bytes: countedBytes(2 ** 17) }));

  it.runIf(process.platform === 'linux')('in the page cache are not copied', async () => {
    using one = safeOpen(writeTemporary(entries));
    const other = parse(fileBytes(others));
    const read = vi.spyOn(one, 'readTensors');
    const { changed } = await compare(one, other, { values: true });
    expect(changed.map(({ name, values }) => [name, values?.maxError])).toEqual([
      ['a', 1],
      ['b', 2],
      ['c', 3],
    ]);
    expect(read).not.toHaveBeenCalled();
  });

  it('that are computed are read, off the event loop', async () => {
    const names = ['a', 'b', 'c'];
    const floats = names.map((name): Entry => {
      return { name, dtype: 'F32', shape: [2 ** 15], bytes: new Uint8Array(2 ** 17) };
    });
    using one = safeOpen(writeTemporary(floats));
    const cast = select(one, { dtype: 'BF16' });
    const read = vi.spyOn(cast, 'readTensors');
    const { changed } = await compare(cast, one, { values: true });
    expect(changed.map(({ values }) => values?.differing)).toEqual([0, 0, 0]);
    expect(read).toHaveBeenCalledOnce();
  });
});
