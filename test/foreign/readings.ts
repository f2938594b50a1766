/** Reads a file in every way that this package has for files of other formats. */
import { open, SafetensorsError, type ScanReport, scanPickle, type Tensor } from 'safetensors-mmap';

/** The result of a reader: a file's tensors, or the error that refused it. */
export type Outcome<Result> = Result | SafetensorsError;

const TORCH = { formats: ['torch'], remote: false } as const;
const NUMPY = { formats: ['numpy'], remote: false } as const;

/** Readers by name. A checkpoint's tensors are all of the file. */
export const READERS = {
  torch: (path: string) => open(path, { ...TORCH, root: [] }),
  placeholders: (path: string) =>
    open(path, { ...TORCH, root: [], unknownGlobals: 'placeholder', storage: 'read' }),
  numpy: (path: string) => open(path, NUMPY),
  opaque: (path: string) => open(path, { ...NUMPY, voidDtype: 'BF16', storage: 'read' }),
} as const;

/** Opens, calls `use` with every tensor, closes. Passes on errors that are not this package's. */
export async function readAll(
  reader: keyof typeof READERS,
  path: string,
  use: (name: string, tensor: Tensor) => void,
  leaveOut: (name: string) => void = () => {},
): Promise<SafetensorsError | undefined> {
  try {
    const file = await READERS[reader](path);
    try {
      await file.extra();
      JSON.stringify(file);
      for (const [name, tensor] of file) use(name, tensor);
      for (const { tensor } of file.problems) leaveOut(tensor as string);
    } finally {
      file.close({ detach: true });
    }
    return undefined;
  } catch (error) {
    if (error instanceof SafetensorsError) return error;
    throw error;
  }
}

/** The result of a file. */
export interface Readings {
  readonly errors: ReadonlyMap<keyof typeof READERS, SafetensorsError | undefined>;
  readonly report: ScanReport;
}

/** Reads every byte of every tensor, in every way, and scans. */
export async function readEveryWay(path: string): Promise<Readings> {
  const errors = new Map<keyof typeof READERS, SafetensorsError | undefined>();
  for (const reader of Object.keys(READERS) as (keyof typeof READERS)[]) {
    const error = await readAll(reader, path, (_, tensor) => tensor.bytes);
    errors.set(reader, error);
  }
  await scanPickle(path, { verify: true });
  return { errors, report: await scanPickle(path) };
}
