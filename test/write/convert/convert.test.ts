import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ExpectedTensor, fixturePath, fixtures } from '../../foreign/torch/fixtures.js';
import { convert, safeOpen, saveCheckpoint, saveFile } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { equalTensors } from '../../support/saved-tensors.js';
import { textOf } from '../../support/source-tree.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
/** The only array of a file has no name. */
const nameOf = ({ path }: ExpectedTensor): string =>
  path.map((key) => (typeof key === 'object' ? key.key : key)).join('.');

describe('convert', () => {
  const whole = fixtures.filter(
    ({ expect: outcome, tensors = [] }) =>
      outcome === 'tensors' && tensors.every(({ dtype }) => !dtype.startsWith('torch:')),
  );

  it.each(whole)('gives the tensors of $file', async ({ file, tensors = [] }) => {
    const target = temporaryPath('model.safetensors');
    // The only name that safetensors reserves.
    const rename = { __metadata__: 'renamed' };
    const hasName = tensors.some((tensor) => nameOf(tensor) === '__metadata__');
    await convert(fixturePath(file), target, {
      ...fast,
      ...(/\.np[yz]$/.test(file) ? {} : { root: [] }),
      shared: 'copy',
      rename: hasName ? rename : {},
    });
    using converted = safeOpen(target);
    const found = converted
      .keys()
      .map((name) => converted.getTensor(name))
      .map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, sha256: sha256(bytes) }));
    const expected = tensors.map((tensor) => ({
      name: nameOf(tensor) === '__metadata__' ? 'renamed' : nameOf(tensor),
      dtype: tensor.dtype,
      shape: tensor.shape,
      sha256: tensor.sha256,
    }));
    const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
    expect(found.sort(byName)).toEqual(expected.sort(byName));
  });

  // A safetensors or GGUF file is converted too, even under a name of torch.
  const refused = fixtures.filter(
    ({ id, expect: outcome }) =>
      outcome === 'refuse' && !['safetensors-as-bin', 'gguf-as-bin'].includes(id),
  );

  it.each(refused)('refuses $file and writes nothing', async ({ file }) => {
    const target = temporaryPath('model.safetensors');
    const failure = await convert(fixturePath(file), target, fast).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: expect.stringMatching(/^SAFETENSORS_/) });
    expect(existsSync(target)).toBe(false);
    expect(existsSync('PWNED')).toBe(false);
  });

  it('records names of tied tensors as the official converter does', async () => {
    const target = temporaryPath('model.safetensors');
    const { dropped, files, index } = await convert(fixturePath('zip-tied.pt'), target, fast);
    expect(files).toEqual([basename(target)]);
    expect(index).toBe(null);
    expect(dropped.size).toBeGreaterThan(0);
    using converted = safeOpen(target);
    expect(converted.metadata?.get('format')).toBe('pt');
    for (const [name, kept] of dropped) {
      expect(converted.keys()).not.toContain(name);
      expect(converted.metadata?.get(name)).toBe(kept);
    }
  });

  it('splits into shards, of which the index is made of what was written', async () => {
    const target = temporaryPath('model');
    const { files, index, totalSize } = await convert(fixturePath('zip-state-dict.pt'), target, {
      ...fast,
      maxShardSize: 24,
    });
    expect(files.length).toBeGreaterThan(1);
    expect(index).toBe('model.safetensors.index.json');
    using checkpoint = safeOpen(target);
    expect((await checkpoint.verify()).problems).toEqual([]);
    expect(checkpoint.metadata?.get('total_size')).toBe(`${totalSize}`);
    expect(readdirSync(target).length).toBe(files.length + 1);
  });

  it('selects, renames and casts', async () => {
    const target = temporaryPath('model.safetensors');
    const options = { ...fast, dtype: 'BF16', rename: (name: string) => `m.${name}` } as const;
    await convert(fixturePath('zip-state-dict.pt'), target, options);
    using converted = safeOpen(target);
    expect(converted.keys().every((name) => name.startsWith('m.'))).toBe(true);
    const dtypes = new Set(converted.keys().map((name) => converted.info(name).dtype));
    expect(dtypes).toEqual(new Set(['BF16', 'I64']));
  });

  it('says how many elements are too large for a cast, once, verified or not', async () => {
    const source = temporaryPath('source.safetensors');
    const data = Float32Array.of(1, 1e30, -1e30, Number.POSITIVE_INFINITY);
    await saveFile(source, { w: { dtype: 'F32', shape: [4], data } }, saving);
    for (const verify of [true, false]) {
      const target = temporaryPath('model.safetensors');
      const { overflowed } = await convert(source, target, { ...fast, verify, dtype: 'F16' });
      expect(overflowed).toEqual(new Map([['w', 2]]));
    }
  });

  it('takes safetensors with their metadata, from one file and from several', async () => {
    const folder = temporaryPath('source');
    await saveCheckpoint(folder, equalTensors(16, 'b', 'a'), {
      ...saving,
      maxShardSize: 16,
      metadata: { note: 'kept' },
    });
    const target = temporaryPath('model.safetensors');
    await convert(folder, target, { ...fast, metadata: { more: 'given' }, names: ['a'] });
    using converted = safeOpen(target);
    expect(converted.keys()).toEqual(['a']);
    expect(Object.fromEntries(converted.metadata ?? [])).toEqual({
      format: 'pt',
      note: 'kept',
      more: 'given',
    });
  });

  it('takes a safetensors file for what it is, whatever its name', async () => {
    const target = temporaryPath('model.safetensors');
    await convert(fixturePath('safetensors-as-bin.bin'), target, fast);
    expect(safeOpen(target).size).toBeGreaterThan(0);
  });

  it('names the tensor that has an impossible name', async () => {
    const target = temporaryPath('model.safetensors');
    await expect(convert(fixturePath('zip-names.pt'), target, fast)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: '__metadata__',
    });
  });

  it.each([
    ['np-f4.npy', { root: 'a' }, 'root must be left out for a NumPy file'],
    ['np-savez.npz', { unknownGlobals: 'placeholder' }, 'unknownGlobals must be left out'],
    ['zip-state-dict.pt', { voidDtype: 'BF16' }, 'voidDtype must be left out for a torch file'],
    ['safetensors-as-bin.bin', { root: [] }, 'root must be left out for safetensors'],
  ] as const)('refuses options of another format: %s, %j', async (name, options, message) => {
    const call = convert(fixturePath(name), temporaryPath('a.safetensors'), options);
    await expect(call).rejects.toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
      message: expect.stringContaining(message),
    });
  });

  it.each(['np-savez.npz', 'np-f4.npy'])('finds the only file of a folder, %s', async (name) => {
    const folder = temporaryPath('arrays');
    mkdirSync(folder);
    cpSync(fixturePath(name), join(folder, name));
    // The only array of an .npy has no name.
    const target = temporaryPath('model.safetensors');
    await convert(folder, target, { ...fast, rename: (array) => (array === '' ? 'array' : array) });
    expect(existsSync(target)).toBe(true);
  });

  it.each(['hdf5-as-bin.bin', 'text'])('says what %s is not', async (name) => {
    const text = temporaryPath('notes.txt');
    writeFileSync(text, 'shopping list: milk');
    const source = name === 'text' ? text : fixturePath(name);
    await expect(convert(source, temporaryPath('x.safetensors'), fast)).rejects.toMatchObject({
      code: 'SAFETENSORS_FOREIGN_FORMAT',
    });
  });

  it('takes a name that ends as files of torch do for no repository', async () => {
    const missing = convert('misspelt.pt', temporaryPath('x.safetensors'), fast);
    await expect(missing).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('is what safeOpen names for files of torch and NumPy', () => {
    for (const name of ['zip-state-dict.pt', 'legacy-basic.pt', 'np-f4.npy']) {
      expect(() => safeOpen(fixturePath(name))).toThrow('which open() reads by its path');
    }
  });

  it('finds the PyTorch checkpoint in a folder', async () => {
    const folder = temporaryPath('torch-model');
    cpSync(fixturePath('zip-state-dict.pt'), join(folder, 'pytorch_model.bin'));
    const target = temporaryPath('model.safetensors');
    await convert(folder, target, fast);
    using converted = safeOpen(target);
    expect(converted.has('l1.weight')).toBe(true);
  });

  it('finds a wrong checksum before anything is written', async () => {
    const source = temporaryPath('broken.pt');
    const bytes = readFileSync(fixturePath('zip-state-dict.pt'));
    const at = bytes.indexOf('data/0') + 6;
    const end = bytes.indexOf('PK\x07\x08', at, 'latin1');
    bytes[end - 1] = (bytes[end - 1] as number) ^ 1;
    writeFileSync(source, bytes);
    const target = temporaryPath('model.safetensors');
    await expect(convert(source, target, fast)).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
    });
    expect(existsSync(target)).toBe(false);
    await convert(source, target, { ...fast, verify: false });
    expect(existsSync(target)).toBe(true);
  });

  it('refuses options that have no meaning', async () => {
    const [source, target] = [fixturePath('zip-state-dict.pt'), temporaryPath('model.safetensors')];
    await expect(convert(source, target, { maxShardSize: 5 })).rejects.toThrow(
      'maxShardSize must be left out',
    );
    // @ts-expect-error: no boolean
    await expect(convert(source, target, { durable: 1 })).rejects.toThrow('durable must be');
    // @ts-expect-error: there is no such option
    await expect(convert(source, target, { force: true })).rejects.toThrow('unknown option');
    await expect(convert(source, target, { names: ['l1.wieght'] })).rejects.toThrow('l1.weight');
    expect(existsSync(target)).toBe(false);
  });

  it('has options of which the page has a table', async () => {
    const options = { zzz: true } as never;
    const error: unknown = await convert('a.pt', 'a.safetensors', options).catch((e) => e);
    const [, known = ''] = /the options are (.*)$/.exec(String(error)) ?? [];
    const [, section = ''] = textOf('docs/writing.md').split('### Options of convert\n');
    const rows = section.split('\n#', 1)[0]?.match(/^\| `.*/gm) ?? [];
    const listed = rows.flatMap((row) => {
      const [, names = ''] = row.split('|', 2);
      return Array.from(names.matchAll(/`(\w+)`/g), ([, name]) => name);
    });
    expect(listed.length).toBeGreaterThan(15);
    expect(listed.sort()).toEqual(known.split(', ').sort());
  });

  it('leaves the old file whole when it is aborted', async () => {
    const target = temporaryPath('model.safetensors');
    writeFileSync(target, 'old');
    const signal = AbortSignal.abort();
    await expect(convert(fixturePath('zip-state-dict.pt'), target, { signal })).rejects.toThrow();
    expect(readFileSync(target, 'utf8')).toBe('old');
  });

  const python = findPython('torch', 'safetensors');

  it.skipIf(isSkipped(python))(
    titleWith(python, 'gives what torch loads, read by the Python library'),
    async () => {
      const source = temporaryPath('model.bin');
      const target = temporaryPath('model.safetensors');
      const write = `
import sys, torch
torch.manual_seed(0)
w = torch.randn(64, 32)
torch.save({
  'w': w, 'tied': w, 't': w.t(), 'part': w[3:9, ::2], 'nan': torch.tensor([float('nan'), 1.0]),
  'half': w.half(), 'bf': w.bfloat16(), 'i': torch.arange(7), 'b': torch.tensor([True, False]),
}, sys.argv[1])`;
      runPython(python, ['-c', write, source]);
      await convert(source, target, fast);
      const compare = `
import sys, torch
from safetensors.torch import load_file
from safetensors import safe_open
want = torch.load(sys.argv[1], weights_only=True)
got = load_file(sys.argv[2])
metadata = safe_open(sys.argv[2], 'pt').metadata()
for name, tensor in want.items():
  found = got[name] if name in got else got[metadata[name]]
  assert found.dtype == tensor.dtype and found.shape == tensor.shape, name
  assert torch.equal(found.view(torch.uint8), tensor.contiguous().view(torch.uint8)), name
print(len(want), len(got), metadata['format'])`;
      expect(runPython(python, ['-c', compare, source, target]).trim()).toBe('9 8 pt');
    },
  );
});

it('makes the folders that a file needs, and removes them when it fails', async () => {
  const above = temporaryPath('above');
  mkdirSync(above);
  const source = fixturePath('zip-state-dict.pt');
  const target = join(above, 'new', 'folder', 'model.safetensors');
  const ending = new AbortController();
  const { signal } = ending;
  let seen: string[] = [];
  const onProgress = (): void => {
    seen = readdirSync(above);
    ending.abort();
  };
  await expect(convert(source, target, { ...fast, signal, onProgress })).rejects.toThrow('abort');
  expect([seen, readdirSync(above)]).toEqual([['new'], []]);
  await convert(source, target);
  expect(existsSync(target)).toBe(true);
});
