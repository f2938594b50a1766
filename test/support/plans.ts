/** Compares what a dry run says with what the same call does. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type PlannedFile, safeOpen } from '../../src/index.js';

/** What a folder has, or that it is missing; with the times of all files. */
export function stateOf(path: string): unknown {
  if (!existsSync(path)) return 'missing';
  const { mtimeMs } = statSync(path);
  if (statSync(path).isFile()) return [mtimeMs, readFileSync(path, 'latin1')];
  const inner = readdirSync(path).map((name) => [name, stateOf(join(path, name))] as const);
  return [mtimeMs, Object.fromEntries(inner)];
}

interface Plan {
  readonly path: string;
  readonly files: readonly PlannedFile[];
}

/** Files of a plan that have tensors. */
export function tensorFiles({ files }: Plan): string[] {
  return files.filter(({ tensors }) => tensors !== null).map(({ name }) => name);
}

/** Keys of results that only what was done can tell. */
const FOUND_OUT = ['undeleted', 'overflowed', 'receivedByteLength', 'presentByteLength'];

/**
 * Makes a plan, which must leave `target` as it was, then does the work. Expects that both fail in one way, or that
 * every fact of the plan is one of the result, and every planned file is there as it was planned.
 */
export async function expectSameAsPlanned(
  target: string,
  plan: () => Promise<Plan>,
  work: () => Promise<{ readonly path: string; readonly files: readonly unknown[] }>,
  fileOf: (name: string) => string = (name) => join(target, name),
): Promise<void> {
  const before = stateOf(target);
  const planned = await plan().catch((error: unknown) => error);
  expect(stateOf(target)).toEqual(before);
  const done = await work().catch((error: unknown) => error);
  // Headers do not tell that data are damaged.
  if (Object(done).code === 'SAFETENSORS_CHECKSUM_MISMATCH') return;
  if (done instanceof Error || planned instanceof Error) {
    const facts = (error: unknown): unknown[] => [Object(error).code, Object(error).message];
    expect(facts(planned)).toEqual(facts(done));
    return;
  }
  const { files, ...rest } = planned as Plan;
  const { files: written, ...result } = done as { readonly files: readonly unknown[] };
  for (const key of FOUND_OUT) delete (result as Record<string, unknown>)[key];
  expect(rest).toEqual(result);
  const names = written.map((file) => (typeof file === 'string' ? file : Object(file).name));
  const isAll = written.some((file) => typeof file !== 'string');
  expect(isAll ? files.map(({ name }) => name) : tensorFiles(planned as Plan)).toEqual(names);
  for (const { name, byteLength, tensors } of files) {
    expect([name, statSync(fileOf(name)).size]).toEqual([name, byteLength]);
    if (tensors === null) continue;
    using file = safeOpen(fileOf(name));
    expect(tensors).toEqual(file.offsetKeys());
  }
}
