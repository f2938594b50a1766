/**
 * Converts every checkpoint of torch in a repository to safetensors beside it, and checks the result. Pickles are read as
 * data, never run; a repository with one that asks for more than tensors is refused as a whole. A checkpoint that was
 * converted before, and is the same still, is left alone.
 */
import { createHash } from 'node:crypto';
import { appendFileSync, createReadStream, existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { openCheckpoint, verifyCheckpoint } from 'safetensors-mmap';
import { convert, scanPickle } from 'safetensors-mmap/convert';

/** Key of the metadata for the hash of what was converted. */
const SOURCE_KEY = 'converted_from_sha256';
const CHECKPOINT = /^((?:diffusion_)?(?:pytorch_)?model)\.bin(?:\.index\.json)?$/;

/** Paths of checkpoints, or of their indexes, below a folder. */
function* findCheckpoints(folder) {
  const entries = readdirSync(folder, { withFileTypes: true });
  const names = new Set(entries.map(({ name }) => name));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    const isSkipped = entry.name.startsWith('.') || entry.name === 'node_modules';
    if (entry.isDirectory() && !isSkipped) yield* findCheckpoints(path);
    // An index counts before a single file, as for other readers.
    const isShadowed = names.has(`${entry.name}.index.json`);
    if (entry.isFile() && CHECKPOINT.test(entry.name) && !isShadowed) yield path;
  }
}

/** The files with tensors: the path itself, or what the index names. */
function filesOf(path) {
  if (!path.endsWith('.json')) return [path];
  const { weight_map: map } = JSON.parse(readFileSync(path, 'utf8'));
  const names = [...new Set(Object.values(map))].sort();
  const outside = names.filter((name) => basename(name) !== name);
  if (outside.length > 0) throw new Error(`${path} names files elsewhere: ${outside}`);
  return names.map((name) => join(dirname(path), name));
}

async function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files) {
    for await (const bytes of createReadStream(file)) hash.update(bytes);
  }
  return hash.digest('hex');
}

/** Why files must not be trusted; empty when every byte of them was accounted for. */
function suspicions(files) {
  return files.flatMap((file) => {
    const { verdict, globals, findings, problems } = scanPickle(file);
    if (verdict === 'safe') return [];
    const named = globals.filter(({ kind }) => kind !== 'allowed');
    const reasons = [
      ...named.map(({ module, name }) => `names ${module}.${name}`),
      ...findings.map(({ message }) => message),
      ...problems,
    ];
    return [`${file} is ${verdict}: ${reasons.slice(0, 5).join('; ')}`];
  });
}

/** The hash of what an earlier run converted; undefined when there is none, or when it is damaged. */
async function hashOfEarlier(folder, filenamePattern) {
  const [file, index] = ['.safetensors', '.safetensors.index.json'].map((ending) =>
    join(folder, filenamePattern.replace('{suffix}.safetensors', ending)),
  );
  for (const path of [file, index]) {
    if (!existsSync(path) || !(await verifyCheckpoint(path)).ok) continue;
    const checkpoint = openCheckpoint(path);
    const hash = checkpoint.metadata?.get(SOURCE_KEY);
    checkpoint.close();
    if (hash !== undefined) return hash;
  }
  return undefined;
}

async function convertOne(path, files, options) {
  const folder = dirname(path);
  const isDiffusion = basename(path).startsWith('diffusion_');
  const filenamePattern = `${isDiffusion ? 'diffusion_pytorch_model' : 'model'}{suffix}.safetensors`;
  const hash = await hashOf(files);
  if ((await hashOfEarlier(folder, filenamePattern)) === hash) return 'is converted already';
  // Compares checksums, and reads back what it wrote, before the new files get their names.
  const result = await convert(path, folder, {
    filenamePattern,
    metadata: { [SOURCE_KEY]: hash },
    ...options,
  });
  const { ok, problems } = await verifyCheckpoint(result.path);
  if (!ok) throw new Error(problems.map(({ message }) => message).join('; '));
  const tied = result.dropped.size === 0 ? '' : `, ${result.dropped.size} tied`;
  return `${result.files.join(', ')} (${(result.totalSize / 1e6).toFixed(1)} MB${tied})`;
}

/** To the log, and to the page of the run where there is one. */
function report(rows) {
  for (const [path, outcome] of rows) console.log(`${path}: ${outcome}`);
  const page = process.env.GITHUB_STEP_SUMMARY;
  if (page === undefined) return;
  const lines = rows.map(([path, outcome]) => `| ${path} | ${outcome.replaceAll('|', '\\|')} |`);
  appendFileSync(page, ['| checkpoint | outcome |', '|---|---|', ...lines, ''].join('\n'));
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'max-shard-size': { type: 'string', default: '5GB' } },
});
const [root = '.'] = positionals;
const cancelled = new AbortController();
process.once('SIGTERM', () => cancelled.abort(new Error('the run was cancelled')));
const options = { maxShardSize: values['max-shard-size'], signal: cancelled.signal };

const checkpoints = Array.from(findCheckpoints(root), (path) => ({ path, files: filesOf(path) }));
const refused = checkpoints.flatMap(({ files }) => suspicions(files));
const rows = [];
if (checkpoints.length === 0) {
  console.log(`no checkpoints below ${root}`);
} else if (refused.length > 0) {
  // One bad file is enough to look at all of them first.
  for (const text of refused) console.error(text);
  process.exitCode = 1;
} else {
  for (const { path, files } of checkpoints) {
    const name = relative(root, path);
    try {
      rows.push([name, await convertOne(path, files, options)]);
    } catch (error) {
      rows.push([name, `failed: ${error.message}`]);
      process.exitCode = 1;
    }
  }
  report(rows);
}
