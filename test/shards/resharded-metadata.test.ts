import { describe, expect, it } from 'vitest';
import { reshardMetadata } from '../../src/shards/resharded-metadata.js';
import { splitStateDictIntoShards } from '../../src/shards/split.js';

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

describe('shards', () => {
  it('to shards: the index keeps values of any type, with a new total_size', () => {
    const { file, index, conflicts } = reshardMetadata([PT, PT], INDEX, TWO);
    expect([file, conflicts]).toEqual([PT, []]);
    expect([...(index ?? [])]).toEqual([
      ['total_size', 2],
      ['lm_head.weight', 'embed'],
      ['total_parameters', 12],
      ['config', new Map(Object.entries({ 10: [true, null], a: 'é' }))],
    ]);
  });

  it('to a file: strings as they are, others as JSON text, no total_size', () => {
    expect(reshardMetadata([PT, null], INDEX, ONE)).toEqual({
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
    const { file, conflicts } = reshardMetadata(files, null, ONE);
    expect(file).toEqual(new Map([...PT, ['author', 'x']]));
    expect(conflicts).toEqual(['title']);
  });

  it('win over the index in a single file', () => {
    const index = { metadata: new Map([['format', 'np']]), jsonKeys: new Set<string>() };
    const { file, conflicts } = reshardMetadata([PT, PT], index, ONE);
    expect([file, conflicts]).toEqual([PT, ['format']]);
  });
});

describe('a file', () => {
  it('to shards: its format into each of them, all else into the index', () => {
    const given = new Map([['b', 'a'], ...PT, ['total_size', '7']]);
    expect(reshardMetadata([given], null, TWO)).toEqual({
      file: PT,
      index: new Map<string, unknown>([
        ['total_size', 2],
        ['b', 'a'],
      ]),
      conflicts: [],
    });
  });

  it('without metadata stays without', () => {
    expect(reshardMetadata([null], null, ONE).file).toBeNull();
    expect(reshardMetadata([null], null, TWO).file).toBeNull();
    expect(reshardMetadata([new Map()], null, ONE).file).toEqual(new Map());
  });
});
