/** Views: `dequantize` and `select`, of local and remote checkpoints, are checkpoints like any other. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compare } from '../../src/inspect.js';
import {
  type AnyCheckpoint,
  type Checkpoint,
  dequantized,
  open,
  openRemote,
  type SelectOptions,
  safeOpen,
  saveCheckpoint,
  saveFile,
  select,
  serializeStream,
  type Tensor,
} from '../support/api.js';
import { FileServer } from '../support/file-server.js';
import { root } from '../support/source-tree.js';

const quantized = join(root, 'test/fixtures/quantized/fp8-block-ragged');
const folder = mkdtempSync(join(tmpdir(), 'safetensors-views-'));
const plain = join(folder, 'plain');
const served: Record<string, Uint8Array> = {};
let server: FileServer;

const TENSORS = {
  'a.weight': {
    dtype: 'F32',
    shape: [3, 5],
    data: Float32Array.from({ length: 15 }, (_, i) => i / 3),
  },
  'b.weight': { dtype: 'BF16', shape: [2, 2], data: Uint16Array.of(0x3f80, 0x4000, 0xbf80, 0) },
  'c.count': { dtype: 'I64', shape: [2], data: BigInt64Array.of(1n, 2n) },
  'd.empty': { dtype: 'F16', shape: [0, 7], data: new Uint16Array(0) },
  'e.scalar': { dtype: 'F32', shape: [], data: Float32Array.of(70_000) },
} as const;

beforeAll(async () => {
  const metadata = { format: 'pt', tied: 'a.weight', total_parameters: '22' };
  await saveCheckpoint(plain, TENSORS, { maxShardSize: 64, metadata });
  for (const name of readdirSync(plain)) served[`/plain/${name}`] = readFileSync(join(plain, name));
  for (const name of readdirSync(quantized)) {
    served[`/quantized/${name}`] = readFileSync(join(quantized, name));
  }
  server = await FileServer.start(served);
});

afterAll(async () => {
  rmSync(folder, { recursive: true });
  await server.close();
});

const INDEX = 'model.safetensors.index.json';

/** A remote checkpoint whose headers are fetched. */
async function fetched(path: string): Promise<AnyCheckpoint> {
  const checkpoint = await openRemote(server.at(`/${path}`));
  await checkpoint.tensors();
  return checkpoint;
}

/** The bases, local and remote. */
const BASES: Readonly<Record<string, () => Promise<AnyCheckpoint>>> = {
  'a local checkpoint': async () => safeOpen(plain),
  'a remote checkpoint': () => fetched(`plain/${INDEX}`),
};

/** What every checkpoint answers. */
async function described(checkpoint: AnyCheckpoint): Promise<unknown> {
  const entries = (await checkpoint.tensors()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const tensors = await checkpoint.readTensors();
  const values = new Map<string, unknown>();
  for (const name of checkpoint.keys()) {
    const tensor = await checkpoint.getTensor(name);
    expect(tensor.bytes).toEqual(tensors.get(name)?.bytes);
    expect([tensor.name, tensor.dtype, tensor.shape]).toEqual([
      name,
      (await checkpoint.info(name)).dtype,
      (await checkpoint.info(name)).shape,
    ]);
    values.set(name, [...tensor.bytes]);
  }
  return {
    keys: checkpoint.keys(),
    size: checkpoint.size,
    entries: entries.map(({ name, dtype, shape, byteLength }) => ({
      name,
      dtype,
      shape,
      byteLength,
    })),
    values,
  };
}

/** Checks that a view equals the file that it is saved to. */
async function expectEqualToSaved(view: AnyCheckpoint): Promise<void> {
  const path = join(mkdtempSync(join(folder, 'saved-')), 'model.safetensors');
  await saveFile(path, view);
  using saved = safeOpen(path);
  expect(await described(view)).toEqual(await described(saved));
  const same = { added: [], removed: [], changed: [], unchanged: view.size };
  expect(await compare(view, saved, { values: true })).toEqual(same);
  const chunks: Uint8Array[] = [];
  for await (const piece of serializeStream(view)) chunks.push(piece);
  expect(Buffer.concat(chunks).equals(readFileSync(path))).toBe(true);
  const streamed = new Map<string, number[]>();
  for await (const [name, tensor] of view.stream()) streamed.set(name, [...tensor.bytes]);
  expect([...streamed.keys()]).toEqual(await view.offsetKeys());
  for (const [name, bytes] of streamed) expect(bytes).toEqual([...saved.getTensor(name).bytes]);
}

const CHOICES: Readonly<Record<string, SelectOptions>> = {
  nothing: {},
  names: { names: ['b.weight', 'a.weight'] },
  'an alias': { names: ['tied', 'c.count'] },
  'a function of names': { names: (name, { dtype }) => name !== 'c.count' && dtype !== 'F16' },
  'new names': { rename: (name) => `model.${name}` },
  'a Map of new names': { rename: new Map([['a.weight', 'z']]) },
  'a dtype': { dtype: 'F16' },
  'a function of dtypes': { dtype: (name) => (name === 'a.weight' ? 'BF16' : undefined) },
  everything: {
    names: (name) => name < 'c',
    rename: { 'b.weight': 'x', 'a.weight': 'y' },
    dtype: 'F32',
  },
};

describe.each(Object.entries(BASES))('select of %s', (_, openBase) => {
  test.each(Object.entries(CHOICES))(
    '%s equals the file that it is saved to',
    async (_, choice) => {
      using base = await openBase();
      using view = select(base, choice);
      expect(view.local).toBe(base.local);
      await expectEqualToSaved(view);
      const target = mkdtempSync(join(folder, 'checkpoint-'));
      await saveCheckpoint(target, view, { maxShardSize: 24 });
      expect(await described(safeOpen(target))).toEqual(await described(view));
    },
  );

  test('aliases follow their tensors, and parameters are counted again', async () => {
    using base = await openBase();
    const view = select(base, { names: ['a.weight'], rename: (name) => `x.${name}` });
    expect(view.metadata).toEqual(
      new Map([
        ['format', 'pt'],
        ['total_parameters', '15'],
        ['x.tied', 'x.a.weight'],
        ...[...(base.metadata ?? [])].filter(([key]) => key === 'total_size'),
      ]),
    );
    expect(view.has('x.tied')).toBe(true);
    expect(view.has('tied')).toBe(false);
    const [kept, alias] = [await view.getTensor('x.a.weight'), await view.getTensor('x.tied')];
    expect(alias.bytes).toEqual(kept.bytes);
  });

  test('parts of cast tensors equal parts of the whole', async () => {
    using base = await openBase();
    const view = select(base, { dtype: 'F16' });
    const whole = await view.getTensor('a.weight');
    for (const index of ['1', '1:3', ':, ::2', '-1, 1:4', '::2', '...']) {
      const part = await view.getSlice('a.weight', index);
      expect(part.bytes).toEqual(whole.slice(index).bytes);
    }
    expect(whole.toFloat32({ rows: [1, 2] })).toEqual(whole.slice([1, 2]).toFloat32());
    const pieces = [...whole.chunks({ maxByteLength: 4 })];
    expect(Buffer.concat(pieces).equals(whole.bytes)).toBe(true);
    expect(whole.take([2, 0]).slice(1).bytes).toEqual(whole.slice(0).bytes);
    const half = await view.getPartition('b.weight', { rank: 1, worldSize: 2 });
    expect([...half.toFloat32()]).toEqual([-1, 0]);
  });

  test('rejects what cannot be selected', async () => {
    using base = await openBase();
    const codeOf = (choice: SelectOptions): unknown => {
      try {
        return select(base, choice).size;
      } catch (error) {
        return (error as { code?: unknown }).code;
      }
    };
    expect(codeOf({ names: ['a.wieght'] })).toBe('SAFETENSORS_TENSOR_NOT_FOUND');
    expect(codeOf({ names: ['a', 'b'] })).toBe('SAFETENSORS_INVALID_SELECTION');
    expect(codeOf({ names: [] })).toBe('ERR_OUT_OF_RANGE');
    expect(codeOf({ rename: () => 'same' })).toBe('SAFETENSORS_INVALID_SELECTION');
    expect(codeOf({ dtype: () => 'I64' })).toBe('SAFETENSORS_INVALID_SELECTION');
    expect(codeOf({ dtype: () => 'half' as 'F16' })).toBe('ERR_INVALID_ARG_TYPE');
    expect(codeOf({ dtype: 'I8' as 'F16' })).toBe('ERR_INVALID_ARG_TYPE');
    expect(codeOf({ name: 'a' } as SelectOptions)).toBe('ERR_INVALID_ARG_VALUE');
  });

  test('an unknown tensor, and one that was left out, are not found', async () => {
    using base = await openBase();
    const view = select(base, { names: ['a.weight'] });
    const lookUp = async (): Promise<Tensor> => await view.getTensor('b.weight');
    await expect(lookUp()).rejects.toMatchObject({
      code: 'SAFETENSORS_TENSOR_NOT_FOUND',
      tensor: 'b.weight',
    });
  });
});

test('select of a remote checkpoint waits for its headers', async () => {
  using base = await openRemote(server.at(`/plain/${INDEX}`));
  expect(() => select(base, { names: ['a.weight'] })).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_STATE' }),
  );
  await base.tensors();
  expect(select(base, { names: ['a.weight'] }).keys()).toEqual(['a.weight']);
});

/** Dequantized bases. */
const QUANTIZED: Readonly<Record<string, () => Promise<AnyCheckpoint>>> = {
  local: async () => safeOpen(quantized),
  remote: () => fetched(`quantized/model.safetensors`),
};

describe.each(Object.entries(QUANTIZED))('dequantize, %s', (_, openBase) => {
  test('equals the file that it is saved to, and composes', async () => {
    using base = await openBase();
    const view = await dequantized(base);
    const weights = (await view.tensors()).filter(({ quantization }) => quantization !== undefined);
    expect(weights.length).toBeGreaterThan(0);
    for (const { name, dtype, quantization } of weights) {
      expect([dtype, quantization?.scheme]).toEqual(['F32', 'fp8']);
      expect(await view.info(name)).toMatchObject({ dtype: 'F32', quantization });
      expect(base.has(quantization?.storedAs['scale'] as string)).toBe(true);
      expect(view.has(quantization?.storedAs['scale'] as string)).toBe(false);
    }
    await expectEqualToSaved(view);
    const names = weights.map(({ name }) => name);
    const halves = select(view, { names, dtype: 'BF16', rename: (name) => `plain.${name}` });
    await expectEqualToSaved(halves);
    expect(await described(await dequantized(halves))).toEqual(await described(halves));
    const chosen = select(base, { names: Object.values(weights[0]?.quantization?.storedAs ?? {}) });
    const one = await dequantized(chosen);
    expect(one.keys()).toEqual([names[0]]);
    const [first = ''] = names;
    expect((await one.getTensor(first)).bytes).toEqual((await view.getTensor(first)).bytes);
  });

  test('is counted by what it shows, file by file', async () => {
    using base = await openBase();
    const view = await dequantized(base);
    const entries = await view.tensors();
    const summary = await view.summary();
    expect((await base.summary()).quantization).toBe('fp8');
    expect(summary.quantization).toBe(null);
    expect(summary.parameters).toBe(
      entries.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0),
    );
    expect([...summary.shards.keys()]).toEqual([...new Set(entries.map(({ file }) => file))]);
  });

  test('bytes of any place are those of the whole', async () => {
    using base = await openBase();
    const view = await dequantized(base);
    for (const { name, quantization, shape } of await view.tensors()) {
      if (quantization === undefined) continue;
      const whole = (await view.getTensor(name)).toFloat32();
      const tensor = await view.getTensor(name);
      const columns = shape.at(-1) as number;
      for (const maxByteLength of [4, 12, 4 * columns - 4, 4 * columns + 4]) {
        const bytes = Buffer.concat([...tensor.chunks({ maxByteLength })]);
        expect(bytes.equals(Buffer.from(whole.buffer))).toBe(true);
      }
      const last = whole.length / columns - 1;
      const ends = [0, last].map((row) => (row + 1) * columns);
      const part = await view.getSlice(name, [null, null, Math.max(last, 1)], [columns - 3, null]);
      expect([...part.toFloat32()]).toEqual(
        [...new Set(ends)].flatMap((end) => [...whole.subarray(end - 3, end)]),
      );
      expect([...tensor.toFloat32({ rows: [last, last + 1] })]).toEqual([
        ...whole.subarray(last * columns),
      ]);
      const rows: number[] = [];
      for await (const { values } of tensor.rowBlocks({ maxByteLength: 9 * columns })) {
        rows.push(...values);
      }
      expect(rows).toEqual([...whole]);
    }
  });
});

describe('ownership', () => {
  const VIEWS: Readonly<Record<string, (base: AnyCheckpoint) => Promise<AnyCheckpoint>>> = {
    dequantize: (base) => dequantized(base),
    select: async (base) => select(base, { dtype: 'BF16', rename: (name) => `x.${name}` }),
  };

  for (const [what, viewOf] of Object.entries(VIEWS)) {
    for (const [where, openBase] of Object.entries(QUANTIZED)) {
      test(`closing the view of ${what} leaves a ${where} base open`, async () => {
        using base = await openBase();
        const view = await viewOf(base);
        view.close();
        expect(base.keys().length).toBeGreaterThan(0);
        expect(() => view.keys()).toThrow(
          expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' }),
        );
        expect(view.ok).toBe(false);
        await base.getTensor(base.keys()[0] as string);
      });

      test(`after close of a ${where} base, members of ${what} throw, and tensors go on`, async () => {
        const base = await openBase();
        const view = await viewOf(base);
        const [name = ''] = view.keys();
        const names = view.keys();
        const tensors = await Promise.all(names.map(async (one) => await view.getTensor(one)));
        const before = tensors.map((tensor) => [...tensor.slice().copy().bytes]);
        base.close();
        const closed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' });
        const calls: Record<string, () => unknown> = {
          keys: () => view.keys(),
          has: () => view.has(name),
          size: () => view.size,
          metadata: () => view.metadata,
          info: () => view.info(name),
          tensors: () => view.tensors(),
          headers: () => view.headers(),
          offsetKeys: () => view.offsetKeys(),
          summary: () => view.summary(),
          byteLength: () => view.byteLength(),
          getTensor: () => view.getTensor(name),
          getSlice: () => view.getSlice(name, 0),
          readTensors: () => view.readTensors([name]),
          stream: () => view.stream().next(),
          verify: () => view.verify(),
          sibling: () => view.sibling('config.json'),
        };
        for (const [member, call] of Object.entries(calls)) {
          const outcome = (async () => await call())();
          await expect(outcome, member).rejects.toEqual(closed);
        }
        expect(tensors.map((tensor) => [...tensor.bytes])).toEqual(before);
      });
    }
  }

  test('detaching the base ends its tensors, and what would be computed from them', async () => {
    const base = safeOpen(quantized);
    const view = await dequantized(base);
    const [name = ''] = (await view.tensors())
      .filter(({ quantization }) => quantization !== undefined)
      .map((entry) => entry.name);
    const [used, unused] = [view.getTensor(name), view.getTensor(name)];
    const values = used.data;
    base.close({ detach: true });
    expect(values.length).toBeGreaterThan(0);
    expect(() => unused.data).toThrow(expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' }));
  });
});

describe('retention', () => {
  test('a stored tensor is the same object on every call, a computed one is not', async () => {
    using base: Checkpoint = safeOpen(plain);
    const view = select(base, {
      rename: (name) => `x.${name}`,
      dtype: (name) => (name === 'a.weight' ? 'F16' : undefined),
    });
    expect(view.getTensor('x.b.weight')).toBe(view.getTensor('x.b.weight'));
    expect(view.getTensor('x.b.weight').buffer).toBe(base.getTensor('b.weight').buffer);
    expect(view.getTensor('x.a.weight')).not.toBe(view.getTensor('x.a.weight'));
    const cast = view.getTensor('x.a.weight');
    expect(cast.buffer).toBe(cast.buffer);
    expect(await select(base).getTensor('a.weight')).toBe(base.getTensor('a.weight'));
  });
});

test('a slice of a remote weight fetches its rows and its scales, not the weight', async () => {
  using base = await openRemote(server.at('/quantized/model.safetensors'));
  const view = await dequantized(base);
  const weight = (await view.tensors()).find(({ quantization }) => quantization !== undefined);
  server.requests.length = 0;
  await view.getSlice(weight?.name as string, 0);
  const first = server.requests.length;
  await view.getSlice(weight?.name as string, 1);
  expect(first).toBeGreaterThan(0);
  // The scales are there.
  expect(server.requests.length - first).toBe(1);
});

test('an abort ends the computation of a remote weight, and of a view', async () => {
  const view = await dequantized(
    await open(server.at('/quantized/model.safetensors') as `http://${string}`),
  );
  const signal = AbortSignal.abort(new Error('enough'));
  for (const call of [
    () => view.getTensor(view.keys()[0] as string, { signal }),
    () => view.readTensors(undefined, { signal }),
    () => view.tensors({ signal }),
  ]) {
    await expect(call()).rejects.toThrow('enough');
  }
});
