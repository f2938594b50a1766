/** What there is to measure with: compiled programs, Python, packages, copies of the weights. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { freemem, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { endProgress, freeTemporaryBytes, showProgress, UsageError } from './command-line.js';
import { NotMeasuredError, runChild, startChild } from './run-child.js';

/** Root of the repository. This file is compiled to `build/benchmarks`. */
export const ROOT_FOLDER: string = join(import.meta.dirname, '../..');

/** `benchmarks/`: programs in Python and C, packages of the rivals, results. */
export const SOURCE_FOLDER: string = join(ROOT_FOLDER, 'benchmarks');

/** File formats that hold the same weights. */
export type Format =
  | 'safetensors'
  | 'torch'
  | 'pickle'
  | 'numpy-pickle'
  | 'npz'
  | 'hdf5'
  | 'msgpack'
  | 'arrow'
  | 'onnx';

/** A Python that runs. */
export interface Python {
  readonly file: string;
  readonly version: string;
  /** Versions of the rivals' packages that are installed. */
  readonly packages: Readonly<Record<string, string>>;
}

/** What drivers need. */
export interface Equipment {
  /** Folder of the compiled programs, and of the loop as `touch.node` and `libtouch.so`. */
  readonly programs: string;
  /** A text says why there is none. */
  readonly python: Python | string;
  /** Versions of the rivals from npm that are installed. */
  readonly npmPackages: Readonly<Record<string, string>>;
  /**
   * The path of the weights in a format; the first call makes the copy.
   *
   * @throws NotMeasuredError when it cannot be made.
   */
  fileOf(format: Format): Promise<string>;
}

/** A copy is held in memory while it is written, with some room for the writer itself. */
const MEMORY_PER_BYTE = 1.3;

/** Compiles the loop, looks for Python and for packages. Copies and programs go into `folder`. */
export async function prepareEquipment(
  path: string,
  folder: string,
  signal: AbortSignal,
): Promise<Equipment> {
  showProgress('compiling the loop');
  await compilePrograms(folder, signal);
  const python = await findPython(signal);
  endProgress();
  const equipment = { programs: folder, python, npmPackages: findNpmPackages() };
  return { ...equipment, fileOf: copiesOf(path, join(folder, 'model'), equipment, signal) };
}

/** `fileOf` for the weights of a safetensors file. The copies are at `target` with the format's name. */
export function copiesOf(
  path: string,
  target: string,
  { python }: Pick<Equipment, 'python'>,
  signal: AbortSignal,
): Equipment['fileOf'] {
  async function makeCopy(format: Format): Promise<string> {
    if (typeof python === 'string') throw new NotMeasuredError(python);
    const byteLength = statSync(path).size;
    if (freemem() < byteLength * MEMORY_PER_BYTE) {
      throw new NotMeasuredError('too little memory for a copy');
    }
    if ((await freeTemporaryBytes()) < byteLength) {
      throw new NotMeasuredError('too little disk for a copy');
    }
    showProgress(`writing the same weights with ${format}`);
    const script = join(SOURCE_FOLDER, 'children/make_copy.py');
    const args = [script, format, path, `${target}.${format}`];
    return await runChild<string>({ file: python.file, args }, signal);
  }

  const files = new Map([['safetensors' as Format, Promise.resolve(path)]]);
  return (format) => {
    const file = files.get(format) ?? makeCopy(format);
    files.set(format, file);
    return file;
  };
}

/**
 * Compiles `native/`. The loop is one object that all its users link, Node, Python and C: every row
 * runs the same machine code.
 *
 * @throws UsageError without a compiler.
 */
async function compilePrograms(folder: string, signal: AbortSignal): Promise<void> {
  const source = (name: string): string => join(SOURCE_FOLDER, 'native', name);
  const output = (name: string): string => join(folder, name);
  const compiler = process.env['CC'] ?? 'cc';
  const compile = async (name: string, ...args: string[]): Promise<void> => {
    const flags = ['-O3', '-std=c11', '-fPIC', '-o', output(name)];
    const child = await startChild({ file: compiler, args: [...flags, ...args] }, signal);
    await child.end();
  };
  // The running program has the functions of Node-API; macOS wants to be told.
  const headers = nodeHeaders();
  const addonFlags = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : [];
  try {
    const loop = output('touch.o');
    await compile('touch.o', '-c', source('touch.c'));
    await compile('libtouch.so', '-shared', loop);
    const addon = source('touch_addon.c');
    await compile('touch.node', '-shared', ...addonFlags, '-I', headers, addon, loop);
    for (const name of ['read_limit', 'write_limit', 'page_cache']) {
      await compile(name, source(`${name}.c`), source('process.c'), loop);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw new UsageError(`needs a C compiler, but ${compiler} failed: ${messageOf(error)}`);
  }
}

/**
 * Headers of the running Node: beside the program, or where node-gyp keeps what it downloaded.
 *
 * @throws UsageError when they are in neither place.
 */
function nodeHeaders(): string {
  const downloaded = `${process.versions.node}/include/node`;
  const candidates = [
    join(dirname(process.execPath), '../include/node'),
    join(homedir(), '.cache/node-gyp', downloaded),
    join(homedir(), 'Library/Caches/node-gyp', downloaded),
  ];
  const found = candidates.find((folder) => existsSync(join(folder, 'node_api.h')));
  if (found === undefined) throw new UsageError('node_api.h of the running Node was not found');
  return found;
}

// Asks for versions without importing anything: importing torch alone takes seconds.
const PROBE = `
import importlib.metadata, json, platform
packages = {}
names = "h5py huggingface_hub ml_dtypes msgpack numpy onnx pyarrow safetensors torch"
for name in names.split():
    try:
        packages[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps({"version": platform.python_version(), "packages": packages}))
`;

/** What `SAFETENSORS_PYTHON` names, else that of `.venv`, else `python3`; or why there is none. */
async function findPython(signal: AbortSignal): Promise<Python | string> {
  const environment = join(ROOT_FOLDER, '.venv/bin/python');
  const file =
    process.env['SAFETENSORS_PYTHON'] || (existsSync(environment) ? environment : 'python3');
  try {
    const args = ['-c', PROBE];
    return { file, ...(await runChild<Omit<Python, 'file'>>({ file, args }, signal)) };
  } catch (error) {
    signal.throwIfAborted();
    return `no Python (${file}: ${messageOf(error)})`;
  }
}

/** Those packages of `benchmarks/package.json` that are installed. */
function findNpmPackages(): Record<string, string> {
  const manifestIn = (folder: string): Record<string, unknown> =>
    JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const wanted = Object.keys(manifestIn(SOURCE_FOLDER)['optionalDependencies'] ?? {});
  const folders = wanted.map((name) => [name, join(SOURCE_FOLDER, 'node_modules', name)] as const);
  const installed = folders.filter(([, folder]) => existsSync(folder));
  return Object.fromEntries(
    installed.map(([name, folder]) => [name, String(manifestIn(folder)['version'])]),
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
