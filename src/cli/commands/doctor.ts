/** `doctor`: Report version, mapping and Hub settings of this environment. */

import { readdirSync } from 'node:fs';
import { hubCacheFolder } from '../../file/cache/cache.js';
import { hubSettings } from '../../file/cache/environment.js';
import { type MappingStatus, mappingStatus } from '../../index.js';
import { formatInteger } from '../../inspect/format.js';
import { ADDON_VARIABLE, namedFile } from '../../platform/addon/location.js';
import type { BufferCounting } from '../../platform/addon/uncounted-buffers.js';
import { VERSION } from '../../platform/addon/version.js';
import type { Style } from '../output/style.js';
import { infoLines } from '../output/table.js';
import { visible } from '../output/visible.js';
import { type Command, printResult } from './command.js';

/** The report for `--json`. */
interface DoctorResult {
  readonly version: string;
  readonly runtime: string;
  readonly platform: string;
  /** Whether files are mapped, or the reason why not. */
  readonly mapping: MappingStatus;
  readonly hub: {
    readonly endpoint: string;
    readonly offline: boolean;
    /** Whether there is a token; never the token itself. */
    readonly hasToken: boolean;
    readonly cache: string;
    /** Number of repositories in the folder; null when the folder is missing or unreadable. */
    readonly cachedRepositories: number | null;
  };
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

function machineInfo(): DoctorResult {
  const { endpoint, isOffline, readToken } = hubSettings();
  const cache = hubCacheFolder();
  return {
    version: VERSION,
    runtime: runtimeText(),
    platform: `${process.platform}-${process.arch}`,
    mapping: mappingStatus(),
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
  return `the engine counts them as its own memory, because ${buffers.reason}`;
}

function doctorLines(result: DoctorResult, style: Style): readonly string[] {
  const { version, runtime, platform, mapping, hub } = result;
  const repositories = hub.cachedRepositories;
  return infoLines(
    [
      ['version', `${version}, ${runtime}, ${platform}`],
      ['mapping', visible(mappingText(mapping))],
      ...(mapping.available ? [['buffers', buffersText(mapping.buffers)] as const] : []),
      ['Hub', `${visible(hub.endpoint)}${hub.offline ? ', unused: offline' : ''}`],
      ['token', hub.hasToken ? 'found' : 'none'],
      [
        'cache',
        `${visible(hub.cache)}: ${repositories === null ? 'missing or unreadable' : `repositories: ${formatInteger(repositories)}`}`,
      ],
    ],
    style.dim,
  );
}

export const doctorCommand: Command = {
  summary: 'Report version, mapping and Hub settings of this environment',
  usage: 'doctor',
  description:
    "Report whether files are mapped here, and if not, why; the Hub's address and cache, and whether there is a " +
    'token, without showing it.',
  example: 'doctor --json',
  options: {},
  positionals: [0, 0],
  async run(context, _, options) {
    printResult(context, options, machineInfo(), doctorLines);
    return 'done';
  },
};
