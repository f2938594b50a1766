/** What there is to measure with: compiled programs, Python, packages, copies of the weights. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { include_dir } from 'node-api-headers';
import { freeTemporaryBytes, showProgress, UsageError } from './command-line.mjs';
import { NotMeasuredError, runChild, startChild } from './processes.mjs';

/** Root of the repository. */
export const ROOT_FOLDER = join(import.meta.dirname, '..');

/**
 * What contenders need, of the weights in a safetensors file. Compiles the programs into `folder`, where copies
 * of the weights go, too. `python` is `{ file, version, packages }`, or the reason for its absence.
 */
export async function prepareEquipment(path, folder, signal) {
  showProgress('compiling the loop');
  await compilePrograms(folder, signal);
  const python = await findPython(signal);
  const fileOf = copiesOf(path, join(folder, 'model'), python, signal);
  return { programs: folder, python, npmPackages: findNpmPackages(), fileOf };
}

/** The command of a contender, up to its method; a NotMeasuredError when something is missing. */
export function commandOf(contender, { programs, python, npmPackages }) {
  const { program, method, needs, exitCode, root = ROOT_FOLDER } = contender;
  const words = method.split(' ').filter(Boolean);
  if (program === 'cli') {
    return { file: process.execPath, args: [join(root, 'lib/cli.js'), ...words], exitCode };
  }
  if (program === 'limits') return { file: join(programs, program), args: words };
  const isPython = program.endsWith('.py');
  if (!isPython && !program.endsWith('.mjs')) return { file: program, args: words };
  if (isPython && typeof python === 'string') throw new NotMeasuredError(python);
  const missing = needs.filter((name) => !(name in (isPython ? python.packages : npmPackages)));
  if (missing.length > 0) {
    const what = isPython ? 'not installed in Python' : 'not installed, or did not build';
    throw new NotMeasuredError(`${what}: ${missing.join(', ')}`);
  }
  const script = join(root, 'benchmarks/children', program);
  return { file: isPython ? python.file : process.execPath, args: [script, method] };
}

/** A copy is held in memory while it is written, with some room for the writer itself. */
const MEMORY_PER_BYTE = 1.3;

/** Gives the path of the same weights in a format, at `target` with its name; the first call makes the copy. */
export function copiesOf(path, target, python, signal) {
  async function makeCopy(format) {
    if (typeof python === 'string') throw new NotMeasuredError(python);
    const { size } = statSync(path);
    const isShort = freemem() < size * MEMORY_PER_BYTE || (await freeTemporaryBytes()) < size;
    if (isShort) throw new NotMeasuredError('too little memory or disk for a copy');
    showProgress(`writing the same weights with ${format}`);
    const script = join(import.meta.dirname, 'children/make_copy.py');
    const args = [script, format, path, `${target}.${format}`];
    return await runChild({ file: python.file, args }, signal);
  }
  const files = new Map([['safetensors', Promise.resolve(path)]]);
  return (format) => {
    if (!files.has(format)) files.set(format, makeCopy(format));
    return files.get(format);
  };
}

/**
 * Compiles `native/`. The loop is one object that all its users link, Node, Python and C: every row runs the
 * same machine code.
 */
async function compilePrograms(folder, signal) {
  const source = (name) => join(import.meta.dirname, 'native', name);
  const compiler = process.env['CC'] ?? 'cc';
  const compile = async (name, ...args) => {
    const flags = ['-O3', '-std=c11', '-fPIC', '-o', join(folder, name)];
    const child = await startChild({ file: compiler, args: [...flags, ...args] }, signal);
    await child.end();
  };
  // The running program has the functions of Node-API; macOS wants to be told.
  const addonFlags = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : [];
  const addon = ['-shared', ...addonFlags, '-I', include_dir, source('touch_addon.c')];
  const loop = join(folder, 'touch.o');
  try {
    await compile('touch.o', '-c', source('touch.c'));
    await compile('libtouch.so', '-shared', loop);
    await compile('touch.node', ...addon, loop);
    await compile('limits', '-pthread', source('limits.c'), loop);
  } catch (error) {
    signal.throwIfAborted();
    throw new UsageError(`needs a C compiler, but ${compiler} failed: ${error.message}`);
  }
}

// Asks for versions without importing anything: importing torch alone takes seconds.
const PROBE = `
import importlib.metadata, importlib.util, json, platform
names = "gguf h5py ml_dtypes msgpack numpy onnx peft pyarrow safetensors torch transformers".split()
there = [name for name in names if importlib.util.find_spec(name)]
packages = {name: importlib.metadata.version(name) for name in there}
print(json.dumps({"version": platform.python_version(), "packages": packages}))
`;

/** The Python of `SAFETENSORS_PYTHON`, of `.venv`, or `python3`; or the reason for its absence. */
async function findPython(signal) {
  const environment = join(ROOT_FOLDER, '.venv/bin/python');
  const file =
    process.env['SAFETENSORS_PYTHON'] || (existsSync(environment) ? environment : 'python3');
  try {
    return { file, ...(await runChild({ file, args: ['-c', PROBE] }, signal)) };
  } catch (error) {
    signal.throwIfAborted();
    return `no Python (${file}: ${error.message})`;
  }
}

/** Versions of those packages of `rivals/package.json` that are installed. */
function findNpmPackages() {
  const folder = join(import.meta.dirname, 'rivals');
  const manifestIn = (path) => JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const installed = Object.keys(manifestIn(folder).optionalDependencies)
    .map((name) => [name, join(folder, 'node_modules', name)])
    .filter(([, path]) => existsSync(path));
  return Object.fromEntries(installed.map(([name, path]) => [name, manifestIn(path).version]));
}
