/** Tensors of F4 and F6 as floats: elements have fewer bits than a byte, and stored slices must begin on one. */

import {
  DTYPES,
  type Dtype,
  open,
  type RemoteCheckpoint,
  type SliceIndex,
  type Tensor,
  type TensorEntry,
} from 'safetensors-mmap';
import type { SliceableTensor } from 'safetensors-mmap/inspect';

/** Whether elements have fewer bits than a byte. */
export function isPacked(dtype: Dtype): boolean {
  return DTYPES[dtype].bits % 8 !== 0;
}

/** Creates a tensor of F32. */
async function floatTensor(
  values: Float32Array<ArrayBuffer>,
  shape: readonly number[],
): Promise<Tensor> {
  const entry = { dtype: 'F32', shape, data_offsets: [0, values.byteLength] };
  const header = new TextEncoder().encode(JSON.stringify({ values: entry }));
  const length = BigUint64Array.of(BigInt(header.length));
  const checkpoint = await open(new Blob([length, header, values]));
  return await checkpoint.getTensor('values');
}

/**
 * Returns a tensor whose parts are read as F32, from the rows along the last dimension that each covers. If rows don't
 * end on a byte, the tensor is always read whole: it keeps its dtype, by which the library asks for a single part.
 */
export function packedTensor(
  checkpoint: RemoteCheckpoint,
  { name, dtype, shape }: TensorEntry,
  signal: AbortSignal,
): SliceableTensor {
  const last = shape.length - 1;
  const hasByteRows = ((shape.at(-1) ?? 1) * DTYPES[dtype].bits) % 8 === 0;
  const slice = async (...index: readonly SliceIndex[]): Promise<Tensor> => {
    const outer = hasByteRows ? index.slice(0, last) : [];
    const inner: readonly SliceIndex[] = hasByteRows ? ['...', ...index.slice(last)] : index;
    const rows = await checkpoint.getSlice(name, ...outer, { signal });
    return (await floatTensor(rows.toFloat32(), rows.shape)).slice(...inner);
  };
  return { dtype: hasByteRows ? 'F32' : dtype, shape, slice };
}
