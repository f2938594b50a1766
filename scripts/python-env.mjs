/**
 * Makes `.venv`, a Python environment with the packages of `scripts/fixtures/requirements.txt`, for the
 * tests and the benchmarks. Prints the path of its Python, the last line of stdout: the value for
 * SAFETENSORS_PYTHON. Does nothing when the environment is there with the same requirements. Arguments are
 * more files of requirements, which are installed too.
 *
 * The packages of `scripts/fixtures/huggingface_hub-2.txt` go to `.venv/huggingface_hub-2`, a folder for
 * PYTHONPATH: that version in addition to the one that transformers needs.
 *
 * PYTHON names the interpreter to start from; without it that is `python3`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const requirements = join(root, 'scripts/fixtures/requirements.txt');
const secondHub = join(root, 'scripts/fixtures/huggingface_hub-2.txt');
const environment = join(root, '.venv');
const secondHubFolder = join(environment, 'huggingface_hub-2');
const python =
  process.platform === 'win32'
    ? join(environment, 'Scripts', 'python.exe')
    : join(environment, 'bin', 'python');

/** Runs a command silently; its output is shown only when it fails, and then this script ends. */
function run(command, args, remedy) {
  const { status, error, stdout, stderr } = spawnSync(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status === 0) return;
  process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`);
  console.error(`python-env: ${command} ${args.join(' ')}: ${error?.message ?? `exit ${status}`}`);
  console.error(`python-env: ${remedy}`);
  process.exit(1);
}

/** The requirements that were installed into a folder. */
function stampOf(folder) {
  return join(folder, 'installed-requirements.txt');
}

function isUpToDate(folder, file) {
  const stamp = stampOf(folder);
  if (!existsSync(python) || !existsSync(stamp)) return false;
  return readFileSync(stamp, 'utf8') === readFileSync(file, 'utf8');
}

function install(file, ...options) {
  run(
    python,
    // One retry: with pip's default of five, a machine that has wheels but no network waits
    // several seconds per package.
    ['-m', 'pip', 'install', '--quiet', '--no-input', '--retries', '1', ...options, '-r', file],
    'the packages could not be installed; see the output above',
  );
}

if (!isUpToDate(environment, requirements)) {
  rmSync(environment, { recursive: true, force: true });
  console.error('python-env: installing Python packages into .venv (minutes at first) …');
  run(
    process.env.PYTHON ?? 'python3',
    ['-m', 'venv', environment],
    'Python 3.11 or newer with its venv module is needed (Debian: apt-get install python3-venv)',
  );
  install(requirements);
  writeFileSync(stampOf(environment), readFileSync(requirements, 'utf8'));
}
if (!isUpToDate(secondHubFolder, secondHub)) {
  rmSync(secondHubFolder, { recursive: true, force: true });
  install(secondHub, '--no-deps', '--target', secondHubFolder);
  writeFileSync(stampOf(secondHubFolder), readFileSync(secondHub, 'utf8'));
}
for (const file of process.argv.slice(2)) install(file);
console.log(python);
