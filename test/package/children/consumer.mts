// A stranger's program: compiled, not run, against the types of the installed package.
import {
  type Dtype,
  FormatError,
  loadFile,
  SafetensorsError,
  type SafetensorsFile,
  safeOpen,
  type Tensor,
} from 'safetensors-mmap';

export function firstValues(path: string): Map<string, number> {
  const values = new Map<string, number>();
  const file: SafetensorsFile = safeOpen(path);
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

export function explain(path: string): string {
  try {
    return `${loadFile(path).size} tensors`;
  } catch (error) {
    if (error instanceof FormatError) return `bad for ever: ${error.code}`;
    if (error instanceof SafetensorsError) return error.path ?? error.code;
    throw error;
  }
}

// @ts-expect-error a dtype is one of the 22 names
export const misspelt: Dtype = 'f32';
