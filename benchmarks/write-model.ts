/**
 * A small safetensors writer for the benchmarks' own files, pseudo-random weights or holes. Tensors
 * are ordered by dtype and name, the header is compact and padded to 8 bytes, as the reference does.
 */
import { open } from 'node:fs/promises';
import type { TensorSpec } from './model.js';

/** Bytes written per call: large enough that calls cost nothing, small enough for the cache. */
const BLOCK_BYTES = 4 * 2 ** 20;

/** The dtypes of these files; the reference writes tensors of a later one first. */
const DTYPES = ['U8', 'F8_E4M3', 'BF16', 'F32'];

/** Names are ASCII here, so that the order of UTF-16 units is the order of UTF-8 bytes. */
function compareTensors(a: TensorSpec, b: TensorSpec): number {
  const byDtype = DTYPES.indexOf(b.dtype) - DTYPES.indexOf(a.dtype);
  return byDtype === 0 ? (a.name < b.name ? -1 : 1) : byDtype;
}

/**
 * Length prefix and header for these tensors, laid out without gaps in the reference's order. With an
 * indent, its JSON has lines and blanks, as no usual writer makes them.
 */
export function encodeHeader(
  tensors: readonly TensorSpec[],
  metadata: Readonly<Record<string, string>>,
  indent = 0,
): Buffer {
  const entries = new Map<string, unknown>([['__metadata__', metadata]]);
  let end = 0;
  for (const tensor of [...tensors].sort(compareTensors)) {
    const begin = end;
    end += tensor.byteLength;
    const { dtype, shape } = tensor;
    entries.set(tensor.name, { dtype, shape, data_offsets: [begin, end] });
  }
  const json = JSON.stringify(Object.fromEntries(entries), null, indent);
  const header = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, ' ');
  header.writeBigUInt64LE(BigInt(header.length - 8));
  header.write(json, 8);
  return header;
}

function dataByteLength(tensors: readonly TensorSpec[]): number {
  return tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0);
}

/**
 * Makes a function that fills arrays with pseudo-random weights, two BF16 values per element. The
 * sequence is the same in every run: checksums can be compared.
 */
export function weightSource(): (target: Uint32Array) => void {
  let state = 1;
  return (target) => {
    let next = state;
    for (let index = 0; index < target.length; index++) {
      // Marsaglia's xorshift generator over 32 bits.
      next ^= next << 13;
      next ^= next >>> 17;
      next ^= next << 5;
      // Random signs and mantissas, one bit of the exponent: 0.0078 to 0.031, as weights are.
      target[index] = (next & 0x80ff_80ff) | 0x3c00_3c00;
    }
    state = next;
  };
}

/**
 * Writes the tensors with pseudo-random weights and flushes them to the disk. `onProgress` is called
 * now and then with the share done, 0 to 1.
 */
export async function writeModel(
  path: string,
  tensors: readonly TensorSpec[],
  signal: AbortSignal,
  onProgress?: (share: number) => void,
): Promise<void> {
  const total = dataByteLength(tensors);
  const fill = weightSource();
  const block = new Uint32Array(BLOCK_BYTES / 4);
  const bytes = new Uint8Array(block.buffer);
  const file = await open(path, 'wx');
  try {
    await file.writeFile(encodeHeader(tensors, { format: 'pt' }));
    for (let written = 0; written < total; ) {
      signal.throwIfAborted();
      fill(block);
      const length = Math.min(BLOCK_BYTES, total - written);
      await file.writeFile(length < BLOCK_BYTES ? bytes.subarray(0, length) : bytes);
      written += length;
      onProgress?.(written / total);
    }
    // Otherwise the system writes the pages back while the clocks of the trials run.
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Writes a file whose data is one hole: it reads as zeros and takes up no space. Metadata and indent as in
 * `encodeHeader`.
 */
export async function writeSparseModel(
  path: string,
  tensors: readonly TensorSpec[],
  {
    metadata = {},
    indent = 0,
  }: { metadata?: Readonly<Record<string, string>>; indent?: number | undefined } = {},
): Promise<void> {
  const header = encodeHeader(tensors, metadata, indent);
  const file = await open(path, 'wx');
  try {
    await file.writeFile(header);
    await file.truncate(header.length + dataByteLength(tensors));
  } finally {
    await file.close();
  }
}
