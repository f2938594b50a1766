// A stranger's program: compiled, not run, against the types of the installed package.
import { writeFileSync } from 'node:fs';
import {
  type Checkpoint,
  type Dtype,
  FormatError,
  loadFile,
  open,
  type RemoteCheckpoint,
  SafetensorsError,
  safeOpen,
  saveFile,
  serialize,
  type Tensor,
  type TensorInput,
  type TensorOf,
} from 'safetensors-mmap';

export function firstValues(path: string): Map<string, number> {
  const values = new Map<string, number>();
  const file: Checkpoint = safeOpen(path);
  for (const name of file.keys()) {
    const tensor: Tensor = file.getTensor(name);
    const dtype: Dtype = tensor.dtype;
    const shape: readonly number[] = file.info(name).shape;
    const bytes: Uint8Array = tensor.bytes;
    if (dtype === 'F32' && shape.length > 0 && bytes.length > 0) {
      values.set(name, tensor.toFloat32()[0] ?? Number.NaN);
    }
  }
  const format: string | undefined = file.metadata?.get('format');
  if (format === undefined) values.clear();
  file.close();
  return values;
}

// Its declaration has to name the types by the package, not by a file within.
export const described = (path: string) => [safeOpen(path), safeOpen(path).toJSON()] as const;

export function explain(path: string): string {
  try {
    return `${loadFile(path).size} tensors`;
  } catch (error) {
    if (error instanceof FormatError) return `bad for ever: ${error.code}`;
    if (error instanceof SafetensorsError) return error.path ?? error.code;
    throw error;
  }
}

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** Takes only the value `true`; the type argument says what must hold. */
function holds<_Claim extends true>(): void {}

export function narrowed(tensor: Tensor, half: TensorOf<'F16' | 'BF16'>): number | bigint {
  if (tensor.dtype === 'F32') {
    const { data } = tensor;
    holds<Same<typeof data, Float32Array<ArrayBuffer>>>();
    let total = 0;
    for (const value of data) total += value;
    return total;
  }
  if (tensor.dtype === 'I64' || tensor.dtype === 'U64') {
    let total = 0n;
    for (const value of tensor.data) total += value;
    return total;
  }
  if (tensor.dtype === 'F16' || tensor.dtype === 'BF16') {
    const bits: Uint16Array<ArrayBuffer> = tensor.data;
    return bits.length + half.data.length;
  }
  switch (tensor.dtype) {
    case 'I8':
      holds<Same<typeof tensor.data, Int8Array<ArrayBuffer>>>();
      break;
    case 'C64':
      holds<Same<typeof tensor.data, Float32Array<ArrayBuffer>>>();
      break;
  }
  // @ts-expect-error it was returned above
  if (tensor.dtype === 'F32') return 0;
  const floats = tensor.expectDtype('F64');
  holds<Same<typeof floats, TensorOf<'F64'>>>();
  const row = floats.slice(0);
  holds<Same<typeof row.data, Float64Array<ArrayBuffer>>>();
  const part = tensor.slice([0, 2]);
  holds<Same<typeof part, typeof tensor>>();
  const rows = tensor.expectDtype('BF16').take(BigInt64Array.of(1n), { into: new Uint16Array(4) });
  holds<Same<typeof rows.data, Uint16Array<ArrayBuffer>>>();
  const someRows: Tensor = tensor.take([0, 1n]).copy();
  const values: Float32Array<ArrayBuffer> = someRows.takeFloat32(new Int32Array(2));
  const shared = new Float32Array(new SharedArrayBuffer(16));
  const sameArray: Float32Array<SharedArrayBuffer> = tensor.takeFloat32([0], { into: shared });
  // @ts-expect-error float32 values go into float32 arrays
  tensor.takeFloat32([0], { into: new Float64Array(4) });
  const anyTensor: Tensor = floats;
  const ofAny: TensorOf<Dtype> = anyTensor;
  const view: Int16Array = ofAny.view(Int16Array);
  const doubles: Float64Array = tensor.view(Float64Array, { reinterpret: true });
  // @ts-expect-error of another dtype
  const other: TensorOf<'F32'> = floats;
  // @ts-expect-error only after a look at dtype
  const unknownData: Float32Array = anyTensor.data;
  // @ts-expect-error not one of the 22
  tensor.expectDtype('float32');
  return (
    view.length +
    doubles.length +
    values.length +
    sameArray.length +
    other.elementCount +
    unknownData.length
  );
}

export function byDtype(file: Checkpoint): Map<Dtype, Tensor[]> {
  const found = new Map<Dtype, Tensor[]>();
  for (const [, tensor] of file) found.set(tensor.dtype, [tensor]);
  const tensors: ReadonlyMap<string, Tensor> = file.getTensors();
  for (const tensor of tensors.values()) {
    const { dtype, data } = tensor;
    if (dtype === 'U8') data.subarray(1) satisfies Uint8Array;
  }
  return found;
}

// @ts-expect-error a dtype is one of the 22 names
export const misspelt: Dtype = 'f32';

export async function save(path: string, file: Checkpoint): Promise<void> {
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield Uint8Array.of(1, 2);
  }
  const tensors: Record<string, TensorInput> = {
    copied: file.getTensor('a'),
    made: { dtype: 'U8', shape: [2], data: Uint8Array.of(1, 2) },
    streamed: { dtype: 'U8', shape: [2], data: pieces() },
    later: { dtype: 'U8', shape: [2], data: () => pieces() },
  };
  await saveFile(path, tensors);
  // @ts-expect-error a stream cannot be waited for
  serialize(tensors);
  const inMemory: Record<string, TensorInput<Dtype, never>> = {};
  writeFileSync(path, serialize(inMemory));
}

export async function remote(source: string | URL | Blob): Promise<number> {
  using checkpoint: RemoteCheckpoint = (await open(source as Blob, {
    headers: [['x-key', '1']],
  })) as RemoteCheckpoint;
  const same: Tensor = await checkpoint.getTensor('a', { signal: AbortSignal.timeout(1000) });
  await saveFile('copy.safetensors', { a: same });
  // @ts-expect-error only after await
  checkpoint.byteLength().toFixed();
  return await checkpoint.byteLength();
}
