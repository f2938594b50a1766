/** Metadata, and the parts of saving that need no disk: dropping, splitting, naming and recording. */
import { describe, expect, it } from 'vitest';
import { encodeIndex } from '../../../src/file/shards/checkpoint-index-writer.js';
import { DEFAULT_FILENAME_PATTERN, FilenamePattern } from '../../../src/file/shards/file-names.js';
import { checkpointMetadata, splitMetadata } from '../../../src/file/shards/metadata.js';
import type { TensorMemory } from '../../../src/file/shards/shared-tensors.js';
import { planSharing } from '../../../src/file/shards/shared-tensors.js';
import { splitStateDictIntoShards } from '../../../src/file/shards/split.js';
import { runSync } from '../../../src/work/work.js';
import { shardingCases, view } from './sharding-cases.js';

/** Tensors of `byteLength` bytes, each with separate memory. */
function stateDict(byteLength: number, names: readonly string[]): TensorMemory[] {
  return names.map((name) =>
    view(name, 0, byteLength / 4, { storage: name, storageByteLength: byteLength }),
  );
}

const STATE_DICTS: Readonly<Record<string, TensorMemory[]>> = {
  empty: [],
  noncontig: stateDict(24, ['t']),
  plain: stateDict(8, ['layer_0', 'layer_1', 'layer_2', 'layer_3', 'layer_4']),
  three: stateDict(16, ['b', 'a', 'c']),
  tied: [
    ...stateDict(4, ['shared_1', 'unique_1', 'unique_2']),
    view('shared_2', 0, 1, { storage: 'shared_1', storageByteLength: 4 }),
  ],
  zero: [...stateDict(0, ['z']), ...stateDict(4, ['o'])],
};

/** The folder of a case: metadata and names of the tensors, or the text of the index. */
function save(input: (typeof shardingCases.save)[number]['input']): Map<string, unknown> {
  const tensors = STATE_DICTS[input.state_dict] ?? [];
  const isPickle = input.safe_serialization === false;
  const { dropped } = runSync(planSharing(tensors, isPickle ? 'copy' : 'python'));
  const pattern =
    input.filename_pattern ?? (isPickle ? 'pytorch_model{suffix}.bin' : DEFAULT_FILENAME_PATTERN);
  const split = splitStateDictIntoShards(
    tensors
      .filter(({ name }) => !dropped.has(name))
      .map((tensor) => [
        tensor.name,
        { byteLength: tensor.storageByteLength, storage: tensor.storage },
      ]),
    {
      filenamePattern: pattern,
      maxShardSize: input.max_shard_size ?? '5GB',
      storageId: (_, { storage }) => storage,
    },
  );
  const metadata = new Map(Object.entries(input.metadata ?? {}));
  const { file, index } = checkpointMetadata(split, metadata, dropped);
  const files = new Map<string, unknown>();
  for (const [filename, names] of split.filenameToTensors) {
    const written = { metadata: Object.fromEntries(file), tensors: names.toSorted() };
    files.set(filename, isPickle ? { other: true } : written);
  }
  if (index !== null) {
    const text = new TextDecoder().decode(encodeIndex(index, split.tensorToFilename));
    files.set(new FilenamePattern(pattern).indexFilename, { text });
  }
  return files;
}

describe('the save cases of huggingface_hub', () => {
  // This package has no option for the name that is kept.
  const cases = shardingCases.save.filter(
    ({ input, expected_error: error }) =>
      input.shared_tensors_to_discard === undefined && error === undefined,
  );

  it('are all here', () => {
    expect(cases.length).toBeGreaterThan(15);
  });

  it.each(cases)('$id', ({ input, expected_files: expected }) => {
    const isWritten = ([, file]: [string, { untouched?: true }]): boolean => !file.untouched;
    expect(save(input)).toEqual(new Map(Object.entries(expected).filter(isWritten)));
  });
});

describe('checkpointMetadata', () => {
  const single = splitStateDictIntoShards([['a', { byteLength: 1 }]]);
  const sharded = splitStateDictIntoShards(
    ['a', 'b'].map((name) => [name, { byteLength: 1 }]),
    { maxShardSize: 1 },
  );

  it('puts total_size first, then what the caller gave, then dropped names', () => {
    const { index } = checkpointMetadata(
      sharded,
      new Map([
        ['z', '1'],
        ['total_size', 'x'],
      ]),
      new Map([
        ['__proto__', 'a'],
        ['10', 'b'],
      ]),
    );
    expect([...(index ?? [])]).toEqual([
      ['total_size', 'x'],
      ['z', '1'],
      ['__proto__', 'a'],
      ['10', 'b'],
    ]);
  });

  it('says which dropped names have no record, and overwrites nothing for them', () => {
    const dropped = new Map([
      ['format', 'a'],
      ['total_size', 'a'],
      ['mine', 'a'],
    ]);
    const given = new Map([['mine', '1']]);
    expect(checkpointMetadata(single, given, dropped)).toEqual({
      file: new Map([
        ['format', 'pt'],
        ['mine', '1'],
        ['total_size', 'a'],
      ]),
      index: null,
      unrecorded: ['format', 'mine'],
    });
    const { file, index, unrecorded } = checkpointMetadata(sharded, given, dropped);
    expect(file).toEqual(new Map([['format', 'pt']]));
    expect(index?.get('total_size')).toBe(2);
    expect(index?.get('format')).toBe('a');
    expect(unrecorded).toEqual(['total_size', 'mine']);
  });
});

const tensors = ['a', 'b'].map((name) => [name, { byteLength: 1 }] as const);
const ONE = splitStateDictIntoShards(tensors);
const TWO = splitStateDictIntoShards(tensors, { maxShardSize: 1 });

const PT = new Map([['format', 'pt']]);
const INDEX = {
  metadata: new Map([
    ['lm_head.weight', 'embed'],
    ['total_size', '99'],
    ['total_parameters', '12'],
    ['config', '{"10": [true, null], "a": "é"}'],
  ]),
  jsonKeys: new Set(['total_size', 'total_parameters', 'config']),
};

describe('convertMetadata of shards', () => {
  it('to shards: the index keeps values of any type, with a new total_size', () => {
    const { file, index, conflicts } = splitMetadata([PT, PT], INDEX, TWO);
    expect([file, conflicts]).toEqual([PT, []]);
    expect([...(index ?? [])]).toEqual([
      ['total_size', 2],
      ['lm_head.weight', 'embed'],
      ['total_parameters', 12],
      ['config', new Map(Object.entries({ 10: [true, null], a: 'é' }))],
    ]);
  });

  it('to a file: strings as they are, others as JSON text, no total_size', () => {
    expect(splitMetadata([PT, null], INDEX, ONE)).toEqual({
      file: new Map([
        ['format', 'pt'],
        ['lm_head.weight', 'embed'],
        ['total_parameters', '12'],
        ['config', '{"10": [true, null], "a": "é"}'],
      ]),
      index: null,
      conflicts: [],
    });
  });

  it('that contradict each other lose only what they disagree about', () => {
    const files = [
      new Map([...PT, ['title', 'one'], ['author', 'x']]),
      new Map([...PT, ['title', 'two']]),
    ];
    const { file, conflicts } = splitMetadata(files, null, ONE);
    expect(file).toEqual(new Map([...PT, ['author', 'x']]));
    expect(conflicts).toEqual(['title']);
  });

  it('win over the index in a single file', () => {
    const index = { metadata: new Map([['format', 'np']]), jsonKeys: new Set<string>() };
    const { file, conflicts } = splitMetadata([PT, PT], index, ONE);
    expect([file, conflicts]).toEqual([PT, ['format']]);
  });
});

describe('convertMetadata of a file', () => {
  it('to shards: its format into each of them, all else into the index', () => {
    const given = new Map([['b', 'a'], ...PT, ['total_size', '7']]);
    expect(splitMetadata([given], null, TWO)).toEqual({
      file: PT,
      index: new Map<string, unknown>([
        ['total_size', 2],
        ['b', 'a'],
      ]),
      conflicts: [],
    });
  });

  it('without metadata stays without', () => {
    expect(splitMetadata([null], null, ONE).file).toBeNull();
    expect(splitMetadata([null], null, TWO).file).toBeNull();
    expect(splitMetadata([new Map()], null, ONE).file).toEqual(new Map());
  });
});
