/** Random files that are not a model, and files like them that are. */
import type { Dtype } from '../support/api.js';
import type { Entry } from '../support/make-file.js';
import { countedBytes, fileBytes } from '../support/make-file.js';
import type { Random } from '../support/random.js';

/** A folder, the file or index to open in it, and the code of the error; undefined for a model. */
export interface Case {
  readonly about: string;
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly name: string;
  readonly code: 'SAFETENSORS_DISTRIBUTED_PART' | 'SAFETENSORS_DELTA' | undefined;
  /** Whether the bytes of the file show it, without its name and its siblings. */
  readonly isInHeader: boolean;
  /** Whether its name shows it; for a file without siblings by default. */
  readonly isInName?: boolean;
}

const DTYPES: readonly Dtype[] = ['F32', 'BF16', 'F16', 'I64', 'U8', 'BOOL', 'F8_E4M3'];

/** A tensor that is split along an axis, at random places. */
interface SplitTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly axis: number;
  /** The length of each rank's part along the axis. */
  readonly lengths: readonly number[];
}

function splitTensor(name: string, ranks: number, random: Random): SplitTensor {
  const shape = Array.from({ length: random.from(1, 3) }, () => random.from(1, 5));
  const axis = random.below(shape.length);
  const lengths = Array.from({ length: ranks }, () => random.from(1, 3));
  return { name, dtype: random.pick(DTYPES), shape, axis, lengths };
}

function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  return items
    .map((item) => ({ item, at: random.below(1e6) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** The metadata that torch.distributed.checkpoint writes, in any order. */
function dcpMetadata(
  offsets: ReadonlyMap<string, readonly number[]>,
  random: Random,
): Record<string, string> {
  const info = Object.fromEntries(
    Array.from(offsets, ([name, saved]) => [name, { saved_offsets: saved }]),
  );
  return Object.fromEntries(
    shuffled(
      [
        ['format', 'pt'],
        ['DCP_VERSION', '1.0'],
        ['DCP_SHARDING_INFO', JSON.stringify(info)],
      ] as const,
      random,
    ),
  );
}

/** The file of a rank. */
function rankFile(
  tensors: readonly SplitTensor[],
  rank: number,
  random: Random,
  hasKeys = true,
): Uint8Array {
  const offsets = new Map<string, readonly number[]>();
  const entries = tensors.map(({ name, dtype, shape, axis, lengths }): Entry => {
    const begin = lengths.slice(0, rank).reduce((sum, length) => sum + length, 0);
    offsets.set(
      name,
      shape.map((_, i) => (i === axis ? begin : 0)),
    );
    return { name, dtype, shape: shape.with(axis, lengths[rank] as number) };
  });
  return fileBytes(entries, hasKeys ? { metadata: dcpMetadata(offsets, random) } : {});
}

const partName = (rank: number, file = 1, count = 1): string =>
  `shard-${String(rank + 1).padStart(5, '0')}-model-${String(file).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.safetensors`;

const INDEX = 'model.safetensors.index.json';

function indexOf(shard: string, names: readonly string[], metadata: object = {}): Uint8Array {
  const weight_map = Object.fromEntries(names.map((name) => [name, shard]));
  return new TextEncoder().encode(JSON.stringify({ metadata, weight_map }));
}

/** Parts of a distributed checkpoint, as torch names them, renamed, or without metadata; and complete ones. */
export function distributedCase(random: Random): Case {
  const ranks = random.from(2, 4);
  const tensors = Array.from({ length: random.from(1, 4) }, (_, i) =>
    splitTensor(`layers.${i}.weight`, ranks, random),
  );
  const names = tensors.map(({ name }) => name);
  const rank = random.below(ranks);
  const code = 'SAFETENSORS_DISTRIBUTED_PART';
  const whole = new Map(tensors.map(({ name, shape }) => [name, shape.map(() => 0)]));
  const complete = fileBytes(
    tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
    { metadata: dcpMetadata(whole, random) },
  );
  return random.do(
    (): Case => {
      const file = random.from(1, 3);
      const name = partName(rank, file, 3);
      const files = new Map([[name, rankFile(tensors, rank, random)]]);
      const about = `rank ${rank} of ${ranks}, with the name that torch gives`;
      return { about, files, name, code, isInHeader: rank > 0 };
    },
    (): Case => {
      const name = `${random.pick(['model', 'weights', 'shard', 'rank'])}.safetensors`;
      const other = (rank + 1) % ranks;
      const files = new Map([
        [name, rankFile(tensors, rank, random)],
        [`sibling-${other}.safetensors`, rankFile(tensors, other, random)],
      ]);
      const about = `rank ${rank} of ${ranks}, renamed, with a sibling`;
      return { about, files, name, code, isInHeader: rank > 0 };
    },
    (): Case => {
      const name = partName(rank);
      const files = new Map([[name, rankFile(tensors, rank, random, false)]]);
      return { about: 'without metadata', files, name, code, isInHeader: false };
    },
    (): Case => {
      const nameOf = random.pick<(at: number) => string>([
        (at) => `model-rank-${at}-part-${random.below(2)}.safetensors`,
        (at) => `model${at}-mp${ranks}.safetensors`,
        (at) => `tp${at}_sharded_checkpoint.safetensors`,
      ]);
      const name = nameOf(rank);
      const isInName = rank > 0 || name.includes('-mp');
      const isOnly = isInName && random.chance(0.5);
      const other = (rank + 1) % ranks;
      const files = new Map([[name, rankFile(tensors, rank, random, false)]]);
      if (!isOnly) files.set(nameOf(other), rankFile(tensors, other, random, false));
      const about = `rank ${rank} by its name, ${isOnly ? 'without' : 'with'} a sibling`;
      return { about, files, name, code, isInHeader: false, isInName };
    },
    (): Case => {
      const name = random.pick([
        'model-rank-0-part-0.safetensors',
        'model0-mp1.safetensors',
        'tp0_sharded_checkpoint.safetensors',
      ]);
      const files = new Map([
        [name, rankFile(tensors, rank, random, false)],
        ['model-rank-of-all.safetensors', fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }])],
      ]);
      return { about: 'the only rank', files, name, code: undefined, isInHeader: false };
    },
    (): Case => {
      const name = 'model.safetensors';
      const text = random.pick([
        '{',
        '[]',
        '7',
        '{"a":1}',
        '{"a":{"saved_offsets":["0"]}}',
        'null',
      ]);
      const metadata = { DCP_SHARDING_INFO: text };
      const files = new Map([
        [name, fileBytes([{ name: 'a', dtype: 'U8', shape: [2] }], { metadata })],
      ]);
      return { about: `malformed: ${text}`, files, name, code, isInHeader: true };
    },
    (): Case => {
      const name = random.pick(['model-00001-of-00001.safetensors', partName(0)]);
      const files = new Map([
        [name, complete],
        [INDEX, indexOf(name, names)],
      ]);
      const about = `complete, listed in an index as ${name}`;
      return { about, files, name: INDEX, code: undefined, isInHeader: false };
    },
    (): Case => {
      const name = random.pick(['model.safetensors', 'shards.safetensors', 'a.safetensors']);
      const files = new Map([
        [name, complete],
        ['model-copy.safetensors', complete],
        ['adapter.safetensors', fileBytes([{ name: 'lora', dtype: 'U8', shape: [1] }])],
      ]);
      return { about: 'complete, next to a copy', files, name, code: undefined, isInHeader: false };
    },
    (): Case => {
      const name = 'model.safetensors';
      const other = tensors.map(({ name, dtype, shape }): Entry => {
        return { name, dtype, shape: shape.with(0, 7) };
      });
      const files = new Map([
        [name, complete],
        ['adapter_r8.safetensors', fileBytes(other, { metadata: dcpMetadata(whole, random) })],
      ]);
      const about = 'complete, next to another model with the same names';
      return { about, files, name, code: undefined, isInHeader: false };
    },
    (): Case => {
      const name = 'model.safetensors';
      const other = tensors.map(({ name, dtype, shape }): Entry => {
        return { name, dtype, shape: shape.with(0, 7) };
      });
      const files = new Map([
        [name, complete],
        [partName(0), fileBytes(other, { metadata: dcpMetadata(whole, random) })],
      ]);
      const about = 'next to a part of the first rank with other shapes';
      return { about, files, name, code, isInHeader: false, isInName: false };
    },
  );
}

const hex = (random: Random, length: number): string =>
  Array.from({ length }, () => random.below(16).toString(16)).join('');

/** Deltas of slime and of TRL, and files like them that are models. */
export function deltaCase(random: Random): Case {
  const count = random.from(1, 4);
  const names = Array.from({ length: count }, (_, i) => `layers.${i}.weight`);
  const code = 'SAFETENSORS_DELTA';
  const vectors = names.map((name): Entry => {
    return { name, dtype: 'U8', shape: [random.from(1, 40)] };
  });
  const length = random.pick([8, 32, 64]);
  /** Compressed tensors. */
  const frames = names.map((name): Entry => {
    const bytes = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, ...countedBytes(random.from(0, 40)));
    return { name, dtype: 'U8', shape: [bytes.length], bytes };
  });
  const checksums = Object.fromEntries(names.map((name) => [name, hex(random, length)]));
  const weights = names.map((name): Entry => ({ name, dtype: 'BF16', shape: [2, 3] }));
  const patch = (sparse: string): Record<string, string> => {
    return { format: 'sparse_weight_patch', version: '1', sparse, model_version: '3' };
  };
  const pairs = (values: string, indices: string): Entry[] =>
    names.flatMap((name): Entry[] => [
      { name: `${name}.${values}`, dtype: 'BF16', shape: [3] },
      { name: `${name}.${indices}`, dtype: random.pick(['U16', 'U32', 'I32']), shape: [3] },
    ]);
  const one = (
    about: string,
    bytes: Uint8Array,
    expected: Case['code'],
    name = 'step_000007.safetensors',
  ): Case => {
    return { about, files: new Map([[name, bytes]]), name, code: expected, isInHeader: true };
  };
  return random.do(
    (): Case => {
      const shard = 'model-00000-of-00001.safetensors';
      const encoding = random.pick(['xor', 'overwrite', 'xor_gap', '', 'a "quoted" name']);
      const metadata = { version: '000001', base_version: '000000', delta_encoding: encoding };
      const files = new Map([
        [shard, fileBytes(vectors, { metadata: checksums })],
        [INDEX, indexOf(shard, random.chance(0.2) ? [] : names, metadata)],
      ]);
      return { about: `index, ${encoding}`, files, name: INDEX, code, isInHeader: false };
    },
    () => one('file of a version', fileBytes(frames, { metadata: checksums }), code),
    () => one('blobs with hashes', fileBytes(vectors, { metadata: checksums }), undefined),
    () => {
      const dates = Object.fromEntries(names.map((name) => [name, '2024010100']));
      return one('frames with dates', fileBytes(frames, { metadata: dates }), undefined);
    },
    () => {
      const metadata = { delta_encoding: 'null' };
      return one('null in the file', fileBytes(weights, { metadata }), undefined);
    },
    () => {
      const encoding = random.pick(['raw', 'gap_delta', 'nvcomp_cascaded']);
      const metadata = { ...patch('True'), encoding };
      return one(encoding, fileBytes(pairs('val', 'idx'), { metadata }), code);
    },
    () => {
      const metadata = { ...patch('True'), changed_params: JSON.stringify(names) };
      return one('first form of TRL', fileBytes(pairs('values', 'indices'), { metadata }), code);
    },
    () => {
      const entries: Entry[] = [
        { name: '__positions__', dtype: 'U8', shape: [7] },
        { name: '__values__', dtype: random.pick(['U8', 'BF16']), shape: [2] },
      ];
      const metadata = {
        encoding: random.pick(['indices', 'deltas', 'deltas_zstd']),
        params: '[]',
      };
      for (let i = random.pick([0, 70]); i > 0; i--) {
        entries.push({ name: `other.${i}`, dtype: 'F32', shape: [1] });
      }
      const options = random.chance(0.3) ? {} : { metadata };
      return one('form of slime before', fileBytes(shuffled(entries, random), options), code);
    },
    () => one('complete, of TRL', fileBytes(weights, { metadata: patch('False') }), undefined),
    () => one('bytes', fileBytes(vectors, { metadata: { format: 'pt' } }), undefined),
    () => one('bytes without metadata', fileBytes(vectors), undefined),
    () => {
      const entries = [...vectors, { name: 'norm', dtype: 'F32', shape: [2] } as const];
      return one('more than bytes', fileBytes(entries, { metadata: checksums }), undefined);
    },
    () => one('pairs', fileBytes(pairs('values', 'indices')), undefined),
    () => {
      const files = new Map([
        ['model-00001-of-00001.safetensors', fileBytes(weights)],
        [INDEX, indexOf('model-00001-of-00001.safetensors', names, { delta_encoding: null })],
      ]);
      return { about: 'null', files, name: INDEX, code: undefined, isInHeader: false };
    },
  );
}
