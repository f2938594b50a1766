/** Metadata, and all of saving that needs no disk: what is dropped, split, named and recorded. */
import { describe, expect, it } from 'vitest';
import { DEFAULT_FILENAME_PATTERN, FilenamePattern } from '../../src/shards/file-names.js';
import { encodeIndex } from '../../src/shards/index-writer.js';
import { checkpointMetadata } from '../../src/shards/metadata.js';
import { planSharing } from '../../src/shards/shared-tensors.js';
import { splitStateDictIntoShards } from '../../src/shards/split.js';
import type { TensorMemory } from '../../src/shards/tensor-extents.js';
import { shardingCases, view } from './sharding-cases.js';

/** Tensors of `byteLength` bytes, each with memory of its own. */
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

/** What the folder of a case gets: metadata and names of the tensors, or the text of the index. */
function save(input: (typeof shardingCases.save)[number]['input']): Map<string, unknown> {
  const tensors = STATE_DICTS[input.state_dict] ?? [];
  const isPickle = input.safe_serialization === false;
  const discardNames = new Set(input.shared_tensors_to_discard);
  const { kept, dropped } = planSharing(tensors, isPickle ? 'copy' : 'python', { discardNames });
  const pattern =
    input.filename_pattern ?? (isPickle ? 'pytorch_model{suffix}.bin' : DEFAULT_FILENAME_PATTERN);
  const split = splitStateDictIntoShards(
    tensors
      .filter(({ name }) => kept.includes(name))
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
  const cases = shardingCases.save.filter(({ expected_error: error }) => error === undefined);

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
