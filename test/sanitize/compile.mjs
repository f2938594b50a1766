/**
 * Compiles the sources of the addon with a sanitizer, as binding.gyp has them, into `build/sanitize`: neither
 * the addon of other tests nor the one that the package ships is touched.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { readBinding } from '../../scripts/cross/gyp.mjs';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const folder = join(root, 'build/sanitize');

const { include_dir: headers } = createRequire(import.meta.url)('node-api-headers');

/** As node-gyp compiles, but for stacks that can be read. */
const FLAGS = ['-O1', '-g1', '-fPIC', '-fno-exceptions', '-fno-rtti', '-fno-omit-frame-pointer'];

/** Runs the compiler; throws with all that it printed unless it succeeds. */
async function run(args) {
  const child = spawn('g++', args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code, signal] = await ended;
  if (code !== 0) throw new Error(`g++ ${args.join(' ')}: ${signal ?? code}\n${stdout}${stderr}`);
  return stdout.trim();
}

/** The shared library of a sanitizer that belongs to the compiler. */
export async function runtimeLibrary(name) {
  return await run([`-print-file-name=${name}`]);
}

/** When the newest file of a folder was changed. */
function changedAt(path) {
  const files = readdirSync(join(root, path), { withFileTypes: true }).filter((at) => at.isFile());
  return Math.max(...files.map(({ name }) => statSync(join(root, path, name)).mtimeMs));
}

function isUpToDate(file) {
  const made = statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const binding = statSync(join(root, 'binding.gyp')).mtimeMs;
  return made > Math.max(changedAt('native'), changedAt('test/sanitize'), binding);
}

/** The addon's sources, in parts of the same flags; `more` are sources next to its own. */
export function addonParts(more = []) {
  const [addon, ...others] = readBinding(root, 'linux', process.arch);
  return [{ ...addon, sources: [...addon.sources, ...more] }, ...others];
}

/**
 * Compiles the sources of all parts with the flags of a sanitizer, and links them into `build/sanitize/<name>`,
 * unless that is newer than all that could be in it. Returns its path.
 */
export async function compile(name, parts, sanitizer, linkerFlags) {
  const file = join(folder, name);
  if (isUpToDate(file)) return file;
  const objects = join(folder, `${name}.objects`);
  mkdirSync(objects, { recursive: true });
  const commands = parts.flatMap(({ flags, sources }) =>
    sources.map((source) => {
      const object = join(objects, `${basename(source)}.o`);
      return [...flags, ...FLAGS, ...sanitizer, `-I${headers}`, '-c', source, '-o', object];
    }),
  );
  const made = commands.map((command) => command.at(-1));
  const work = async () => {
    for (let next = commands.pop(); next !== undefined; next = commands.pop()) await run(next);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  const forLinker = parts.flatMap((part) => part.linkerFlags);
  await run([...sanitizer, ...forLinker, ...linkerFlags, '-o', file, ...made]);
  return file;
}
