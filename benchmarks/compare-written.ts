/** Whether what was written is what it was made of. */
import { open } from 'node:fs/promises';
import type { Checkpoint, SafetensorsFile } from 'safetensors-mmap';

const BLOCK_BYTES = 4 * 2 ** 20;

/** Whether two files have the same bytes. */
export async function haveSameBytes(path: string, other: string): Promise<boolean> {
  await using first = await open(path);
  await using second = await open(other);
  const [a, b] = [Buffer.alloc(BLOCK_BYTES), Buffer.alloc(BLOCK_BYTES)];
  const { size } = await first.stat();
  if ((await second.stat()).size !== size) return false;
  for (let at = 0; at < size; ) {
    const { bytesRead } = await first.read(a, 0, BLOCK_BYTES, at);
    await second.read(b, 0, bytesRead, at);
    if (bytesRead === 0 || a.compare(b, 0, bytesRead, 0, bytesRead) !== 0) return false;
    at += bytesRead;
  }
  return true;
}

/** Says how the tensors of a checkpoint differ from those of a file; undefined when they do not. */
export function tensorDifference(
  file: SafetensorsFile,
  checkpoint: Checkpoint,
): string | undefined {
  if (checkpoint.size !== file.size) return `wrote ${checkpoint.size} of ${file.size} tensors`;
  for (const [name, tensor] of file) {
    const { dtype, shape, bytes } = checkpoint.getTensor(name);
    const isSame = dtype === tensor.dtype && String(shape) === String(tensor.shape);
    if (!isSame || Buffer.compare(bytes, tensor.bytes) !== 0) return `wrote another ${name}`;
  }
  return undefined;
}
