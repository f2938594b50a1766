/** Compares the report of a dry run with the result of the same call. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect } from 'vitest';
import { type NewTensor, type PlannedFile, safeOpen } from './api.js';
import { writeBelow } from './make-checkpoint.js';
import { temporaryPath } from './make-file.js';

/** The contents of a folder with the times of all files, or that it is missing. */
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

/** Keys of results that a dry run cannot know. */
const FOUND_OUT = ['failedDeletions', 'overflowed', 'downloadedBytes', 'reusedBytes'];

/**
 * Makes a plan, which must leave `target` as it was, then does the work. Expects that both fail in one way, or that
 * every fact of the plan is one of the result, and every planned file is there as it was planned. With `excluded`
 * these are the names that a selection leaves out.
 */
export async function expectSameAsPlanned(
  target: string,
  plan: () => Promise<object>,
  work: () => Promise<{ readonly path: string; readonly files: readonly unknown[] }>,
  excluded?: readonly string[],
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
  const { files, index, ...rest } = planned as Plan & { readonly index: string | null };
  const { files: written, ...result } = done as { readonly files: readonly unknown[] };
  if (excluded !== undefined) {
    expect(Object(planned).excluded.toSorted()).toEqual(excluded.toSorted());
  }
  for (const key of FOUND_OUT) delete (result as Record<string, unknown>)[key];
  // `download` has it among its files.
  expect({ index, ...rest }).toEqual({ index, ...result });
  if (index !== null) expect(files.map(({ name }) => name)).toContain(index);
  const names = written.map((file) => (typeof file === 'string' ? file : Object(file).name));
  const isAll = written.some((file) => typeof file !== 'string');
  expect(isAll ? files.map(({ name }) => name) : tensorFiles(planned as Plan)).toEqual(names);
  for (const { name, byteLength, tensors, ...more } of files) {
    const { path = join(target, name) }: { path?: string } = more;
    expect([name, statSync(path).size]).toEqual([name, byteLength]);
    if (tensors === null) continue;
    using file = safeOpen(path);
    expect(tensors).toEqual(file.offsetKeys());
  }
}

const BYTES = { F32: 4, BF16: 2, U8: 1, I64: 8 } as const;

/** Tensors whose data is of one buffer, so that some are one tensor by several names. */
export const models = fc
  .dictionary(
    fc.constantFrom('a', 'b.weight', 'c', 'norm', 'embed', 'é', 'total'),
    fc.record({
      dtype: fc.constantFrom(...(['F32', 'BF16', 'U8', 'I64'] as const)),
      shape: fc.array(fc.nat(3), { maxLength: 2 }),
      offset: fc.constantFrom(0, 16),
    }),
    { minKeys: 1 },
  )
  .map((specs) => {
    const { buffer } = Uint8Array.from({ length: 128 }, (_, i) => i);
    const tensors = Object.entries(specs).map(([name, { dtype, shape, offset }]) => {
      const byteLength = shape.reduce((product, size) => product * size, BYTES[dtype]);
      const data = new Uint8Array(buffer, offset, byteLength);
      return [name, { dtype, shape, data }] as [string, NewTensor];
    });
    return new Map(tensors);
  });

export const layouts = fc.record({
  maxShardSize: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constant(Number.POSITIVE_INFINITY)),
  variant: fc.constantFrom(undefined, 'fp16'),
});

export const selections = fc.record({
  dtype: fc.constantFrom(undefined, 'F16', 'F32'),
  names: fc.constantFrom(undefined, (name: string) => name < 'd'),
  rename: fc.constantFrom(undefined, (name: string) => `model.${name}`),
} as const);

/** Names of a model that a selection leaves out. */
export function excludedOf(
  model: ReadonlyMap<string, unknown>,
  { names }: { readonly names?: ((name: string) => boolean) | undefined },
): string[] {
  return [...model.keys()].filter((name) => names?.(name) === false);
}

/** The target's files before the call. */
export const olds = fc.subarray([
  'model.safetensors',
  'model-00001-of-00003.safetensors',
  'model-00003-of-00003.safetensors',
  'model.safetensors.index.json',
  'config.json',
  'other.safetensors',
]);

let paths = 0;

/** A path of its own for every run of a property. */
export function newPath(name: string): string {
  return temporaryPath(`${name}-${paths++}`);
}

/** A folder with these files, the index among them; missing without files. */
export function newTarget(old: readonly string[]): string {
  const target = newPath('target');
  if (old.length === 0) return target;
  for (const name of old) writeBelow(target, name, '{"metadata":{},"weight_map":{}}');
  return target;
}
