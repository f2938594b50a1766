import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NewTensorOf } from '../../../src/write/input/tensor-input.js';
import { shardingCases } from '../../file/shards/sharding-cases.js';
import {
  type Dtype,
  type NewTensor,
  safeOpen,
  saveCheckpoint,
  type TensorStream,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import {
  contentOf,
  equalTensors,
  filesOf,
  filled,
  folderWith,
  type Tensors,
} from '../../support/saved-tensors.js';

/** Two names of one memory. */
function tied(): Tensors {
  const shared = new Float32Array([1]);
  const one = (data: Float32Array): NewTensor => ({ dtype: 'F32', shape: [1], data });
  return [
    ['shared_1', one(shared)],
    ['unique_1', one(new Float32Array([2]))],
    ['unique_2', one(new Float32Array([3]))],
    ['shared_2', one(shared)],
  ];
}

const STATE_DICTS: Readonly<Record<string, () => Tensors>> = {
  empty: () => [],
  noncontig: () => equalTensors(24, 't'),
  plain: () => equalTensors(8, 'layer_0', 'layer_1', 'layer_2', 'layer_3', 'layer_4'),
  three: () => equalTensors(16, 'b', 'a', 'c'),
  tied,
  zero: () => [...equalTensors(0, 'z'), ...equalTensors(4, 'o')],
};

/** Names of the files that an index names here, so that saving replaces it with them. */
const OWNED = /^model(?:\.fp16)?(?:-\d{5}-of-\d{5})?\.safetensors$/;
/** Names of files that Python deletes, and this package leaves: no index names them, and no reader opens them. */
const STAYING = /[^\x20-\x7e]|-of-\d{5}\.safetensors\.index\.json$/;
const INDEX = /^model(?:\.fp16)?\.safetensors\.index\.json$/;

describe('the save cases of huggingface_hub', () => {
  const cases = shardingCases.save.filter(
    ({ input, expected_error: error }) =>
      input.safe_serialization !== false && error === undefined && input.state_dict !== 'empty',
  );

  it('are all here but pickles and what is not saved', () => {
    expect(cases.length).toBeGreaterThan(11);
  });

  it.each(cases)('$id', async ({ input, expected_files: expected }) => {
    // This package has no option for the name that is kept, nor for leaving old files.
    if (input.shared_tensors_to_discard !== undefined || input.is_main_process === false) return;
    const folder = folderWith(...input.existing_files);
    for (const name of input.existing_files.filter((name) => INDEX.test(name))) {
      const shards = input.existing_files.filter((name) => OWNED.test(name));
      const map = Object.fromEntries(shards.map((shard, i) => [`old${i}`, shard]));
      writeFileSync(join(folder, name), JSON.stringify({ metadata: {}, weight_map: map }));
    }
    const before = filesOf(folder);
    const tensors = STATE_DICTS[input.state_dict]?.() ?? [];
    const { deleted, replaced } = await saveCheckpoint(folder, tensors, {
      maxShardSize: input.max_shard_size,
      filenamePattern: input.filename_pattern,
      metadata: input.metadata,
      shared: 'python',
      durable: false,
    });
    const files = filesOf(folder);
    for (const [name, file] of Object.entries(expected)) {
      const found = files.get(name);
      if (file.untouched) expect(found).toBe(name);
      else if (file.text !== undefined) expect(found).toBe(file.text);
      else {
        using opened = safeOpen(join(folder, name));
        const { metadata, tensors } = file as { metadata: object; tensors: string[] };
        expect(Object.fromEntries(opened.metadata ?? [])).toEqual(metadata);
        expect(opened.keys()).toEqual(tensors);
      }
    }
    const staying = input.existing_files.filter((name) => STAYING.test(name));
    for (const name of staying) expect(files.get(name)).toBe(before.get(name));
    const wanted = new Set([...Object.keys(expected), ...staying]);
    expect([...files.keys()].sort()).toEqual([...wanted].sort());
    const gone = [...before.keys()].filter((name) => !files.has(name));
    expect([...deleted].sort()).toEqual(gone.sort());
    const changed = [...before.keys()].filter((name) => files.get(name) !== before.get(name));
    expect(replaced.map(({ name }) => name)).toEqual(changed.sort());
  });

  it('an empty state dict deletes nothing', async () => {
    const folder = folderWith('model.safetensors');
    await expect(saveCheckpoint(folder, [])).rejects.toThrow(
      expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }),
    );
    expect(readdirSync(folder)).toEqual(['model.safetensors']);
  });
});

describe('what was saved is what is opened', () => {
  const tensors = fc.uniqueArray(
    fc.record({
      name: fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('__proto__', '10', 'format')),
      dtype: fc.constantFrom('F32', 'I64', 'U8', 'BF16') as fc.Arbitrary<'U8'>,
      shape: fc.array(fc.nat(3), { maxLength: 3 }),
    }),
    { selector: ({ name }) => name, minLength: 1, maxLength: 8 },
  );
  const bits = { F32: 4, I64: 8, U8: 1, BF16: 2 };

  it('for any tensors and sizes', async () => {
    const folder = temporaryPath('any');
    await fc.assert(
      fc.asyncProperty(tensors, fc.nat(40), async (specs, maxShardSize) => {
        const usable = specs.filter(({ name }) => name !== '__metadata__' && name.isWellFormed());
        fc.pre(usable.length > 0);
        const given = usable.map(({ name, dtype, shape }, i) => {
          const length = shape.reduce((count, size) => count * size, bits[dtype as 'U8']);
          return [name, { dtype, shape, data: new Uint8Array(length).fill(i + 1) }] as const;
        });
        const saved = await saveCheckpoint(folder, given, { maxShardSize, durable: false });
        const expected = given.map(([name, { dtype, shape, data }]) => [
          name,
          [dtype, shape, Buffer.from(data).toString('hex')],
        ]);
        expect(await contentOf(folder)).toEqual(Object.fromEntries(expected));
        expect(readdirSync(folder).sort()).toEqual(
          [...saved.files, ...(saved.index === null ? [] : [saved.index])].sort(),
        );
      }),
      { numRuns: 40 },
    );
  });

  it('with a variant, beside the others', async () => {
    const folder = temporaryPath('variants');
    await saveCheckpoint(folder, [['a', filled(1, 1)]], { durable: false });
    const options = { variant: 'fp16', maxShardSize: 4, durable: false };
    const { index } = await saveCheckpoint(folder, equalTensors(4, 'a', 'b'), options);
    expect(index).toBe('model.safetensors.index.fp16.json');
    expect(Object.keys(await contentOf(folder, 'fp16'))).toEqual(['a', 'b']);
    expect(Object.keys(await contentOf(folder))).toEqual(['a']);
    await saveCheckpoint(folder, equalTensors(4, 'c'), { variant: 'fp16', durable: false });
    expect(Object.keys(await contentOf(folder, 'fp16'))).toEqual(['c']);
    expect(readdirSync(folder)).toEqual(['model.fp16.safetensors', 'model.safetensors']);
  });

  it('from streams, one at a time, in the order of the files', async () => {
    const folder = temporaryPath('streams');
    const calls: string[] = [];
    const stream = (name: string): NewTensorOf<Dtype, TensorStream> => ({
      dtype: 'U8',
      shape: [2],
      data: async function* () {
        calls.push(`${name} begins`);
        yield new Uint8Array([1]);
        await new Promise((resolve) => setImmediate(resolve));
        yield new Uint8Array([2]);
        calls.push(`${name} ends`);
      },
    });
    const given: Tensors = ['c', 'a', 'b'].map((name) => [name, stream(name)]);
    await saveCheckpoint(folder, given, { maxShardSize: 2, durable: false });
    expect(calls).toEqual(['c', 'a', 'b'].flatMap((name) => [`${name} begins`, `${name} ends`]));
    expect((await contentOf(folder))['b']).toEqual(['U8', [2], '0102']);
  });

  it('over the files that the tensors are mapped from, which stay readable', async () => {
    const folder = temporaryPath('mapped');
    const options = { maxShardSize: 8, durable: false };
    await saveCheckpoint(folder, equalTensors(8, 'a', 'b', 'c'), options);
    const before = await contentOf(folder);
    using checkpoint = safeOpen(folder);
    const views = [...checkpoint].map(([, tensor]) => tensor.bytes.slice());
    const changed = checkpoint.getTensor('b').data as Float32Array;
    changed[0] = 7;
    await saveCheckpoint(folder, checkpoint, options);
    const after = await contentOf(folder);
    expect({ ...after, b: before['b'] }).toEqual(before);
    expect(after['b']?.[2]).toBe('0000e0400000803f');
    expect(views.length).toBe(3);
    expect([...checkpoint.getTensor('c').data]).toEqual([2, 2]);
  });
});

describe('tensors that share memory', () => {
  it('are all written by default', async () => {
    const folder = temporaryPath('copy');
    const { dropped, totalSize } = await saveCheckpoint(folder, tied(), { durable: false });
    expect([...dropped]).toEqual([]);
    expect(totalSize).toBe(16);
    expect(Object.keys(await contentOf(folder)).length).toBe(4);
  });

  it.each([undefined, 4])(
    'are written once with dedupe (maxShardSize %s)',
    async (maxShardSize) => {
      const folder = temporaryPath('dedupe');
      const options = { shared: 'dedupe', maxShardSize, durable: false } as const;
      const { dropped, overlaps } = await saveCheckpoint(folder, tied(), options);
      expect([...dropped]).toEqual([['shared_2', 'shared_1']]);
      expect(overlaps).toEqual([]);
      using checkpoint = safeOpen(folder);
      expect(checkpoint.keys()).toEqual(['shared_1', 'unique_1', 'unique_2']);
      expect([...checkpoint.getTensor('shared_2').data]).toEqual([1]);
    },
  );

  it('are written under a name of which the metadata cannot tell', async () => {
    const folder = temporaryPath('unrecordable');
    const data = new Float32Array([1]);
    const names = ['a', 'format', 'total_size', 'mine'];
    const given = names.map((name) => [name, { dtype: 'F32', shape: [1], data }] as const);
    const { dropped, overlaps, unrecorded } = await saveCheckpoint(folder, given, {
      shared: 'dedupe',
      metadata: { mine: '1' },
      durable: false,
    });
    expect([dropped.size, unrecorded]).toEqual([0, []]);
    expect(overlaps).toEqual(['format', 'mine', 'total_size'].map((name) => [name, 'a']));
    expect(Object.keys(await contentOf(folder))).toEqual([...names].sort());
  });

  it('are refused with error, and nothing is written', async () => {
    const folder = temporaryPath('refused');
    await expect(saveCheckpoint(folder, tied(), { shared: 'error' })).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_SHARED_TENSORS' }),
    );
    expect(() => readdirSync(folder)).toThrow('ENOENT');
  });
});
