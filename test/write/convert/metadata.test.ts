/** Metadata of converted checkpoints: whose keys win, and the index's own. */
import { describe, expect, it } from 'vitest';
import { unicode } from '../../foreign/pickle/pickle-bytes.js';
import { dict, legacyFile, tensor } from '../../foreign/torch/legacy-file.js';
import { convert, safeOpen, saveCheckpoint, saveFile } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { filled } from '../../support/saved-tensors.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };
const tensors = { a: filled(4, 0), b: filled(4, 1) };

type Metadata = Record<string, string> | null;

function plain(metadata: ReadonlyMap<string, string> | null): Metadata {
  return metadata && Object.fromEntries(metadata);
}

/** Metadata of the index and of every file of a folder; of the only file twice. */
function metadataIn(folder: string, files: readonly string[]): [Metadata, ...Metadata[]] {
  using checkpoint = safeOpen(folder);
  const ofFiles = files.map((name) => {
    using file = safeOpen(`${folder}/${name}`);
    return plain(file.metadata);
  });
  return [plain(checkpoint.metadata), ...ofFiles];
}

describe('of safetensors', () => {
  const metadata = { note: 'old', kept: 'yes' };

  async function source(): Promise<string> {
    const path = temporaryPath('source.safetensors');
    await saveFile(path, tensors, { ...saving, metadata: { format: 'pt', ...metadata } });
    return path;
  }

  it('in one file, the keys of the caller win', async () => {
    const target = temporaryPath('model.safetensors');
    await convert(await source(), target, { ...fast, metadata: { note: 'new', more: 'given' } });
    using file = safeOpen(target);
    expect(plain(file.metadata)).toEqual({
      format: 'pt',
      note: 'new',
      kept: 'yes',
      more: 'given',
    });
  });

  it('in several files, the keys of the caller are in the index, and win there', async () => {
    const folder = temporaryPath('model');
    const { files } = await convert(await source(), folder, {
      ...fast,
      maxShardSize: 16,
      metadata: { note: 'new', more: 'given' },
    });
    expect(files).toHaveLength(2);
    expect(metadataIn(folder, files)).toEqual([
      { total_size: '32', note: 'new', kept: 'yes', more: 'given' },
      { format: 'pt' },
      { format: 'pt' },
    ]);
  });

  it('of several files, the index keeps its keys', async () => {
    const [from, folder] = [temporaryPath('source'), temporaryPath('model')];
    await saveCheckpoint(from, tensors, { ...saving, maxShardSize: 16, metadata });
    const { files } = await convert(from, folder, {
      ...fast,
      maxShardSize: 16,
      metadata: { note: 'new' },
    });
    expect(metadataIn(folder, files)).toEqual([
      { total_size: '32', note: 'new', kept: 'yes' },
      { format: 'pt' },
      { format: 'pt' },
    ]);
  });

  describe.each([
    ['one file', {}],
    ['several files', { maxShardSize: 16 }],
  ])('aliases in %s', (_, layout) => {
    async function aliased(): Promise<string> {
      const from = temporaryPath('source');
      await saveCheckpoint(from, tensors, { ...saving, ...layout, metadata: { tied: 'a' } });
      return from;
    }

    it('can be named', async () => {
      const target = temporaryPath('model.safetensors');
      await convert(await aliased(), target, { ...fast, names: ['tied'] });
      using file = safeOpen(target);
      expect(file.keys()).toEqual(['a']);
    });

    it('go with their tensors', async () => {
      const target = temporaryPath('model.safetensors');
      await convert(await aliased(), target, { ...fast, rename: (name) => `m.${name}` });
      using file = safeOpen(target);
      expect(plain(file.metadata)).toEqual({ format: 'pt', 'm.tied': 'm.a' });
    });
  });

  it('are absent unless given', async () => {
    const from = temporaryPath('source.safetensors');
    await saveFile(from, tensors, saving);
    const target = temporaryPath('model.safetensors');
    await convert(from, target, fast);
    using file = safeOpen(target);
    expect(file.metadata).toBe(null);
  });
});

describe('of torch', () => {
  /** `a` and `b` are one tensor, `c` is a second. */
  function source(): string {
    const tied = (name: string): [string, string] => [unicode(name), tensor('0', [2])];
    return legacyFile(dict(tied('a'), tied('b'), [unicode('c'), tensor('1', [2])]), { 0: 2, 1: 2 });
  }

  it('in one file, the keys of the caller win over the format, and over names, which are written', async () => {
    const target = temporaryPath('model.safetensors');
    const { dropped, overlaps } = await convert(source(), target, {
      ...fast,
      metadata: { format: 'mine', b: 'given' },
    });
    using file = safeOpen(target);
    expect(plain(file.metadata)).toEqual({ format: 'mine', b: 'given' });
    expect([dropped, overlaps]).toEqual([new Map(), [['b', 'a']]]);
    expect(file.keys()).toEqual(['a', 'b', 'c']);
  });

  it('in several files, the keys of the caller and the names are in the index', async () => {
    const folder = temporaryPath('model');
    const { files, unrecorded } = await convert(source(), folder, {
      ...fast,
      maxShardSize: 8,
      metadata: { note: 'given' },
    });
    expect(unrecorded).toEqual([]);
    expect(metadataIn(folder, files)).toEqual([
      { total_size: '16', note: 'given', b: 'a' },
      { format: 'pt' },
      { format: 'pt' },
    ]);
  });

  it('in several files, a tensor whose name the caller uses is written', async () => {
    const { overlaps, files } = await convert(source(), temporaryPath('model'), {
      ...fast,
      maxShardSize: 8,
      metadata: { b: 'given' },
    });
    expect([overlaps, files.length]).toEqual([[['b', 'a']], 3]);
  });
});

it('that a header cannot hold is refused before anything is read', async () => {
  const metadata = { note: 1 } as never;
  const target = temporaryPath('model.safetensors');
  await expect(convert('missing.pt', target, { ...fast, metadata })).rejects.toThrow(TypeError);
});
