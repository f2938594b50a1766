/** Files of other formats as safetensors files: a header, and the bytes of tensors as they are requested. */

import { layOut } from '../../header/header-writer.js';
import { type Checkpoint, dequantize, open, openPipeline } from '../../index.js';

/** A safetensors file that exists as far as it is read. */
export interface VirtualFile {
  readonly byteLength: number;
  /** The bytes from `begin` to `end`, tensor by tensor. Those of computed tensors are only of the rows in the range. */
  read(begin: number, end: number): Generator<Uint8Array>;
}

/** Rows of a tensor that are read at a time: those of computed ones are new memory. */
const MAX_BYTE_LENGTH = 2 ** 22;

/**
 * Opens a file of another format, with quantized weights as what they stand for. It stays open until the process ends.
 *
 * @throws As `open`; InvalidTensorError for names that no safetensors file has
 */
export async function openVirtualFile(path: string, signal: AbortSignal): Promise<VirtualFile> {
  const opened = (await open(path, { remote: false, signal })) as Checkpoint;
  return await virtualFile(
    opened.format === 'gguf' ? await dequantize(opened, { signal }) : opened,
    signal,
  );
}

/**
 * Opens the models of a DDUF archive, by their folders. They stay open until the process ends.
 *
 * @throws As `openPipeline`
 */
export async function openVirtualPipeline(
  path: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, VirtualFile>> {
  const { models } = await openPipeline(path, { remote: false, signal });
  const files = new Map<string, VirtualFile>();
  for (const [folder, model] of models) files.set(folder, await virtualFile(model, signal));
  return files;
}

async function virtualFile(checkpoint: Checkpoint, signal: AbortSignal): Promise<VirtualFile> {
  const { metadata } = checkpoint;
  const { header, placed, byteLength } = layOut(await checkpoint.tensors({ signal }), { metadata });
  return {
    byteLength,
    *read(begin, end) {
      if (begin < header.length) yield header.subarray(begin, Math.min(end, header.length));
      for (const { spec, begin: first, end: last } of placed) {
        const [from, to] = [header.length + first, header.length + last];
        if (to <= begin || from >= end || first === last) continue;
        const range = [Math.max(begin, from) - from, Math.min(end, to) - from] as const;
        yield* bytesOf(checkpoint, spec.name, range);
      }
    },
  };
}

/** Part of the bytes of a tensor. */
function* bytesOf(
  checkpoint: Checkpoint,
  name: string,
  [begin, end]: readonly [number, number],
): Generator<Uint8Array> {
  const tensor = checkpoint.getTensor(name);
  const [rows = 1] = tensor.shape;
  const rowLength = tensor.byteLength / rows;
  if (tensor.shape.length === 0 || !Number.isInteger(rowLength)) {
    yield tensor.bytes.subarray(begin, end);
    return;
  }
  const step = Math.max(1, Math.floor(MAX_BYTE_LENGTH / rowLength));
  const last = Math.ceil(end / rowLength);
  for (let row = Math.floor(begin / rowLength); row < last; row += step) {
    const { bytes } = tensor.slice([row, Math.min(last, row + step)]);
    const at = row * rowLength;
    yield bytes.subarray(Math.max(0, begin - at), Math.min(bytes.length, end - at));
  }
}
