/** Finds and makes what the rivals need beside the safetensors file itself. */
import { mkdir } from 'node:fs/promises';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { safeOpen } from 'safetensors-mmap';
import { endProgress, showProgress } from './command-line.js';
import type { Driver, InputFormat } from './drivers.js';
import { PYTHON_CHILDREN } from './places.js';
import { findPython, type Python } from './python.js';
import { rivalVersion } from './rivals.js';
import { ChildError, runChild } from './run-child.js';
import { freeTemporaryBytes } from './temporary-folder.js';
import { buildTouchLoop, type TouchLoop } from './touch-loop.js';

/** A file of weights, or a folder of them. */
export interface Input {
  readonly path: string;
  readonly files: readonly string[];
}

/** Tensors to read: all, or the one in the middle. Positions in bytes of the safetensors file. */
export interface Selection {
  /** Position among the tensors in the order of the file. */
  readonly index: number | 'all';
  readonly begin: number;
  readonly byteLength: number;
}

/** What is there to measure with. A text in place of a thing says why it is not there. */
export interface Equipment {
  readonly loop: TouchLoop | string;
  readonly python: Python | string;
  readonly inputs: Readonly<Record<InputFormat, Input | string>>;
  /** Versions of the npm packages of the rivals that are installed. */
  readonly npmPackages: Readonly<Record<string, string>>;
  readonly all: Selection;
  readonly middle: Selection;
}

type CopyFormat = Exclude<InputFormat, 'safetensors'>;
type Copies = Readonly<Record<CopyFormat, Input | string>>;

const COPY_FORMATS: readonly CopyFormat[] = [
  'torch',
  'torchLegacy',
  'pickle4',
  'pickle5',
  'npz',
  'npy',
  'hdf5',
];

const NPM_PACKAGES = ['@riaskov/mmap-io', 'mmap-io', 'pickleparser', 'jpickle'];

/** The copies are held in memory while they are written, with some room for the writer itself. */
const MEMORY_PER_BYTE = 1.3;

/** All tensors, and the largest one that lies over the middle of the data or behind it. */
function selections(path: string): Record<'all' | 'middle', Selection> {
  using file = safeOpen(path);
  const names = file.offsetKeys();
  const places = names.map((name, index) => {
    const [begin, end] = file.info(name).dataOffsets;
    return { index, begin, byteLength: end - begin };
  });
  const dataByteLength = places.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const begin = file.byteLength - dataByteLength;
  const behind = places.filter((place) => place.begin + place.byteLength > dataByteLength / 2);
  const longest = Math.max(...behind.map(({ byteLength }) => byteLength));
  const found = behind.find(({ byteLength }) => byteLength === longest);
  const all: Selection = { index: 'all', begin, byteLength: dataByteLength };
  return { all, middle: found ? { ...found, begin: begin + found.begin } : all };
}

function noCopies(reason: string): Copies {
  return Object.fromEntries(COPY_FORMATS.map((format) => [format, reason])) as Copies;
}

async function makeCopies(
  path: string,
  byteLength: number,
  formats: readonly CopyFormat[],
  folder: string,
  python: Python,
  signal: AbortSignal,
): Promise<Copies> {
  const skipped = noCopies('not needed');
  if (formats.length === 0) return skipped;
  if (freemem() < byteLength * MEMORY_PER_BYTE) return noCopies('too little memory for a copy');
  if ((await freeTemporaryBytes()) < formats.length * byteLength) {
    return noCopies('too little disk for copies');
  }
  const target = join(folder, 'copies');
  await mkdir(target);
  showProgress(`writing the same weights as ${formats.join(', ')}`);
  try {
    const args = [join(PYTHON_CHILDREN, 'make_copies.py'), path, target, ...formats];
    const made = await runChild<Partial<Copies>>({ file: python.file, args }, signal);
    return { ...skipped, ...made };
  } catch (error) {
    if (error instanceof ChildError) return noCopies(`copies failed: ${error.message}`);
    throw error;
  } finally {
    endProgress();
  }
}

/**
 * Compiles the loop, looks for Python and has it write the weights of the file in the formats that
 * the drivers read.
 */
export async function prepareEquipment(
  path: string,
  drivers: readonly Driver[],
  folder: string,
  signal: AbortSignal,
): Promise<Equipment> {
  showProgress('compiling the loop');
  const loop = await buildTouchLoop(signal);
  const python = await findPython(signal);
  endProgress();
  const { all, middle } = selections(path);
  const needed = new Set(drivers.map(({ input }) => input));
  const formats = COPY_FORMATS.filter((format) => needed.has(format));
  const copies =
    typeof python === 'string'
      ? noCopies(python)
      : typeof loop === 'string'
        ? noCopies('needs a C compiler')
        : await makeCopies(path, all.byteLength, formats, folder, python, signal);
  const versions = NPM_PACKAGES.map((name) => [name, rivalVersion(name)] as const);
  const npmPackages = Object.fromEntries(versions.filter(([, version]) => version !== undefined));
  const inputs = { safetensors: { path, files: [path] }, ...copies };
  return { loop, python, inputs, npmPackages: npmPackages as Record<string, string>, all, middle };
}
