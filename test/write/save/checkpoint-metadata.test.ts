/** Writers that are given a checkpoint write its metadata, unless the caller passes other metadata. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  convert,
  createWriter,
  dequantized as dequantize,
  editMetadata,
  open,
  parse,
  type SerializedStream,
  safeOpen,
  saveCheckpoint,
  saveFile,
  select,
  serialize,
  serializeStream,
  type Tensor,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const TENSORS = {
  a: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
  b: { dtype: 'F32', shape: [2], data: Float32Array.of(3, 4) },
} as const;

const NOTE = { note: 'x', 'b.tied': 'b' } as const;

/** A file with digests and a hash of its bytes. */
async function savedFile(): Promise<string> {
  const path = temporaryPath('source.safetensors');
  await saveFile(path, TENSORS, { metadata: NOTE, digests: true });
  await editMetadata(path, {}, { modelspecHash: true });
  const { metadata } = safeOpen(path);
  expect([...(metadata?.keys() ?? [])].sort()).toEqual([
    'b.tied',
    'modelspec.hash_sha256',
    'note',
    'safetensors-mmap.sha256',
  ]);
  return path;
}

/** A folder of two shards. */
async function savedFolder(): Promise<string> {
  const folder = temporaryPath('source');
  await saveCheckpoint(folder, TENSORS, { metadata: NOTE, maxShardSize: 8 });
  return folder;
}

async function bytesOf(stream: SerializedStream): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(stream.readable()).arrayBuffer());
}

type Source = Parameters<typeof serialize>[0];

/** Ways to write a checkpoint, each with the options and the metadata that the result has. */
const WRITERS: Readonly<
  Record<string, (source: Source, options: object) => Promise<ReadonlyMap<string, string> | null>>
> = {
  saveFile: async (source, options) => {
    const path = temporaryPath('target.safetensors');
    await saveFile(path, source, options);
    return safeOpen(path).metadata;
  },
  serialize: async (source, options) => parse(serialize(source, options)).metadata,
  serializeStream: async (source, options) => {
    return parse(await bytesOf(serializeStream(source, options))).metadata;
  },
  createWriter: async (source, options) => {
    const path = temporaryPath('target.safetensors');
    const writer = await createWriter(path, source as never, options);
    for (const [name, tensor] of source as Iterable<[string, Tensor]>)
      await writer.write(name, tensor);
    await writer.close();
    return safeOpen(path).metadata;
  },
};

const WAYS = Object.entries(WRITERS);

it.each(WAYS)('%s writes the metadata of a file, without hashes of its bytes', async (_, write) => {
  const checkpoint = safeOpen(await savedFile());
  expect(await write(checkpoint, {})).toEqual(new Map(Object.entries(NOTE)));
});

it.each(WAYS)('%s writes the metadata of an index, without its total_size', async (_, write) => {
  const checkpoint = safeOpen(await savedFolder());
  expect(checkpoint.metadata?.get('total_size')).toBe('16');
  expect(await write(checkpoint, {})).toEqual(new Map(Object.entries({ format: 'pt', ...NOTE })));
});

it.each(WAYS)('%s writes what the shards agree on, also of views', async (_, write) => {
  const folder = temporaryPath('plain');
  await saveCheckpoint(folder, TENSORS, { maxShardSize: 8 });
  const expected = new Map([['format', 'pt']]);
  expect(await write(safeOpen(folder), {})).toEqual(expected);
  expect(await write(select(safeOpen(folder), { dtype: 'F16' }), {})).toEqual(expected);
  expect(await write(await dequantize(safeOpen(folder)), {})).toEqual(expected);
  const target = temporaryPath('converted.safetensors');
  await convert(folder, target);
  expect(safeOpen(target).metadata).toEqual(expected);
});

it.each(WAYS)('%s writes no empty metadata', async (_, write) => {
  const path = temporaryPath('digests.safetensors');
  await saveFile(path, TENSORS, { digests: true });
  expect(await write(safeOpen(path), {})).toBeNull();
});

it.each(WAYS)('%s writes the metadata of a view', async (_, write) => {
  const view = select(safeOpen(await savedFile()), { rename: { b: 'c' }, dtype: 'F16' });
  expect(await write(view, {})).toEqual(
    new Map([
      ['note', 'x'],
      ['b.tied', 'c'],
    ]),
  );
});

it.each(WAYS)('%s writes the metadata that is passed, none for null', async (_, write) => {
  const checkpoint = safeOpen(await savedFile());
  expect(await write(checkpoint, { metadata: { other: 'y' } })).toEqual(new Map([['other', 'y']]));
  expect(await write(checkpoint, { metadata: null })).toBeNull();
});

it.each(WAYS)('%s of tensors that are not those of a checkpoint writes none', async (_, write) => {
  expect(await write(new Map(safeOpen(await savedFile())) as Source, {})).toBeNull();
});

it('remote checkpoints bring theirs', async () => {
  const remote = await open(new Blob([readFileSync(await savedFile())]));
  const path = temporaryPath('target.safetensors');
  await saveFile(path, remote);
  expect(safeOpen(path).metadata).toEqual(new Map(Object.entries(NOTE)));
  const stream = serializeStream(remote);
  expect(parse(await bytesOf(stream)).metadata?.get('note')).toBe('x');
});

it.each(WAYS)('%s rejects a checkpoint with a tensor that cannot be read', async (_, write) => {
  const checkpoint = await open('test/fixtures/torch/np-x-npz-object.npz', { remote: false });
  const code = 'SAFETENSORS_UNSUPPORTED_TENSOR';
  await expect(write(checkpoint, {})).rejects.toMatchObject({ code });
  expect(await write(select(checkpoint, { names: checkpoint.keys() }), {})).toBeNull();
});

it('createWriter takes a remote checkpoint as specs, serialize rejects one', async () => {
  const remote = await open(new Blob([readFileSync(await savedFile())]));
  const path = temporaryPath('target.safetensors');
  const writer = await createWriter(path, remote);
  for await (const [name, tensor] of remote.stream()) await writer.write(name, tensor);
  await writer.close();
  expect(safeOpen(path).metadata).toEqual(new Map(Object.entries(NOTE)));
  expect(() => serialize(remote as never)).toThrow(/readTensors\(\).*serializeStream/);
});

it('saveCheckpoint puts it where a checkpoint has it', async () => {
  for (const path of [await savedFile(), await savedFolder()]) {
    const one = temporaryPath('one');
    await saveCheckpoint(one, safeOpen(path));
    expect(safeOpen(one).metadata).toEqual(new Map(Object.entries({ format: 'pt', ...NOTE })));
    const two = temporaryPath('two');
    await saveCheckpoint(two, safeOpen(path), { maxShardSize: 8 });
    const index = JSON.parse(readFileSync(join(two, 'model.safetensors.index.json'), 'utf8'));
    expect(index.metadata).toEqual({ total_size: 16, ...NOTE });
    expect(safeOpen(two).has('b.tied')).toBe(true);
    const none = temporaryPath('none');
    await saveCheckpoint(none, safeOpen(path), { metadata: null });
    expect(safeOpen(none).metadata).toBeNull();
    const sharded = temporaryPath('sharded');
    await saveCheckpoint(sharded, safeOpen(path), { metadata: null, maxShardSize: 8 });
    expect(safeOpen(sharded).metadata).toEqual(new Map([['total_size', '16']]));
    const converted = temporaryPath('none.safetensors');
    await convert(path, converted, { metadata: null, overwrite: true });
    expect(safeOpen(converted).metadata).toBeNull();
  }
});
