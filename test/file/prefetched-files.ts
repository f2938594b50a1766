/** Files that are prefetched, and a kernel that is too old to populate pages. */
import { randomBytes } from 'node:crypto';
import process from 'node:process';
import type { Entry } from '../support/make-file.js';
import { type Python, runPython } from '../support/python.js';
import { childPath } from '../support/run-child.js';

export const MIB: number = 2 ** 20;

/** Bytes that no file system compresses or leaves out. */
const noise = randomBytes(64 * MIB);

/** Four tensors. A prefetch takes windows of 4 MiB. */
function tensorsOf(byteLength: number): readonly Entry[] {
  return ['a', 'b', 'c', 'd'].map((name, i) => {
    const bytes = noise.subarray(i * byteLength, (i + 1) * byteLength);
    return { name, dtype: 'U8', shape: [bytes.length], bytes };
  });
}

/** Sixteen windows. */
export const large: readonly Entry[] = tensorsOf(16 * MIB);
/** Four windows. */
export const medium: readonly Entry[] = tensorsOf(4 * MIB);

/** Runs a script of `test` as a kernel before 5.14 would, and returns the JSON that it prints. */
export function runOnOldKernel<Result>(
  python: Python,
  script: string,
  args: readonly string[],
): Result {
  const command = [process.execPath, '--expose-gc', childPath(script), ...args];
  return JSON.parse(
    runPython(python, [childPath('file/children/old_kernel.py'), ...command]),
  ) as Result;
}
