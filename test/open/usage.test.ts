/** Programs over local and remote checkpoints, which the check of types compiles, and what they find. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { open as openHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { fixturePath } from '../foreign/torch/fixtures.js';
import {
  type AnyCheckpoint,
  type Checkpoint,
  dequantized as dequantize,
  open,
  type RemoteCheckpoint,
  type SiblingFile,
  safeOpen,
  saveCheckpoint,
  select,
  type Tensor,
  verify,
} from '../support/api.js';
import { FileServer } from '../support/file-server.js';
import { filesOf, writeBelow } from '../support/make-checkpoint.js';
import type { Entry } from '../support/make-file.js';
import { root } from '../support/source-tree.js';

const F32 = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);

const ENTRIES: readonly Entry[] = [
  { name: 'w', dtype: 'F32', shape: [2], bytes: F32(3, 4) },
  { name: 'norm.weight', dtype: 'F32', shape: [3], bytes: F32(1, 2, 2) },
];
const SHARDS = {
  shards: {
    'model-00001-of-00002.safetensors': ENTRIES.slice(0, 1),
    'model-00002-of-00002.safetensors': ENTRIES.slice(1),
  },
};
const INDEX = 'model.safetensors.index.json';
const quantized = join(root, 'test/fixtures/quantized/fp8-block-ragged');
const CONFIG = '{"model_type":"example"}';

const files = filesOf(SHARDS).set('config.json', new TextEncoder().encode(CONFIG));
const blobs = new Map(
  Array.from(files, ([name, bytes]) => [name, new Blob([new Uint8Array(bytes)])]),
);
const folder = mkdtempSync(join(tmpdir(), 'safetensors-'));
const model = join(folder, 'my-model');
const single = join(folder, 'single');
let server: FileServer;

beforeAll(async () => {
  for (const [name, bytes] of files) writeBelow(model, name, bytes);
  await saveCheckpoint(single, [...safeOpen(model)]);
  cpSync(fixturePath('zip-lightning.ckpt'), join(folder, 'model.ckpt'));
  const entries = Array.from(files, ([name, bytes]) => [`/${name}`, bytes]);
  server = await FileServer.start(Object.fromEntries(entries));
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await server.close();
  rmSync(folder, { recursive: true });
});

async function norms(checkpoint: AnyCheckpoint): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const name of checkpoint.keys()) {
    const values = (await checkpoint.getTensor(name)).toFloat32();
    found.set(
      name,
      values.reduce((sum, value) => sum + value * value, 0),
    );
  }
  return found;
}

/** The same model, local and by requests. */
const KINDS: Readonly<Record<string, () => Promise<AnyCheckpoint>>> = {
  'a folder': () => open(model, { remote: false }),
  'an HTTP server': () => open(server.at(`/${INDEX}`)),
  Blobs: () => open(blobs),
};

describe.each(Object.entries(KINDS))('a function over any checkpoint: %s', (kind, openOne) => {
  test('needs no branch', async () => {
    using checkpoint = await openOne();
    expect(await norms(checkpoint)).toEqual(
      new Map([
        ['norm.weight', 9],
        ['w', 25],
      ]),
    );
    const streamed: [string, number[]][] = [];
    for await (const [name, tensor] of checkpoint.stream({ names: ['norm.weight', 'w'] })) {
      streamed.push([name, [...tensor.toFloat32()]]);
    }
    expect(streamed).toEqual([
      ['norm.weight', [1, 2, 2]],
      ['w', [3, 4]],
    ]);
    const entries = await checkpoint.tensors();
    expect(entries.map(({ dtype, byteLength }) => [dtype, byteLength])).toEqual([
      ['F32', 8],
      ['F32', 12],
    ]);
  });

  test('has equal answers from all members that both kinds of handle have', async () => {
    using checkpoint = await openOne();
    using local = safeOpen(model);
    expect(await checkpoint.summary()).toEqual(await local.summary());
    expect(await checkpoint.headers()).toEqual(await local.headers());
    expect(await checkpoint.offsetKeys()).toEqual(local.offsetKeys());
    expect(await checkpoint.byteLength()).toBe(local.byteLength());
    const config: SiblingFile | undefined = await checkpoint.sibling('config.json');
    expect(Buffer.from(config?.bytes ?? []).toString()).toBe(CONFIG);
    for (const handle of [checkpoint, local]) {
      expect([handle.format, handle.root, await handle.extra()]).toEqual([
        'safetensors',
        undefined,
        null,
      ]);
      expect([handle.problems, handle.ignoredFiles, handle.ok]).toEqual([[], [], true]);
      expect(handle.checks).toEqual(['headers', 'index']);
    }
    const { storage: _, ...state } = local.toJSON();
    expect(checkpoint.toJSON()).toEqual({
      ...state,
      path: checkpoint.path,
      ...(kind === 'a folder' ? { storage: 'mmap' } : {}),
    });
    const signal = AbortSignal.abort('why');
    await expect(checkpoint.summary({ signal })).rejects.toBe('why');
    checkpoint.close();
    local.close();
    const { storage: __, ...closed } = local.toJSON();
    expect(checkpoint.toJSON()).toMatchObject({ ...closed, path: checkpoint.path });
    await expect(checkpoint.summary()).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  });
});

test('files of the folder that are ignored are listed from Blobs as from a folder', async () => {
  const extra = 'model.safetensors';
  const shard = files.get('model-00001-of-00002.safetensors') as Uint8Array;
  writeBelow(join(folder, 'both'), extra, shard);
  for (const [name, bytes] of files) writeBelow(join(folder, 'both'), name, bytes);
  using local = safeOpen(join(folder, 'both'));
  using remote = await open(new Map([...blobs, [extra, new Blob([new Uint8Array(shard)])]]));
  expect(local.ignoredFiles).toEqual([extra]);
  expect(remote.ignoredFiles).toEqual([extra]);
});

describe('programs', () => {
  test('swap one open version for the next', async () => {
    let current: Checkpoint = await open(model, { remote: false });
    const next = await open(single, { remote: false });
    await next.prefetch(['w']);
    current.close();
    current = next;
    expect(current.getTensor('w').data[0]).toBe(3);
    current.close();
  });

  test('prefetch, and ask what is in memory', async () => {
    const { signal } = new AbortController();
    using file = await open(join(single, 'model.safetensors') as 'model.safetensors', { signal });
    await file.prefetch(['w'], { signal });
    expect([8, null]).toContain(file.residency('w'));
  });

  test('read a torch checkpoint with everything else in it', async () => {
    using checkpoint = await open(join(folder, 'model.ckpt') as 'model.ckpt');
    const lengths: [string, number][] = [];
    for (const [name, tensor] of checkpoint) lengths.push([name, tensor.toFloat32().length]);
    expect(lengths.length).toBe(checkpoint.size);
    expect(checkpoint.root).toEqual(['state_dict']);
    const extra = await checkpoint.extra();
    expect(extra instanceof Map && extra.get('epoch')).toBe(3);
  });

  test('open a FileHandle, and close theirs', async () => {
    const handle = await openHandle(join(single, 'model.safetensors'));
    using file = await open(handle);
    await handle.close();
    expect(file.keys()).toEqual(['norm.weight', 'w']);
  });

  test('find the bytes of a tensor in its file', async () => {
    using file = safeOpen(join(single, 'model.safetensors'));
    const [header] = await file.headers();
    const [begin] = file.info('norm.weight').dataOffsets;
    expect((header?.dataStart ?? 0) + begin).toBeLessThan(file.byteLength());
    expect(header?.text.slice(0, 1)).toBe('{');
  });

  test('save what they have opened', async () => {
    using base = safeOpen(model);
    await saveCheckpoint(join(folder, 'merged'), [...base]);
    using saved = safeOpen(join(folder, 'merged'));
    expect(await norms(saved)).toEqual(await norms(base));
  });

  test('compute rows of quantized weights', async () => {
    const dequantized: Checkpoint = await dequantize(safeOpen(quantized));
    const tensor = dequantized.getTensor('model.layers.0.mlp.down_proj.weight');
    const row = tensor.toFloat32({ rows: [1, 2] });
    const blocks: number[] = [];
    for await (const { row: first, values } of tensor.rowBlocks({ maxByteLength: 64 })) {
      if (first === 1) blocks.push(...values);
    }
    expect(blocks).toEqual([...row]);
    const bytes = readFileSync(join(quantized, 'model.safetensors'));
    const remote: RemoteCheckpoint = await dequantize(await open(new Blob([bytes])));
    const part = await remote.getSlice('model.layers.0.mlp.down_proj.weight', '1:2');
    expect(part.toFloat32()).toEqual(row);
  });

  test('save some tensors of a checkpoint, as other dtypes', async () => {
    const view = select(safeOpen(model), {
      names: (name) => !name.startsWith('optimizer.'),
      dtype: (_, { dtype, shape }) => (dtype === 'F32' && shape[0] === 2 ? 'F8_E4M3' : undefined),
    });
    await saveCheckpoint(join(folder, 'mixed'), view);
    using saved = safeOpen(join(folder, 'mixed'));
    expect([saved.info('w').dtype, saved.info('norm.weight').dtype]).toEqual(['F8_E4M3', 'F32']);
  });

  test('verify a path', async () => {
    const { ok, problems } = await verify(join(model, INDEX));
    expect([ok, problems.map(({ code }) => code)]).toEqual([true, []]);
  });

  test('narrow a checkpoint from a text of the environment', async () => {
    const shapeOf = async (): Promise<readonly number[]> => {
      using checkpoint = await open(process.env['MODEL'] as string);
      if (checkpoint.local) return checkpoint.getTensor('w').shape;
      const tensor: Promise<Tensor> = checkpoint.getTensor('w');
      return (await tensor).shape;
    };
    for (const source of [model, server.at(`/${INDEX}`)]) {
      vi.stubEnv('MODEL', source);
      expect(await shapeOf()).toEqual([2]);
    }
  });
});

test('the kind of handle follows from the type of the source', () => {
  // Compiled only.
  const openEach = async (): Promise<
    [Checkpoint, Checkpoint, RemoteCheckpoint, RemoteCheckpoint, Checkpoint]
  > => [
    await open('model.safetensors'),
    await open('model.ckpt'),
    await open('hf://org/model'),
    await open(new Blob([])),
    await open(new Uint8Array()),
  ];
  expect(openEach).toBeTypeOf('function');
});
