import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Sized, SplitOptions } from '../../../src/file/shards/split.js';
import { parse, saveCheckpoint, serialize, splitStateDictIntoShards } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { foreign } from '../../support/other-realm.js';
import { findPython, isSkipped, titleWith } from '../../support/python.js';
import { askHub, type SplitAnswer, type SplitQuestion, shardingCases } from './sharding-cases.js';

const python = findPython('huggingface_hub');

const REFUSAL = expect.objectContaining({ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' });

/** Cases with a result in Python that are refused here: patterns and limits that nobody means. */
const UNSUPPORTED = [
  'limit-zero-string',
  'limit-negative',
  'limit-negative-string',
  'pattern-subdir',
  'pattern-no-suffix-single',
  'pattern-escaped',
];

interface Entry extends Sized {
  readonly storage: string | undefined;
}

function ask(question: SplitQuestion): SplitAnswer {
  const tensors = question.tensors.map(({ name, nbytes, storage, string }) => {
    const entry: Entry = { byteLength: nbytes ?? Number.NaN, storage };
    return [name, string ?? entry] as const;
  });
  const { filenameToTensors, tensorToFilename, metadata, isSharded } = splitStateDictIntoShards(
    tensors,
    {
      maxShardSize: question.max_shard_size,
      filenamePattern: question.filename_pattern,
      storageId: (_, tensor) => tensor.storage ?? null,
    },
  );
  return {
    is_sharded: isSharded,
    filename_to_tensors: [...filenameToTensors],
    tensor_to_filename: [...tensorToFilename],
    metadata,
  };
}

describe('the cases of huggingface_hub', () => {
  it('are all here', () => {
    expect(shardingCases.sharding.length).toBeGreaterThan(90);
    const ids = shardingCases.sharding.map(({ id }) => id);
    expect(UNSUPPORTED.filter((id) => !ids.includes(id))).toEqual([]);
  });

  it.each(shardingCases.sharding)('$id: $note', ({ id, input, expected }) => {
    // Bytes are a unit here.
    if (id === 'text-bytes') expect(ask(input).filename_to_tensors).toHaveLength(1);
    else if (expected === undefined || UNSUPPORTED.includes(id))
      expect(() => ask(input)).toThrow(REFUSAL);
    else expect(ask(input)).toEqual(expected);
  });
});

const question: fc.Arbitrary<SplitQuestion> = fc.record({
  tensors: fc
    .uniqueArray(
      fc.record(
        {
          name: fc.string({ unit: 'grapheme', maxLength: 4 }),
          nbytes: fc.oneof(fc.constantFrom(0, 9, 10, 11), fc.nat(30)),
          storage: fc.constantFrom('A', 'B', 'C'),
          string: fc.constant('x'),
        },
        { requiredKeys: ['name', 'nbytes'] },
      ),
      { selector: ({ name }) => name, maxLength: 24 },
    )
    .map((tensors) =>
      // Most tensors are no texts, and most have separate memory.
      tensors.map(({ name, nbytes, storage, string }, i) => ({
        name,
        nbytes,
        ...(storage !== undefined && i % 3 === 0 ? { storage } : {}),
        ...(string !== undefined && i % 7 === 0 ? { string } : {}),
      })),
    ),
  max_shard_size: fc.constantFrom<number | string>(0, 1, 10, 10.5, 40, '0.01KB', 10 ** 9),
  filename_pattern: fc.constantFrom('model{suffix}.safetensors', 'x{suffix}'),
});

describe('any state dict', () => {
  it('finds each name once, in shards that hold the limit', () => {
    fc.assert(
      fc.property(question, (asked) => {
        const split = ask(asked);
        const written = asked.tensors.filter(({ string }) => string === undefined);
        const inShards = split.filename_to_tensors.flatMap(([, names]) => names);
        expect(inShards.toSorted()).toEqual(written.map(({ name }) => name).toSorted());
        expect(split.tensor_to_filename).toEqual(
          split.filename_to_tensors.flatMap(([file, names]) => names.map((name) => [name, file])),
        );

        const stored = written.filter(
          ({ storage }, i) =>
            storage === undefined || written.findIndex((other) => other.storage === storage) === i,
        );
        const sizeOf = new Map(stored.map(({ name, nbytes = 0 }) => [name, nbytes]));
        let total = 0;
        const limit = asked.max_shard_size === '0.01KB' ? 10 : Number(asked.max_shard_size);
        for (const [, names] of split.filename_to_tensors) {
          const first = names.filter((name) => sizeOf.has(name));
          const size = first.reduce((sum, name) => sum + (sizeOf.get(name) ?? 0), 0);
          if (size > limit) expect(first).toHaveLength(1);
          // Within a shard those with a separate place keep their order.
          const order = stored.map(({ name }) => name).filter((name) => first.includes(name));
          expect(first).toEqual(order);
          total += size;
        }
        expect(split.metadata.total_size).toBe(total);
        expect(split.is_sharded).toBe(split.filename_to_tensors.length > 1);
      }),
      { numRuns: 300 },
    );
  });

  it.skipIf(isSkipped(python))(titleWith(python, 'is split as Python splits it'), () => {
    const questions = fc.sample(question, 500);
    const answers = askHub<SplitAnswer>(python, 'split', questions);
    expect(answers).toHaveLength(questions.length);
    answers.forEach(({ result }, i) => {
      expect(ask(questions[i] as SplitQuestion)).toEqual(result);
    });
  });
});

describe('splitStateDictIntoShards', () => {
  const bytes = (byteLength: number): Sized => ({ byteLength });

  it('takes a Map, and has the defaults of the Hub', () => {
    const tensors = new Map([
      ['a', bytes(5e9)],
      ['b', bytes(1)],
      ['c', bytes(5e9)],
    ]);
    expect(splitStateDictIntoShards(tensors)).toEqual({
      filenameToTensors: new Map([
        ['model-00001-of-00003.safetensors', ['a']],
        ['model-00002-of-00003.safetensors', ['b']],
        ['model-00003-of-00003.safetensors', ['c']],
      ]),
      tensorToFilename: new Map([
        ['a', 'model-00001-of-00003.safetensors'],
        ['b', 'model-00002-of-00003.safetensors'],
        ['c', 'model-00003-of-00003.safetensors'],
      ]),
      metadata: { total_size: 10_000_000_001 },
      isSharded: true,
    });
  });

  it('takes a Map of another realm', () => {
    const tensors = foreign<Map<string, Uint8Array>>("new Map([['a', new Uint8Array(3)]])");
    const { filenameToTensors } = splitStateDictIntoShards(tensors);
    expect([...filenameToTensors.values()]).toEqual([['a']]);
  });

  it('makes one file when there is no limit', () => {
    const tensors = new Map([
      ['a', bytes(5e9)],
      ['b', bytes(5e9)],
    ]);
    const split = splitStateDictIntoShards(tensors, { maxShardSize: Number.POSITIVE_INFINITY });
    expect([...split.filenameToTensors]).toEqual([['model.safetensors', ['a', 'b']]]);
    expect(split.isSharded).toBe(false);
  });

  it('keeps names that objects treat in their own way', () => {
    const names = ['__proto__', '10', 'constructor', '2', '', '__metadata__', 'a'];
    const { tensorToFilename } = splitStateDictIntoShards(
      names.map((name) => [name, new Uint8Array(4)] as const),
      { maxShardSize: 4 },
    );
    expect([...tensorToFilename.keys()]).toEqual(names);
    expect(new Set(tensorToFilename.values()).size).toBe(names.length);
  });

  it('takes typed arrays with their ArrayBuffer as key, and does not ask a later size', () => {
    const buffer = new ArrayBuffer(8);
    const tensors: [string, Uint8Array | Float32Array][] = [
      ['a', new Uint8Array(buffer)],
      ['b', new Float32Array(1)],
      ['c', new Float32Array(buffer)],
    ];
    const { filenameToTensors, metadata } = splitStateDictIntoShards(tensors, {
      maxShardSize: 8,
      storageId: (_, { buffer }) => buffer,
    });
    expect([...filenameToTensors.values()]).toEqual([['a', 'c'], ['b']]);
    expect(metadata).toEqual({ total_size: 12 });
    const unsized = {
      get byteLength(): number {
        throw new Error('asked');
      },
    };
    const pairs: [string, Sized][] = [
      ['a', bytes(1)],
      ['b', unsized],
    ];
    const split = splitStateDictIntoShards(pairs, { storageId: () => 0 });
    expect([...split.tensorToFilename.keys()]).toEqual(['a', 'b']);
  });

  it('gives no files for no tensors', () => {
    expect(splitStateDictIntoShards([])).toEqual({
      filenameToTensors: new Map(),
      tensorToFilename: new Map(),
      metadata: { total_size: 0 },
      isSharded: false,
    });
  });

  it('splits hundreds of thousands of tensors into 100 001 shards', () => {
    const perShard = nightly(10, 2);
    const count = 100_001 * perShard;
    const tensors = Array.from({ length: count }, (_, i) => [`t${i}`, bytes(1)] as const);
    const { filenameToTensors, tensorToFilename } = splitStateDictIntoShards(tensors, {
      maxShardSize: perShard,
    });
    expect(filenameToTensors.size).toBe(100_001);
    expect(tensorToFilename.size).toBe(count);
    expect(tensorToFilename.get('t0')).toBe('model-00001-of-100001.safetensors');
    expect(tensorToFilename.get(`t${count - 1}`)).toBe('model-100001-of-100001.safetensors');

    // Every memory has two names, far from each other.
    const pairs = splitStateDictIntoShards(tensors.slice(0, 200_000), {
      maxShardSize: 10,
      storageId: (name) => Number(name.slice(1)) % 100_000,
    });
    expect(pairs.filenameToTensors.size).toBe(10_000);
    expect(pairs.tensorToFilename.get('t199999')).toBe('model-10000-of-10000.safetensors');
  });

  it('takes what saveCheckpoint takes', async () => {
    const kept = parse(serialize({ kept: { dtype: 'U8', shape: [3], data: new Uint8Array(3) } }));
    const tensors = {
      kept: kept.getTensor('kept'),
      made: { dtype: 'F32', shape: [2], data: new Float32Array(2) },
      streamed: { dtype: 'BF16', shape: [2, 2], data: () => new Uint8Array(8) },
    } as const;
    const options = { maxShardSize: 8 };
    for (const given of [tensors, new Map(Object.entries(tensors)), Object.entries(tensors)]) {
      const { files, totalSize } = await saveCheckpoint(temporaryPath('split'), given, {
        ...options,
        dryRun: true,
      });
      const { filenameToTensors, metadata } = splitStateDictIntoShards(given, options);
      expect(metadata.total_size).toBe(totalSize);
      expect([...filenameToTensors.values()]).toEqual([['kept'], ['made'], ['streamed']]);
      const planned = files.filter(({ tensors }) => tensors !== null);
      expect([...filenameToTensors]).toEqual(planned.map(({ name, tensors }) => [name, tensors]));
    }
  });

  it.each<[string, unknown, SplitOptions<Sized>, string]>([
    ['a buffer', new Uint8Array(1), {}, 'ERR_INVALID_ARG_TYPE'],
    [
      'a dtype that does not exist',
      { a: { dtype: 'F33', shape: [] } },
      {},
      'SAFETENSORS_INVALID_TENSOR_VIEW',
    ],
    ['a text', 'ab', {}, 'ERR_INVALID_ARG_TYPE'],
    ['null', null, {}, 'ERR_INVALID_ARG_TYPE'],
    ['no pairs', ['ab'], {}, 'ERR_INVALID_ARG_TYPE'],
    ['a name that is no text', [[5, bytes(1)]], {}, 'ERR_INVALID_ARG_TYPE'],
    ['a tensor without a size', [['a', {}]], {}, 'ERR_INVALID_ARG_TYPE'],
    ['null as a tensor', [['a', null]], {}, 'ERR_INVALID_ARG_TYPE'],
    ['a bigint as a size', [['a', { byteLength: 1n }]], {}, 'ERR_INVALID_ARG_TYPE'],
    ['a negative size', [['a', bytes(-1)]], {}, 'ERR_OUT_OF_RANGE'],
    ['half a byte', [['a', bytes(0.5)]], {}, 'ERR_OUT_OF_RANGE'],
    ['NaN bytes', [['a', bytes(Number.NaN)]], {}, 'ERR_OUT_OF_RANGE'],
    [
      'too many bytes',
      [
        ['a', bytes(2 ** 52)],
        ['b', bytes(2 ** 52)],
      ],
      {},
      'ERR_OUT_OF_RANGE',
    ],
    [
      'a name twice',
      [
        ['a', bytes(1)],
        ['a', bytes(1)],
      ],
      {},
      'ERR_OUT_OF_RANGE',
    ],
    ['options other than an object', [], '5GB' as unknown as object, 'ERR_INVALID_ARG_TYPE'],
    ['a key for all', [], { storageId: 5 as unknown as () => null }, 'ERR_INVALID_ARG_TYPE'],
    ['a size without a unit', [], { maxShardSize: '5' }, 'ERR_OUT_OF_RANGE'],
    ['a pattern without a place', [], { filenamePattern: 'model' }, 'ERR_OUT_OF_RANGE'],
  ])('refuses %s', (_, tensors, options, code) => {
    expect(() => splitStateDictIntoShards(tensors as [], options)).toThrow(
      expect.objectContaining({ code }),
    );
  });
});
