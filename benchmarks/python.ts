/** Finding Python and what it has installed. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT_FOLDER, SOURCE_FOLDER } from './places.js';
import { runChild } from './run-child.js';

/** A Python that runs. */
export interface Python {
  readonly file: string;
  readonly version: string;
  /** Versions of those of the rivals' packages that are installed. */
  readonly packages: Readonly<Record<string, string>>;
}

// Asks for versions without importing anything: importing torch alone takes seconds.
const PROBE = `
import importlib.metadata, json, platform
packages = {}
for name in ("h5py", "ml_dtypes", "numpy", "safetensors", "torch"):
    try:
        packages[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps({"version": platform.python_version(), "packages": packages}))
`;

/** What `SAFETENSORS_PYTHON` names, else the environment made for the benchmarks or for the tests. */
function pythonFile(): string {
  const given = process.env['SAFETENSORS_PYTHON'];
  if (given !== undefined && given !== '') return given;
  const environments = [SOURCE_FOLDER, ROOT_FOLDER].map((folder) => join(folder, '.venv'));
  const found = environments.map((folder) => join(folder, 'bin/python')).find(existsSync);
  return found ?? 'python3';
}

/** The Python to use, or a line that says why there is none. */
export async function findPython(signal: AbortSignal): Promise<Python | string> {
  const file = pythonFile();
  try {
    const args = ['-c', PROBE];
    return { file, ...(await runChild<Omit<Python, 'file'>>({ file, args }, signal)) };
  } catch (error) {
    signal.throwIfAborted();
    return `no Python (${file}: ${error instanceof Error ? error.message : error})`;
  }
}
