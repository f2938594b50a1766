/** Finds and makes what the rivals need beside the safetensors file itself. */
import { freemem } from 'node:os';
import { join } from 'node:path';
import { endProgress, showProgress } from './command-line.js';
import type { Equipment, Input, InputFormat } from './drivers.js';
import { findPython, type Python } from './python.js';
import { ChildError, runChild } from './run-child.js';
import { freeTemporaryBytes } from './temporary-folder.js';
import { buildTouchLoop } from './touch-loop.js';

/** The weights that everything is about. */
export interface Weights {
  readonly path: string;
  /** Size of the file. */
  readonly byteLength: number;
}

/** The copies are held in memory while they are written, with some room for the writer itself. */
const MEMORY_PER_BYTE = 1.3;

type Copies = Readonly<Record<Exclude<InputFormat, 'safetensors'>, Input | string>>;

async function makeCopies(
  weights: Weights,
  folder: string,
  python: Python,
  signal: AbortSignal,
): Promise<Copies> {
  const { byteLength } = weights;
  if (freemem() < byteLength * MEMORY_PER_BYTE) return noCopies('too little memory for a copy');
  if ((await freeTemporaryBytes()) < 2 * byteLength) return noCopies('too little disk for copies');
  const script = join(import.meta.dirname, '../children/make_copies.py');
  const pickle = join(folder, 'weights.pickle');
  const torch = 'torch' in python.packages ? join(folder, 'weights.pt') : '-';
  const args = [script, weights.path, pickle, torch];
  showProgress('writing the same weights with pickle and torch.save');
  try {
    const reasons = await runChild<Record<'pickle' | 'torch', string | null>>(
      { file: python.file, args },
      signal,
    );
    return {
      pickle: reasons.pickle ?? { path: pickle },
      torch: reasons.torch ?? (torch === '-' ? 'Python has no torch' : { path: torch }),
    };
  } catch (error) {
    if (error instanceof ChildError) return noCopies(`copies failed: ${error.message}`);
    throw error;
  } finally {
    endProgress();
  }
}

function noCopies(reason: string): Copies {
  return { torch: reason, pickle: reason };
}

/** Compiles the loop, looks for Python and has it write the weights in its own formats. */
export async function prepareEquipment(
  weights: Weights,
  folder: string,
  signal: AbortSignal,
): Promise<Equipment> {
  showProgress('compiling the loop');
  const loop = await buildTouchLoop(signal);
  const python = await findPython(signal);
  endProgress();
  const copies =
    typeof python === 'string'
      ? noCopies(python)
      : typeof loop === 'string'
        ? noCopies('needs a C compiler')
        : await makeCopies(weights, folder, python, signal);
  return { loop, python, inputs: { safetensors: { path: weights.path }, ...copies } };
}
