/** `verify`: everything that is wrong with a checkpoint. */

import { readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Checkpoint, SafetensorsError, safeOpen } from '../../index.js';
import { plural } from '../output/numbers.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { visible } from '../output/visible.js';
import { HUB_CACHE } from '../sources/claims.js';
import { type HashableFile, localFiles } from '../sources/hashable-files.js';
import {
  closeSource,
  foreignSource,
  isTorchIndex,
  type OpenedSource,
  openSource,
} from '../sources/open-source.js';
import { type Command, type CommandContext, printResult } from './command.js';
import { hashAll } from './hash.js';

const SHOWN_LENGTH = 300;
/** Of a message, which may have two hashes and a path. */
const SHOWN_MESSAGE_LENGTH = 1000;

/** Something that is wrong, as `--json` has it. */
interface Problem {
  /** The file, as the index or the source names it. */
  readonly file: string;
  /** As the package's errors have them. */
  readonly code: string;
  readonly message: string;
}

interface VerifyResult {
  readonly source: string;
  readonly ok: boolean;
  /** What was looked at: `headers`, `index`, `hashes`, `checksums`. */
  readonly checks: readonly string[];
  readonly problems: readonly Problem[];
}

function problemOf(file: string, error: unknown): Problem {
  const { code, message, syscall } = Object(error) as Record<string, unknown>;
  // What is no error of a file, nor of the system's about one, is an error of ours.
  if (!(error instanceof SafetensorsError) && typeof syscall !== 'string') throw error;
  // The system's messages begin with their code.
  return { file, code: String(code), message: String(message).replace(`${code}: `, '') };
}

/** The headers of every shard that can be read, and what is wrong with the others. */
function readShards(checkpoint: Shards): {
  headerTexts: ReadonlyMap<string, string>;
  problems: Problem[];
} {
  const headerTexts = new Map<string, string>();
  const problems: Problem[] = [];
  for (const shard of checkpoint.shards) {
    try {
      const file = safeOpen(join(dirname(checkpoint.path), shard), { storage: 'read' });
      headerTexts.set(shard, file.headerText);
      file.close();
    } catch (error) {
      problems.push(problemOf(shard, error));
    }
  }
  return { headerTexts, problems };
}

/** The index as it stands there; opening has checked it. */
interface IndexText {
  readonly metadata?: { readonly total_size?: unknown };
  readonly weight_map: Readonly<Record<string, string>>;
}

function readIndex(path: string): IndexText {
  return JSON.parse(readFileSync(path, 'utf8')) as IndexText;
}

/** Where the shards are that an index names. */
type Shards = Pick<Checkpoint, 'path' | 'shards'>;

/** The shards of an index that was checked, some of which are missing: the others are verified. */
function shardsOf(path: string): Shards {
  const written = Object.values(readIndex(path).weight_map);
  return { path, shards: [...new Set(written.map(shardName))] };
}

/** The name of a shard as it is written in an index, as `Checkpoint` has it. */
function shardName(written: string): string {
  return written.replace(/^(?:\.\/)+/, '');
}

/** Where the index and the shards that can be read do not agree. */
function indexProblems(
  index: IndexText,
  files: readonly HashableFile[],
  isWhole: boolean,
): Problem[] {
  const problems: Problem[] = [];
  const add = (file: string, message: string): void => {
    problems.push({ file, code: 'SAFETENSORS_INDEX_MISMATCH', message });
  };
  const names = new Map(
    files.map(({ name, facts }) => [name, new Set(facts.tensors.map((tensor) => tensor.name))]),
  );
  const map = new Map(Object.entries(index.weight_map));
  for (const [name, written] of map) {
    const shard = shardName(written);
    if (names.get(shard)?.has(name) === false) {
      add(shard, `the index has ${JSON.stringify(name)} in this file, which does not have it`);
    }
  }
  const seen = new Map<string, string>();
  for (const [shard, own] of names) {
    for (const name of own) {
      const first = seen.get(name);
      seen.set(name, first ?? shard);
      if (first !== undefined) add(shard, `${JSON.stringify(name)} is in ${first}, too`);
      if (!map.has(name)) add(shard, `${JSON.stringify(name)} is not in the index`);
    }
  }
  const total = index.metadata?.total_size;
  const byteLength = files.reduce((sum, { facts }) => sum + facts.byteLength - facts.dataStart, 0);
  if (isWhole && typeof total === 'number' && total !== byteLength) {
    add('', `total_size of the index is ${total}, the tensors have ${byteLength} bytes`);
  }
  return problems;
}

async function verifyLocal(
  checkpoint: Shards,
  isQuick: boolean,
  context: CommandContext,
): Promise<Omit<VerifyResult, 'source' | 'ok'>> {
  const { headerTexts, problems } = readShards(checkpoint);
  const files = localFiles(checkpoint, headerTexts);
  const checks = ['headers'];
  if (checkpoint.path.endsWith('.json')) {
    checks.push('index');
    const isWhole = files.length === checkpoint.shards.length;
    const found = indexProblems(readIndex(checkpoint.path), files, isWhole);
    // One by one: they can be more than a call takes arguments.
    for (const problem of found) problems.push(problem);
  }
  if (isQuick) return { checks, problems };
  checks.push('hashes');
  const paths = new Map(files.map(({ name, path }) => [name, path]));
  for (const { name: file, claims } of await hashAll(files, false, context)) {
    for (const { by, claimed, found } of claims.filter(({ ok }) => ok === false)) {
      const path = paths.get(file);
      const advice =
        by === HUB_CACHE && path != null
          ? `; delete ${realpathSync(path)}, and download it again`
          : '';
      const message = `${by} claims ${claimed}, found ${found}${advice}`;
      problems.push({ file, code: 'SAFETENSORS_VERIFICATION_FAILED', message });
    }
  }
  return { checks, problems };
}

async function verifyOpened(
  opened: OpenedSource,
  isQuick: boolean,
  context: CommandContext,
): Promise<Omit<VerifyResult, 'source' | 'ok'>> {
  const { signal } = context;
  if (opened.kind === 'local') return await verifyLocal(opened.checkpoint, isQuick, context);
  if (opened.kind === 'pipeline') {
    const all = [];
    for (const { name, checkpoint } of opened.components) {
      const { checks, problems } = await verifyLocal(checkpoint, isQuick, context);
      all.push({
        checks,
        problems: problems.map((one) => ({ ...one, file: `${name}/${one.file}` })),
      });
    }
    return {
      checks: [...new Set(all.flatMap(({ checks }) => checks))],
      problems: all.flatMap(({ problems }) => problems),
    };
  }
  const problems: Problem[] = [];
  const collect = async (file: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      problems.push(problemOf(file, error));
    }
  };
  if (opened.kind === 'remote') {
    const { checkpoint } = opened;
    // Fetches the headers, and compares them with the index.
    await collect(checkpoint.path, () => checkpoint.offsetKeys({ signal }));
    return { checks: ['headers', 'index'], problems };
  }
  if ('file' in opened) {
    const { file } = opened;
    const progress = progressOn(context.stderr, 'verifying');
    const { onProgress } = progress;
    await collect(file.path ?? '', () => file.verifyChecksums({ signal, onProgress })).finally(() =>
      progress.end(),
    );
    return { checks: ['headers', 'checksums'], problems };
  }
  throw foreignSource(opened, 'a file that can be verified');
}

/** A source that cannot be opened has one problem. */
async function verifySource(
  source: string,
  isQuick: boolean,
  context: CommandContext,
): Promise<Omit<VerifyResult, 'source' | 'ok'>> {
  let opened: OpenedSource;
  try {
    opened = await openSource(source, { signal: context.signal, storage: 'read' });
  } catch (error) {
    const isOfFile = error instanceof SafetensorsError && error.code !== 'SAFETENSORS_NOT_IN_CACHE';
    if (!isOfFile) throw error;
    const { code, path } = error;
    if (code === 'SAFETENSORS_MISSING_SHARDS' && path !== undefined && !isTorchIndex(path)) {
      return await verifyLocal(shardsOf(path), isQuick, context);
    }
    return { checks: ['headers'], problems: [problemOf('', error)] };
  }
  try {
    return await verifyOpened(opened, isQuick, context);
  } finally {
    closeSource(opened);
  }
}

function linesOf({ ok, checks, problems }: VerifyResult, style: Style): readonly string[] {
  const lines = problems.map(({ file, code, message }) => {
    const where = file === '' ? '' : `${visible(file, SHOWN_LENGTH)}: `;
    return `${where}${style.error(code)}: ${visible(message, SHOWN_MESSAGE_LENGTH)}`;
  });
  const found = ok ? 'no problems' : plural(problems.length, 'problem');
  return [...lines, `${found}; checked: ${checks.join(', ')}`];
}

export const verify: Command = {
  summary: 'everything that is wrong with a file or checkpoint',
  usage: 'verify SOURCE [--quick]',
  description:
    'Checks the headers of all files, the index against them, and the hashes that metadata and the cache of the ' +
    'Hub claim; of archives of torch and NumPy the checksums. It lists every problem; exit code 1 when there is one.',
  options: { quick: { type: 'boolean', help: 'only headers and index: reads no tensors' } },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const { checks, problems } = await verifySource(source, options['quick'] === true, context);
    const ok = problems.length === 0;
    printResult<VerifyResult>(context, options, { source, ok, checks, problems }, linesOf);
    return ok ? 'done' : 'no';
  },
};
