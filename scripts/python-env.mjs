/**
 * Makes `.venv`, a Python environment with the packages of `scripts/fixtures/requirements.txt`, for the
 * tests and the benchmarks. Prints the path of its Python, the last line of stdout: the value for
 * SAFETENSORS_PYTHON. Does nothing when the environment is there with the same requirements. Arguments are
 * more files of requirements, which are installed too.
 *
 * PYTHON names the interpreter to start from; without it that is `python3`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const requirements = join(root, 'scripts/fixtures/requirements.txt');
const environment = join(root, '.venv');
const stamp = join(environment, 'installed-requirements.txt');
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

function isUpToDate() {
  if (!existsSync(python) || !existsSync(stamp)) return false;
  return readFileSync(stamp, 'utf8') === readFileSync(requirements, 'utf8');
}

function install(file) {
  run(
    python,
    // One retry: with pip's default of five, a machine that has wheels but no network waits
    // several seconds per package.
    ['-m', 'pip', 'install', '--quiet', '--no-input', '--retries', '1', '-r', file],
    'the packages could not be installed; see the output above',
  );
}

if (!isUpToDate()) {
  rmSync(environment, { recursive: true, force: true });
  console.error('python-env: installing Python packages into .venv (minutes at first) …');
  run(
    process.env.PYTHON ?? 'python3',
    ['-m', 'venv', environment],
    'Python 3.11 or newer with its venv module is needed (Debian: apt-get install python3-venv)',
  );
  install(requirements);
  writeFileSync(stamp, readFileSync(requirements, 'utf8'));
}
for (const file of process.argv.slice(2)) install(file);
console.log(python);
