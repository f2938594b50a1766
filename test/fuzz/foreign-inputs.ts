/** PyTorch and NumPy files for the fuzzer: made from a grammar, or of the corpus with something wrong. */
import {
  type ArchiveFile,
  changeBytes,
  writeArchive,
  writeFaultyArchive,
} from '../foreign/generated-archive.js';
import { makeArray, makeArrays } from '../foreign/generated-arrays.js';
import { type MadeCheckpoint, makeCheckpoint } from '../foreign/generated-checkpoint.js';
import { mutatePickle } from '../foreign/pickle-mutations.js';
import { bytesOf, FIXTURES, type Fixture } from '../foreign/torch-fixtures.js';
import type { Random } from '../support/random.js';
import { filesOf } from './archives.js';
import { BYTES } from './bytes.js';
import type { Corpus } from './target.js';

/** Longer fixtures cost more time than they are worth. */
const MAX_BYTE_LENGTH = 20_000;

/** The recorded files that are not too long; of archives also when they are inflated. */
export function recordedFiles(isWanted: (fixture: Fixture) => boolean): Buffer[] {
  return FIXTURES.filter(isWanted)
    .map(bytesOf)
    .filter((bytes) => bytes.length > 0 && bytes.length <= MAX_BYTE_LENGTH)
    .filter(
      (bytes) => filesOf(bytes).reduce((sum, { data }) => sum + data.length, 0) <= MAX_BYTE_LENGTH,
    );
}

function isPickle({ name }: ArchiveFile): boolean {
  return name.endsWith('.pkl');
}

/** An archive of the corpus as its files; a new archive if it is irregular. */
function anArchive(random: Random, corpus: Corpus): readonly ArchiveFile[] {
  const files = filesOf(corpus.pick(random));
  return files.length > 0 ? files : archiveFiles(makeCheckpoint(random, false), random);
}

/** Names, order, fields or bytes of an archive are wrong. */
export function faultyArchive(random: Random, corpus: Corpus): Buffer {
  return writeFaultyArchive(anArchive(random, corpus), random);
}

/** An archive with another pickle. */
export function archiveOfFaultyPickle(random: Random, corpus: Corpus): Buffer {
  const changed = anArchive(random, corpus).map((file) =>
    isPickle(file) ? { ...file, data: mutatePickle(file.data, random) } : file,
  );
  const write = random.chance(0.05) ? writeFaultyArchive : writeArchive;
  return write(changed, random);
}

/** A file of the corpus, changed opcode by opcode. */
export function faultyStream(random: Random, corpus: Corpus): Buffer {
  return changeBytes(mutatePickle(corpus.pick(random), random), random);
}

/** A checkpoint as torch writes it, or almost. */
export function madeCheckpoint(random: Random): Buffer {
  const isLegacy = random.chance(0.3);
  const made = makeCheckpoint(random, isLegacy);
  const pickle = random.chance(0.3) ? mutatePickle(made.pickle, random) : made.pickle;
  const checkpoint = { ...made, pickle };
  if (isLegacy) return stream(checkpoint, random);
  const write = random.chance(0.05) ? writeFaultyArchive : writeArchive;
  return write(archiveFiles(checkpoint, random), random);
}

function archiveFiles({ pickle, storages }: MadeCheckpoint, random: Random): ArchiveFile[] {
  const file = (name: string, data: Buffer | string, isDeflated = false): ArchiveFile => ({
    name: `m/${name}`,
    data: Buffer.from(data),
    isDeflated,
  });
  const order = random.pick(['little', 'little', 'little', 'big', '']);
  const version = random.chance(0.02) ? random.pick(['0', '11', 'x', '']) : '3\n';
  return [
    file('data.pkl', pickle, random.chance(0.05)),
    ...(order === '' ? [] : [file('byteorder', order)]),
    ...storages.map(({ key, bytes }) => file(`data/${key}`, bytes, random.chance(0.05))),
    file('version', version),
  ];
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

/** One array. */
export function madeArray(random: Random): Buffer {
  return changeBytes(makeArray(random), random);
}

/** An archive of arrays. */
export function madeArrays(random: Random): Buffer {
  return (random.chance(0.3) ? writeFaultyArchive : writeArchive)(makeArrays(random), random);
}

/** A file of the corpus with other bytes. */
export function damaged(random: Random, corpus: Corpus): Buffer {
  return BYTES.mutate(corpus.pick(random), corpus.pick(random), random, []);
}
