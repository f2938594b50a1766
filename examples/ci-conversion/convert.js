/**
 * Converts every PyTorch checkpoint of a repository to safetensors and checks the result. Pickles are read as data,
 * never run. If any file of the repository is or contains a pickle that names more than tensors need, nothing is
 * converted. A checkpoint that was converted before and has not changed is left alone.
 */
import { createHash } from 'node:crypto';
import { appendFileSync, createReadStream, existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { convert, safeOpen, scanPickle, verify } from 'safetensors-mmap';

/** Key of the metadata for the hash of what was converted. */
const SOURCE_KEY = 'converted_from_sha256';
const CHECKPOINT = /^((?:diffusion_)?(?:pytorch_)?model)\.bin(?:\.index\.json)?$/;

/** Names of files that loaders unpickle, or read as an archive or array that may contain a pickle. */
const LOADED = /\.(?:bin|ckpt|pth?|pt2|th|pkl|pickle|p|dill|joblib|np[yz]|pdparams|pdopt)$/i;

/** Every file below a folder, but those of Git and of installed packages. */
function* findFiles(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    const isSkipped = entry.name === '.git' || entry.name === 'node_modules';
    if (entry.isDirectory() && !isSkipped) yield* findFiles(path);
    if (entry.isFile()) yield path;
  }
}

/** The checkpoints, or their indexes, among the files below a folder. */
function checkpointsAmong(paths, folder) {
  const all = new Set(paths);
  return paths.filter((path) => {
    const isHidden = /(?:^|[\\/])\./.test(relative(folder, path));
    // An index takes precedence over a single file, as for other readers.
    return CHECKPOINT.test(basename(path)) && !isHidden && !all.has(`${path}.index.json`);
  });
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

/**
 * Why a file must not be trusted; undefined if it is safe to unpickle or has no pickle. Names don't decide: any file
 * may be loaded as a pickle, and archives contain them.
 */
async function suspicion(file) {
  const { verdict, pickleCount, globals, findings, problems } = await scanPickle(file);
  if (verdict === 'safe' || verdict === 'no-pickle') return undefined;
  const isUnread = findings.some(({ kind }) => kind.endsWith('-archive'));
  // Pictures, programs and the like: no pickle, and no loader takes them for one.
  if (pickleCount === 0 && globals.length === 0 && !isUnread && !LOADED.test(file))
    return undefined;
  const named = globals.filter(({ kind }) => kind !== 'allowed');
  const reasons = [
    ...named.map(({ module, name }) => `names ${module}.${name}`),
    ...findings.map(({ message }) => message),
    ...problems,
  ];
  return `${file} is ${verdict}: ${reasons.slice(0, 5).join('; ')}`;
}

/** The hash of what an earlier run converted; undefined when there is none, or when it is damaged. */
async function hashOfEarlier(folder, filenamePattern) {
  const [file, index] = ['.safetensors', '.safetensors.index.json'].map((ending) =>
    join(folder, filenamePattern.replace('{suffix}.safetensors', ending)),
  );
  for (const path of [file, index]) {
    if (!existsSync(path) || !(await verify(path)).ok) continue;
    const checkpoint = safeOpen(path);
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
  const { ok, problems } = await verify(result.path);
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
  options: {
    'max-shard-size': { type: 'string', default: '5GB' },
    // A file that you have examined, such as training_args.bin; may be repeated.
    accept: { type: 'string', multiple: true, default: [] },
  },
});
const [root = '.'] = positionals;
const cancelled = new AbortController();
process.once('SIGTERM', () => cancelled.abort(new Error('the run was cancelled')));
const options = { maxShardSize: values['max-shard-size'], signal: cancelled.signal };

const all = [...findFiles(root)];
const checkpoints = checkpointsAmong(all, root).map((path) => ({ path, files: filesOf(path) }));
const accepted = new Set(values.accept.map((path) => resolve(root, path)));
const scanned = new Set([...all, ...checkpoints.flatMap(({ files }) => files)]);
const refused = [];
for (const path of scanned) {
  const reason = accepted.has(resolve(path)) ? undefined : await suspicion(path);
  if (reason !== undefined) refused.push(reason);
}
const rows = [];
if (refused.length > 0) {
  // One bad file is reason enough to examine all of them first.
  for (const text of refused) console.error(text);
  process.exitCode = 1;
} else if (checkpoints.length === 0) {
  console.log(`no checkpoints below ${root}`);
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
