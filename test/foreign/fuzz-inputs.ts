/** The inputs of the fuzzer: each is made of a seed and its number. */
import { ForeignFormatError } from '../../src/errors/errors.js';
import { readArchive } from '../../src/foreign/zip/read-archive.js';
import { readEntry } from '../../src/foreign/zip/read-entry.js';
import { type ArchiveFile, changeBytes, writeArchive, writeFaultyArchive } from './made-archive.js';
import { makeArray, makeArrays } from './made-arrays.js';
import { type MadeCheckpoint, makeCheckpoint } from './made-checkpoint.js';
import { mutatePickle } from './pickle-mutations.js';
import { Random } from './random.js';
import { bytesOf, FIXTURES } from './torch-fixtures.js';
import { readerOf } from './zip/archives.js';

/** One input. */
export interface FuzzInput {
  /** What it was made from, for messages. */
  readonly about: string;
  readonly bytes: Buffer;
}

/** Longer fixtures take too long for what they show. */
const MAX_FIXTURE_BYTE_LENGTH = 20_000;

interface Seed {
  readonly id: string;
  readonly bytes: Buffer;
  /** Of archives. */
  readonly files: readonly ArchiveFile[];
}

const SEEDS: readonly Seed[] = FIXTURES.map((fixture) => ({
  id: fixture.id,
  bytes: bytesOf(fixture),
}))
  .filter(({ bytes }) => bytes.length <= MAX_FIXTURE_BYTE_LENGTH && bytes.length > 0)
  .map((seed) => ({ ...seed, files: filesOf(seed.bytes) }));

// Some inflate to a thousand times their length.
const ARCHIVES = SEEDS.filter(({ files }) => {
  const byteLength = files.reduce((sum, { data }) => sum + data.length, 0);
  return byteLength > 0 && byteLength <= MAX_FIXTURE_BYTE_LENGTH;
});
const CHECKPOINTS = ARCHIVES.filter(({ files }) => files.some(isPickle));
const STREAMS = SEEDS.filter(({ id }) => id.startsWith('legacy-') || id.startsWith('evil-legacy'));

function filesOf(bytes: Buffer): ArchiveFile[] {
  const reader = readerOf(bytes);
  try {
    return Array.from(readArchive(reader, {}).entries.values(), (entry) => ({
      name: Buffer.from(entry.name, 'utf8').toString('latin1'),
      data: Buffer.from(readEntry(reader, entry, {})),
      isDeflated: entry.method === 'deflated',
    }));
  } catch (error) {
    if (error instanceof ForeignFormatError) return [];
    throw error;
  }
}

function isPickle({ name }: ArchiveFile): boolean {
  return name.endsWith('data.pkl');
}

/** Makes the input of that number. */
export function makeInput(seed: number, number: number): FuzzInput {
  const random = new Random(seed, number);
  return random.do(
    () => faultyArchive(random),
    () => faultyArchive(random),
    () => checkpointWithFaultyPickle(random),
    () => checkpointWithFaultyPickle(random),
    () => checkpointWithFaultyPickle(random),
    () => faultyStream(random),
    () => madeCheckpoint(random),
    () => madeCheckpoint(random),
    () => madeCheckpoint(random),
    () => array(random),
    () => arrays(random),
    () => damagedFixture(random),
  );
}

function faultyArchive(random: Random): FuzzInput {
  const { id, files } = random.pick(ARCHIVES);
  return { about: `archive of ${id}`, bytes: writeFaultyArchive(files, random) };
}

function checkpointWithFaultyPickle(random: Random): FuzzInput {
  const { id, files } = random.pick(CHECKPOINTS);
  const changed = files.map((file) =>
    isPickle(file) ? { ...file, data: mutatePickle(file.data, random) } : file,
  );
  const write = random.chance(0.05) ? writeFaultyArchive : writeArchive;
  return { about: `pickle of ${id}`, bytes: write(changed, random) };
}

function faultyStream(random: Random): FuzzInput {
  const { id, bytes } = random.pick(STREAMS);
  return { about: `stream of ${id}`, bytes: changeBytes(mutatePickle(bytes, random), random) };
}

function madeCheckpoint(random: Random): FuzzInput {
  const isLegacy = random.chance(0.3);
  const made = makeCheckpoint(random, isLegacy);
  const isMutated = random.chance(0.3);
  const pickle = isMutated ? mutatePickle(made.pickle, random) : made.pickle;
  const checkpoint = { ...made, pickle };
  const about = `made ${isLegacy ? 'stream' : 'archive'}${isMutated ? ', mutated' : ''}`;
  return { about, bytes: isLegacy ? stream(checkpoint, random) : archive(checkpoint, random) };
}

function archive({ pickle, storages }: MadeCheckpoint, random: Random): Buffer {
  const file = (name: string, data: Buffer | string, isDeflated = false): ArchiveFile => ({
    name: `m/${name}`,
    data: Buffer.from(data),
    isDeflated,
  });
  const order = random.pick(['little', 'little', 'little', 'big', '']);
  const version = random.chance(0.02) ? random.pick(['0', '11', 'x', '']) : '3\n';
  return (random.chance(0.05) ? writeFaultyArchive : writeArchive)(
    [
      file('data.pkl', pickle, random.chance(0.05)),
      ...(order === '' ? [] : [file('byteorder', order)]),
      ...storages.map(({ key, bytes }) => file(`data/${key}`, bytes, random.chance(0.05))),
      file('version', version),
    ],
    random,
  );
}

/** The pickles before and after that of the object are always the same ones. */
function stream({ pickle, storages }: MadeCheckpoint, random: Random): Buffer {
  const sorted = storages.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  if (random.chance(0.05)) sorted.reverse();
  if (random.chance(0.02)) sorted.pop();
  const keys = sorted.map(({ key }) => `X${String.fromCharCode(key.length)}\0\0\0${key}`);
  const counted = sorted.flatMap(({ elementCount, bytes }) => {
    const count = Buffer.alloc(8);
    count.writeBigInt64LE(BigInt(random.chance(0.01) ? random.number(elementCount) : elementCount));
    return [count, bytes];
  });
  return Buffer.concat([
    Buffer.from('\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.', 'latin1'),
    pickle,
    Buffer.from(`\x80\x02](${keys.join('')}e.`, 'latin1'),
    ...counted,
  ]);
}

function array(random: Random): FuzzInput {
  return { about: 'made array', bytes: changeBytes(makeArray(random), random) };
}

function arrays(random: Random): FuzzInput {
  const write = random.chance(0.3) ? writeFaultyArchive : writeArchive;
  return { about: 'made arrays', bytes: write(makeArrays(random), random) };
}

function damagedFixture(random: Random): FuzzInput {
  const { id, bytes } = random.pick(SEEDS);
  const changed = Buffer.from(bytes);
  for (let count = random.from(1, 4); count > 0; count--) {
    changed[random.below(changed.length)] = random.below(256);
  }
  return { about: `damaged ${id}`, bytes: changeBytes(changed, random) };
}
