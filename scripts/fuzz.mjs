/**
 * Runs the fuzzer of `test/fuzz`, `npm run fuzz -- TARGET`: bundles it, with the compiled library of `build/` next
 * to it, and watches its process. Keeps an input that ends the process or hangs it.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const library = join(root, 'build');

/** An input hangs when it takes longer than this, in seconds. */
const MAX_SECONDS = 120;

/** Linux has files in memory here: a million small ones are written. */
const MEMORY = '/dev/shm';

/** Exit code by convention for a program that was interrupted. */
const INTERRUPTED = 130;

/** The modules keep their addresses, and the library is that of `build/`: harnesses know public names alone. */
const places = {
  name: 'places',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^safetensors-mmap(\/|$)/ }, ({ path }) => {
      const entry = path.slice('safetensors-mmap/'.length) || 'index';
      return { path: pathToFileURL(join(library, `${entry}.js`)).href, external: true };
    });
    onResolve({ filter: /\/src\// }, ({ path, importer }) => {
      // Public names have this address in tests, and the command line runs in this process.
      if (/test\/(?:support\/api|cli\/call)\.ts$/.test(importer)) {
        const module = join(library, path.replace(/^.*\/src\//, ''));
        return { path: pathToFileURL(module).href, external: true };
      }
      const text = `${importer} imports ${path}: the fuzzer drives public names`;
      return { errors: [{ text }] };
    });
    onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replaceAll(
        'import.meta.url',
        JSON.stringify(pathToFileURL(path).href),
      ),
      loader: 'ts',
    }));
  },
};

const folder = mkdtempSync(join(tmpdir(), 'safetensors-fuzz-program-'));
const program = join(folder, 'fuzz.mjs');
await build({
  entryPoints: [join(root, 'test/fuzz/main.ts')],
  outfile: program,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: 'inline',
  external: ['typescript', 'vitest'],
  plugins: [places],
});

// Removes the folder, however the process ends.
const scratch = mkdtempSync(
  join(existsSync(MEMORY) ? MEMORY : tmpdir(), `safetensors-fuzz-${process.pid}-`),
);
const box = join(folder, 'input');
writeFileSync(box, Buffer.alloc(12));
const child = spawn(
  process.execPath,
  ['--enable-source-maps', '--expose-gc', program, ...process.argv.slice(2)],
  {
    stdio: ['ignore', 'inherit', 'inherit'],
    // Requests go to this machine only.
    env: {
      ...process.env,
      SAFETENSORS_FUZZ_BOX: box,
      SAFETENSORS_FUZZ_FOLDER: scratch,
      SAFETENSORS_FUZZ_LIBRARY: library,
      HF_HUB_OFFLINE: '1',
      HF_HOME: join(folder, 'hub'),
    },
  },
);

/** The input in the box; undefined if absent. */
function boxed() {
  const bytes = readFileSync(box);
  const [count, nameLength, length] = [0, 4, 8].map((at) => bytes.readUInt32LE(at));
  if (count === 0) return undefined;
  const target = bytes.toString('utf8', 12, 12 + nameLength);
  return { count, target, input: bytes.subarray(12 + nameLength, 12 + nameLength + length) };
}

// Seconds are counted, since both processes may be stopped for a while.
let [last, seconds] = [0, 0];
const watch = setInterval(() => {
  const count = boxed()?.count ?? 0;
  seconds = count !== 0 && count === last ? seconds + 1 : 0;
  last = count;
  if (seconds > MAX_SECONDS) child.kill('SIGKILL');
}, 1000);
let isStopped = false;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    isStopped = true;
    child.kill(signal);
  });
}

child.on('close', (code, signal) => {
  clearInterval(watch);
  const isOver = isStopped || [0, 1, 2].includes(code);
  const found = isOver ? undefined : boxed();
  if (found !== undefined) {
    const kept = join(root, '.fuzz', found.target);
    mkdirSync(kept, { recursive: true });
    const path = join(kept, `ended-by-${signal ?? code}`);
    writeFileSync(path, found.input);
    console.error(`FOUND: an input ended the process (${signal ?? code})`);
    console.error(`kept: npm run fuzz -- ${found.target} --input ${path}`);
  }
  for (const own of [folder, scratch]) rmSync(own, { recursive: true, force: true });
  process.exitCode = isStopped ? INTERRUPTED : (code ?? 3);
});
