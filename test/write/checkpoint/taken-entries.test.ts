/** Shards that have other tensors than the index names: what a rewrite takes of them, and what it lists. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { convertStream } from '../../../src/write/convert/convert-stream.js';
import { downloadFrom, useHub } from '../../remote/download/downloads.js';
import { convert, loadFile, parse } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261129);
const COUNT = 12;
const NAMES = ['a', 'b', 'c', 'd', 'e'];

/** The values are unlike in all shards. */
const valueIn = (name: string, shard: number): number => 10 * NAMES.indexOf(name) + shard;

interface MadeModel {
  readonly files: Readonly<Record<string, string | Uint8Array>>;
  /** Values by name. */
  readonly taken: Readonly<Record<string, number>>;
  readonly duplicates: readonly string[];
}

const shardName = (shard: number): string => `model-0000${shard + 1}-of-00003.safetensors`;

/** Three shards, each with some of the names; the index names one place of most of them. */
function makeModel(number: number): MadeModel {
  const random = new Random(SEED, number);
  const placesOf = NAMES.map((name) => {
    const places = [0, 1, 2].filter(() => random.chance(0.5));
    return { name, places: places.length === 0 ? [random.below(3)] : places };
  });
  const files: Record<string, string | Uint8Array> = {};
  const taken: Record<string, number> = {};
  // All shards must be in the index, whose order is theirs.
  const shards = [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
  ][number % 3] as number[];
  const weightMap = Object.fromEntries(shards.map((shard) => [`mark${shard}`, shardName(shard)]));
  for (const { name, places } of placesOf) {
    const isListed = name === 'a' || random.chance(0.7);
    // The index may also name a shard that lacks the tensor, as long as another has it.
    const listed = random.chance(0.2) ? random.below(3) : random.pick(places);
    if (isListed) weightMap[name] = shardName(listed);
    const first = shards.find((shard) => places.includes(shard));
    const shard = isListed && places.includes(listed) ? listed : first;
    taken[name] = valueIn(name, shard as number);
  }
  for (const shard of [0, 1, 2]) {
    const own = placesOf.filter(({ places }) => places.includes(shard)).map(({ name }) => name);
    const marks = [...own, `mark${shard}`];
    taken[`mark${shard}`] = -1;
    const entries = marks.map((name) => {
      const value = name.startsWith('mark') ? -1 : valueIn(name, shard);
      const bytes = new Uint8Array(Float32Array.of(value, value).buffer);
      return { name, dtype: 'F32', shape: [2], bytes } as const;
    });
    files[shardName(shard)] = fileBytes(entries);
  }
  files['model.safetensors.index.json'] = JSON.stringify({ metadata: {}, weight_map: weightMap });
  const duplicates = placesOf.filter(({ places }) => places.length > 1).map(({ name }) => name);
  return { files, taken, duplicates };
}

const models = Array.from({ length: COUNT }, (_, number) => makeModel(number));
const hub = useHub(
  Object.fromEntries(models.map(({ files }, number) => [`org/m${number}`, { files }])),
);

const firstValues = (
  tensors: Iterable<readonly [string, { toFloat32(): Float32Array }]>,
): Record<string, number> =>
  Object.fromEntries(Array.from(tensors, ([name, tensor]) => [name, tensor.toFloat32()[0] ?? 0]));

it.each(models.map((model, number) => ({ ...model, number })))(
  'model $number: every name is taken once, and names of several shards are listed',
  async ({ files, taken, duplicates, number }) => {
    const source = temporaryPath('source');
    mkdirSync(source);
    for (const [name, content] of Object.entries(files)) writeFileSync(join(source, name), content);
    const doors = {
      reshard: (to: string) => convert(source, to, { durable: false }),
      'convert into a folder with a cast': (to: string) =>
        convert(source, to, { durable: false, dtype: 'F16' }),
      convert: (to: string) => convert(source, to, { durable: false }),
      'convert, dequantized': (to: string) =>
        convert(source, to, { durable: false, dequantize: 'F32' }),
      'a dry run of convert': (to: string) => convert(source, to, { dryRun: true }),
      download: (to: string) =>
        downloadFrom(hub(), `hf://org/m${number}`, to, { dtype: () => 'F16' }),
    };
    for (const [door, write] of Object.entries(doors)) {
      const about = `seed ${SEED}, model ${number}, ${door}`;
      const to = temporaryPath(door);
      const report = await write(to);
      expect([...report.duplicates].sort(), about).toEqual(duplicates);
      expect(report.excluded, about).toEqual([]);
      if (door !== 'a dry run of convert') {
        expect(firstValues(loadFile(to)), about).toEqual(taken);
      }
    }
    const { stream, duplicates: listed } = await convertStream(source);
    const pieces: Uint8Array[] = [];
    for await (const piece of stream) pieces.push(piece);
    const written = parse(Buffer.concat(pieces));
    expect([firstValues(written), [...listed].sort()]).toEqual([taken, duplicates]);
  },
);
