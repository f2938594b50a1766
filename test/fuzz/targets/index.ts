/** The index of a checkpoint: the same members as JSON.parse reads; no name of a shard leads out of the folder. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import {
  type Checkpoint,
  SafetensorsError,
  safeOpen,
  safeOpenAsync,
  serialize,
} from 'safetensors-mmap';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';

const SHARDS: readonly string[] = [
  'one.safetensors',
  'sub/two.safetensors',
  'model-00001-of-00002.safetensors',
];

const WORDS: readonly string[] = [
  '"weight_map":{', '"metadata":{', '"total_size":', '"one.safetensors"', '"sub/two.safetensors"', '"./one.safetensors"',
  '"../one.safetensors"', '"/one.safetensors"', '"sub/../one.safetensors"', '"C:one.safetensors"', '"one.safetensors\\u0000"',
  '"\\u002e\\u002e/x"', '"con.safetensors"', '"a\\\\b"', '"a":', '"b":', '"__proto__":', '"\\ud800":', '{', '}', '[', ']',
  ',', ':', '"', '\\', 'null', '1e400', ' ', '\n', '\xff', '\xef\xbb\xbf', '"a":"one.safetensors",',
]; // biome-ignore format: a table

function shardOf(names: readonly string[]): Uint8Array {
  const tensor = { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } as const;
  return serialize(Object.fromEntries(names.map((name) => [name, tensor])));
}

let folder: string;

function begin(place: Place): void {
  folder = join(place.folder, 'checkpoint');
  mkdirSync(join(folder, 'sub'), { recursive: true });
  for (const [i, shard] of SHARDS.entries()) {
    writeFileSync(join(folder, shard), shardOf([['a', '__proto__'], ['b'], ['c', 'é']][i] ?? []));
  }
}

function madeIndex(random: Random): Buffer {
  const entries = Array.from({ length: random.below(6) }, () => {
    return `"${random.pick(['a', 'b', 'c', '__proto__', 'é', 'd'])}": "${random.pick(SHARDS)}"`;
  });
  const sizes = random.pick(['', '"metadata": {"total_size": 5},', '"metadata": {},', '"x": [1],']);
  return Buffer.from(`{${sizes}"weight_map": {${entries.join(', ')}}}`);
}

function make(random: Random, corpus: Corpus): Buffer {
  const index = random.chance(0.4) ? madeIndex(random) : corpus.pick(random);
  return random.chance(0.2) ? index : BYTES.mutate(index, corpus.pick(random), random, WORDS);
}

/** An error of this package, or of the system, which has a code. */
function codeOf(error: unknown): string {
  const { code, syscall } = Object(error) as Record<string, unknown>;
  if (error instanceof SafetensorsError) return error.code;
  if (typeof code === 'string' && typeof syscall === 'string') return code;
  throw error;
}

/** Returns names and shards, and reads a byte of each tensor. */
function readAll(checkpoint: Checkpoint): {
  code: string | undefined;
  names: string[];
  shards: readonly string[];
} {
  try {
    const names = checkpoint.keys();
    let code: string | undefined;
    for (const name of names) {
      try {
        checkpoint.getTensor(name).bytes.at(0);
      } catch (error) {
        code ??= codeOf(error);
      }
    }
    return { code, names, shards: checkpoint.shards };
  } finally {
    checkpoint.close();
  }
}

function compareWithJson(input: Buffer, names: readonly string[], shards: readonly string[]): void {
  const { weight_map: map } = JSON.parse(input.toString()) as {
    weight_map: Record<string, string>;
  };
  const theirs = Object.keys(map).toSorted();
  if (JSON.stringify(names.toSorted()) !== JSON.stringify(theirs)) {
    throw new Problem(`names are ${JSON.stringify(names)}, JSON has ${JSON.stringify(theirs)}`);
  }
  const normal = new Set(Object.values(map).map((path) => posix.normalize(path)));
  const others = shards.filter((shard) => !normal.has(shard));
  const out = [...normal].filter(
    (path) => path.startsWith('..') || posix.isAbsolute(path) || path.includes('\0'),
  );
  if (others.length > 0 || out.length > 0) {
    throw new Problem(`shards ${JSON.stringify(shards)}, JSON has ${JSON.stringify([...normal])}`);
  }
}

async function check(input: Buffer): Promise<string> {
  writeFileSync(join(folder, 'model.safetensors.index.json'), input);
  const outcome = await safeOpenAsync(folder).then(readAll, codeOf);
  if (typeof outcome !== 'string') compareWithJson(input, outcome.names, outcome.shards);
  let sync: typeof outcome;
  try {
    sync = readAll(safeOpen(folder));
  } catch (error) {
    sync = codeOf(error);
  }
  // The asynchronous function opens all shards, and finds the faults that the other finds when a tensor is asked for.
  if (
    typeof sync === 'string'
      ? sync !== outcome
      : sync.code === undefined && typeof outcome === 'string'
  ) {
    throw new Problem(`${JSON.stringify(sync)}, but asynchronously ${JSON.stringify(outcome)}`);
  }
  return typeof outcome === 'string' ? outcome : (outcome.code ?? 'tensors');
}

export const index: Target = {
  name: 'index',
  about: 'the index of a checkpoint, opened both ways, with JSON.parse',
  sources:
    /^file\/(shards\/(checkpoint-index|contents|shard-paths)|checkpoint\/(open|catalog|find-files|lazy-shards))/,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 64 * 2 ** 20 },
  batchLength: 300,
  outcomes: ['tensors', 'SAFETENSORS_INVALID_INDEX', 'SAFETENSORS_UNSAFE_SHARD_NAME'],
  asksPythonOf: 0,
  begin,
  seeds: () => [
    Buffer.from(
      '{"metadata": {"total_size": 3}, "weight_map": {"a": "one.safetensors", "b": "sub/two.safetensors"}}',
    ),
    Buffer.from('{"weight_map": {"__proto__": "./one.safetensors", "a": "one.safetensors"}}'),
    Buffer.from('{"weight_map": {}}'),
  ],
  make,
  check,
};
