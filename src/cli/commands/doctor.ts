/** `doctor`: what this machine is, as far as it matters here. */

import { constants } from 'node:buffer';
import { readdirSync, readFileSync } from 'node:fs';
import { ADDON_VARIABLE, namedFile } from '../../addon/location.js';
import type { BufferCounting } from '../../addon/uncounted-buffers.js';
import { VERSION } from '../../addon/version.js';
import { hubCacheFolder } from '../../hub/cache.js';
import { hubSettings } from '../../hub/environment.js';
import { type MappingStatus, mappingStatus } from '../../index.js';
import { bytesText, groupedText } from '../output/numbers.js';
import type { Style } from '../output/style.js';
import { factLines } from '../output/table.js';
import { visible } from '../output/visible.js';
import { type Command, printResult } from './command.js';

/** The kind of entry in the list that the kernel gives a process: its page size. */
const AUXILIARY_PAGE_SIZE = 6n;

/** What was found, as `--json` has it. Null is what the system does not tell. */
interface DoctorResult {
  readonly version: string;
  readonly runtime: string;
  readonly platform: string;
  /** Whether files are mapped, and why not. */
  readonly mapping: MappingStatus;
  readonly pageByteLength: number | null;
  /** Longest buffer of this runtime. */
  readonly maxBufferByteLength: number;
  readonly maxMappings: number | null;
  readonly maxOpenFiles: number | null;
  readonly hub: {
    readonly endpoint: string;
    readonly offline: boolean;
    /** Whether there is a token, never which. */
    readonly hasToken: boolean;
    readonly cache: string;
    /** Repositories in it; null when there is no folder that can be read. */
    readonly cachedRepositories: number | null;
  };
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

function pageByteLength(): number | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync('/proc/self/auxv');
  } catch {
    return null;
  }
  for (let at = 0; at + 16 <= bytes.length; at += 16) {
    if (bytes.readBigUInt64LE(at) === AUXILIARY_PAGE_SIZE)
      return Number(bytes.readBigUInt64LE(at + 8));
  }
  return null;
}

function numberIn(text: string | null, pattern: RegExp): number | null {
  const found = pattern.exec(text ?? '')?.[1];
  return found === undefined ? null : Number(found);
}

function countRepositories(cache: string): number | null {
  try {
    return readdirSync(cache).filter((name) => /^[a-z]+--/.test(name)).length;
  } catch {
    return null;
  }
}

function runtimeText(): string {
  const { bun, deno, electron, node } = process.versions as Readonly<
    Record<string, string | undefined>
  >;
  if (bun !== undefined) return `Bun ${bun}`;
  if (deno !== undefined) return `Deno ${deno}`;
  return electron === undefined ? `Node ${node}` : `Electron ${electron}, Node ${node}`;
}

function examine(): DoctorResult {
  const { endpoint, isOffline, readToken } = hubSettings();
  const cache = hubCacheFolder();
  return {
    version: VERSION,
    runtime: runtimeText(),
    platform: `${process.platform}-${process.arch}`,
    mapping: mappingStatus(),
    pageByteLength: pageByteLength(),
    maxBufferByteLength: constants.MAX_LENGTH,
    maxMappings: numberIn(textOf('/proc/sys/vm/max_map_count'), /^(\d+)/),
    maxOpenFiles: numberIn(textOf('/proc/self/limits'), /^Max open files +(\d+)/m),
    hub: {
      endpoint,
      offline: isOffline,
      hasToken: readToken() !== undefined,
      cache,
      cachedRepositories: countRepositories(cache),
    },
  };
}

function mappingText(mapping: MappingStatus): string {
  if (mapping.available) {
    const named = namedFile() ? `, which ${ADDON_VARIABLE} names` : '';
    return `files are mapped, by ${mapping.addon}${named}`;
  }
  return `files are read, because ${mapping.reason}. ${mapping.remedy}`;
}

function buffersText(buffers: BufferCounting): string {
  if (!buffers.counted) return 'the engine does not count them: they cause no garbage collection';
  return `the engine counts them as memory of its own, because ${buffers.reason}`;
}

function linesOf(result: DoctorResult, style: Style): readonly string[] {
  const { version, runtime, platform, mapping, hub } = result;
  const unknown = 'not told by the system';
  const count = (value: number | null): string => (value === null ? unknown : groupedText(value));
  const page = result.pageByteLength;
  const repositories = hub.cachedRepositories;
  return factLines(
    [
      ['version', `${version}, ${runtime}, ${platform}`],
      ['mapping', visible(mappingText(mapping))],
      ...(mapping.available ? [['buffers', buffersText(mapping.buffers)] as const] : []),
      ['page', page === null ? unknown : `${groupedText(page)} bytes`],
      ['longest buffer', bytesText(result.maxBufferByteLength)],
      ['mappings', `at most ${count(result.maxMappings)}`],
      ['open files', `at most ${count(result.maxOpenFiles)}`],
      ['Hub', `${visible(hub.endpoint)}${hub.offline ? ', not asked: offline' : ''}`],
      ['token', hub.hasToken ? 'there is one' : 'none'],
      [
        'cache',
        `${visible(hub.cache)}: ${repositories === null ? 'no folder that can be read' : `repositories: ${groupedText(repositories)}`}`,
      ],
    ],
    style.dim,
  );
}

export const doctor: Command = {
  summary: 'what this machine is, as far as it matters here',
  usage: 'doctor',
  description:
    "Whether files are mapped here, and why not; limits of the system and the runtime; the Hub's address, its cache, " +
    'and whether there is a token, which is never shown.',
  options: {},
  positionals: [0, 0],
  async run(context, _, options) {
    printResult(context, options, examine(), linesOf);
    return 'done';
  },
};
