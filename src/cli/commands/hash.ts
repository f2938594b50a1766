/** `hash`: the hashes that models are known by. */

import { dirname, join } from 'node:path';
import { type SafetensorsFile, safeOpen } from '../../index.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { factLines } from '../output/table.js';
import { visible } from '../output/visible.js';
import { type Claim, claimsOf } from '../sources/claims.js';
import { type HashedRange, hashFile } from '../sources/hash-file.js';
import { closeSource, openSource } from '../sources/open-source.js';
import { type Command, type CommandContext, printResult, UsageError } from './command.js';

/** Digits of the short forms. */
const AUTO_V2_LENGTH = 10;
const AUTO_V3_LENGTH = 12;

const SHOWN_LENGTH = 200;

/** The hashes of one file, as `--json` has them. */
interface HashedFile {
  readonly name: string;
  readonly byteLength: number;
  readonly sha256: string;
  readonly autoV1: string;
  readonly autoV2: string;
  readonly autoV3: string;
  readonly modelspec: string;
  readonly sshs: string;
  readonly crc32: string | null;
  readonly claims: readonly Claim[];
  readonly tensors?: Readonly<Record<string, string>>;
}

interface HashResult {
  readonly source: string;
  /** Whether every claim is true. */
  readonly ok: boolean;
  readonly files: readonly HashedFile[];
}

/** Paths of the files of a source, by the names of the shards. */
async function pathsOf(source: string, signal: AbortSignal): Promise<Map<string, string>> {
  const opened = await openSource(source, { signal, storage: 'read' });
  try {
    if (opened.kind === 'local') {
      const { path, shards } = opened.checkpoint;
      return new Map(shards.map((shard) => [shard, join(dirname(path), shard)]));
    }
    const found = opened.kind === 'remote' ? 'one that is somewhere else' : opened.kind;
    throw new UsageError(
      `expected a safetensors file or checkpoint of this machine, found ${found}`,
    );
  } finally {
    closeSource(opened);
  }
}

function rangesOf(file: SafetensorsFile): HashedRange[] {
  return file.offsetKeys().map((name) => {
    const [begin, end] = file.info(name).dataOffsets;
    return { name, begin: file.dataStart + begin, end: file.dataStart + end };
  });
}

/** Hashes one file, and compares the hashes with what it claims. */
export async function hashOne(
  name: string,
  path: string,
  isEach: boolean,
  { signal, onBytes }: Parameters<typeof hashFile>[3],
): Promise<HashedFile> {
  const file = safeOpen(path, { storage: 'read' });
  try {
    const ranges = isEach ? rangesOf(file) : [];
    const hashes = await hashFile(path, file.dataStart, ranges, { signal, onBytes });
    const { byteLength, sha256, dataSha256, autoV1, crc32 } = hashes;
    return {
      ...{ name, byteLength, sha256, autoV1 },
      autoV2: sha256.slice(0, AUTO_V2_LENGTH),
      autoV3: dataSha256.slice(0, AUTO_V3_LENGTH),
      modelspec: `0x${dataSha256}`,
      sshs: dataSha256,
      crc32,
      claims: claimsOf(path, file.metadata ?? new Map(), hashes),
      ...(isEach ? { tensors: Object.fromEntries(hashes.ranges) } : {}),
    };
  } finally {
    file.close();
  }
}

/** Hashes files one after the other, with one progress for all. */
export async function hashAll(
  paths: ReadonlyMap<string, string>,
  isEach: boolean,
  { stderr, signal }: CommandContext,
): Promise<HashedFile[]> {
  const lengths = Array.from(paths.values(), (path) => {
    const file = safeOpen(path, { storage: 'read' });
    const { byteLength } = file;
    file.close();
    return byteLength;
  });
  const totalBytes = lengths.reduce((sum, length) => sum + length, 0);
  const progress = progressOn(stderr, 'hashing');
  let bytes = 0;
  const onBytes = (more: number): void => {
    bytes += more;
    progress.onProgress({ bytes, totalBytes });
  };
  try {
    const hashed: HashedFile[] = [];
    for (const [name, path] of paths) {
      hashed.push(await hashOne(name, path, isEach, { signal, onBytes }));
    }
    return hashed;
  } finally {
    progress.end();
  }
}

function fileLines(file: HashedFile, style: Style): string[] {
  const { sha256, autoV1, autoV2, autoV3, modelspec, sshs, crc32, claims, tensors = {} } = file;
  return [
    style.bold(visible(file.name, SHOWN_LENGTH)),
    ...factLines(
      [
        ['SHA-256', sha256],
        ['AutoV1', autoV1],
        ['AutoV2', autoV2],
        ['AutoV3', autoV3],
        ['modelspec', modelspec],
        ['sshs', sshs],
        ['CRC32', crc32 ?? 'not in this runtime'],
      ],
      style.dim,
    ),
    ...claims.map(({ by, claimed, ok }) =>
      ok
        ? `${by}: as claimed`
        : style.error(`${by}: claims ${visible(claimed, SHOWN_LENGTH)}, which is wrong`),
    ),
    ...Object.entries(tensors).map(([name, hash]) => `${hash}  ${visible(name, SHOWN_LENGTH)}`),
  ];
}

export const hash: Command = {
  summary: 'the hashes that models are known by',
  usage: 'hash SOURCE [--all]',
  description:
    'Reads each file once and prints its SHA-256, AutoV1, AutoV2, AutoV3, the hashes of ModelSpec and of ' +
    "kohya's scripts (sshs), and CRC32. What the metadata or the Hub's cache claim is compared: exit code 1 " +
    'when it is wrong.',
  options: { all: { type: 'boolean', help: 'the SHA-256 of every tensor, too' } },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const paths = await pathsOf(source, context.signal);
    const files = await hashAll(paths, options['all'] === true, context);
    const ok = files.every(({ claims }) => claims.every((claim) => claim.ok));
    printResult<HashResult>(context, options, { source, ok, files }, (result, style) =>
      result.files.flatMap((file, i) => [...(i === 0 ? [] : ['']), ...fileLines(file, style)]),
    );
    return ok ? 'done' : 'no';
  },
};
