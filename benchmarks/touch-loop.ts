/** Compiles `native/`: the loop that all rows share, once as an object for all users of it. */
import { existsSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { SOURCE_FOLDER } from './places.js';
import { type Command, runToEnd } from './run-child.js';

/** Where the compiled programs are. */
export interface TouchLoop {
  /** Addon for Node. */
  readonly addon: string;
  /** Shared library with a C interface, for Python's ctypes. */
  readonly library: string;
  /** Program that runs the loop with nothing between it and the file. */
  readonly rawLimit: string;
  /** Program that writes files with nothing between them and the bytes. */
  readonly writeLimit: string;
  /** Program that fills and empties the page cache. */
  readonly pageCache: string;
}

const SOURCES = join(SOURCE_FOLDER, 'native');
const OUTPUT = join(import.meta.dirname, 'native');
const OUTPUTS: TouchLoop = {
  addon: join(OUTPUT, 'touch.node'),
  library: join(OUTPUT, 'libtouch.so'),
  rawLimit: join(OUTPUT, 'raw_limit'),
  writeLimit: join(OUTPUT, 'write_limit'),
  pageCache: join(OUTPUT, 'page_cache'),
};
const SOURCE_NAMES = [
  'touch.h',
  'touch.c',
  'touch_addon.c',
  'process.h',
  'process.c',
  'raw_limit.c',
  'write_limit.c',
  'page_cache.c',
];

/** Headers of the running Node: beside the program, or where node-gyp keeps what it downloaded. */
function nodeHeaders(): string | undefined {
  const version = process.versions.node;
  const candidates = [
    join(dirname(process.execPath), '../include/node'),
    join(homedir(), '.cache/node-gyp', version, 'include/node'),
    join(homedir(), 'Library/Caches/node-gyp', version, 'include/node'),
  ];
  return candidates.find((folder) => existsSync(join(folder, 'node_api.h')));
}

async function isUpToDate(): Promise<boolean> {
  const changed = async (path: string): Promise<number> => (await stat(path)).mtimeMs;
  try {
    const built = await Promise.all(Object.values(OUTPUTS).map(changed));
    const written = await Promise.all(SOURCE_NAMES.map((name) => changed(join(SOURCES, name))));
    return Math.min(...built) >= Math.max(...written);
  } catch {
    return false;
  }
}

/** Compiler calls, in order. */
function commands(headers: string): Command[] {
  const compiler = process.env['CC'] ?? 'cc';
  const object = join(OUTPUT, 'touch.o');
  const flags = ['-O3', '-std=c11', '-fPIC'];
  // The functions of Node-API are in the running program; macOS wants that said.
  const undefinedSymbols = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : [];
  const source = (name: string): string => join(SOURCES, name);
  const processSource = source('process.c');
  const call = (...args: string[]): Command => ({ file: compiler, args: [...flags, ...args] });
  return [
    call('-c', source('touch.c'), '-o', object),
    call('-shared', object, '-o', OUTPUTS.library),
    call(
      '-shared',
      ...undefinedSymbols,
      '-I',
      headers,
      source('touch_addon.c'),
      object,
      '-o',
      OUTPUTS.addon,
    ),
    call(source('raw_limit.c'), processSource, object, '-o', OUTPUTS.rawLimit),
    call(source('write_limit.c'), processSource, '-o', OUTPUTS.writeLimit),
    call(source('page_cache.c'), processSource, '-o', OUTPUTS.pageCache),
  ];
}

/** The compiled loop, built when it is missing or older than its sources; else the reason why not. */
export async function buildTouchLoop(signal: AbortSignal): Promise<TouchLoop | string> {
  if (await isUpToDate()) return OUTPUTS;
  const headers = nodeHeaders();
  if (headers === undefined) return 'node_api.h of the running Node was not found';
  await mkdir(OUTPUT, { recursive: true });
  try {
    for (const command of commands(headers)) await runToEnd(command, signal);
  } catch (error) {
    signal.throwIfAborted();
    return `the C compiler failed: ${error instanceof Error ? error.message : error}`;
  }
  return OUTPUTS;
}
