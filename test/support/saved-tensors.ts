/** The contents of a saved checkpoint. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { InferredInput } from '../../src/write/input/tensor-input.js';
import { type NewTensor, safeOpen, type Tensor } from './api.js';
import { temporaryPath } from './make-file.js';

/** Tensors to be saved, in their order. */
export type Tensors = [string, InferredInput][];

/** An F32 tensor of `length` elements, each `value`. */
export function filled(length: number, value: number): NewTensor {
  return { dtype: 'F32', shape: [length], data: new Float32Array(length).fill(value) };
}

/** Dtype, shape and bytes of every tensor. */
type Content = Record<string, readonly [string, readonly number[], string]>;

/** The tensors of a checkpoint. */
export function tensorsOf(path: string, variant?: string): Content {
  using checkpoint = safeOpen(path, { variant });
  return Object.fromEntries(
    checkpoint.keys().map((name) => {
      const { dtype, shape, bytes }: Tensor = checkpoint.getTensor(name);
      return [name, [dtype, shape, Buffer.from(bytes).toString('hex')]] as const;
    }),
  );
}

/** The same of a checkpoint without problems; else throws an error that has them. */
export async function contentOf(path: string, variant?: string): Promise<Content> {
  {
    using checkpoint = safeOpen(path, { variant });
    const { problems } = await checkpoint.verify();
    const [first] = problems;
    if (first !== undefined) {
      throw Object.assign(new Error(first.message), { code: first.code, problems });
    }
  }
  return tensorsOf(path, variant);
}

/** Names and contents of a folder's files. */
export function filesOf(folder: string): Map<string, string> {
  const names = readdirSync(folder).sort();
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), 'latin1')]));
}

/** Tensors of equal length; the first has zeros, the second ones … */
export function equalTensors(byteLength: number, ...names: string[]): Tensors {
  return names.map((name, i) => [name, filled(byteLength / 4, i)]);
}

/** A folder with the named files, whose content is their name. */
export function folderWith(...names: string[]): string {
  const folder = temporaryPath('checkpoint');
  mkdirSync(folder);
  for (const name of names) writeFileSync(join(folder, name), name);
  return folder;
}
