/** Reads a file in every way that this package has for files of other formats. */
import { SafetensorsError, type Tensor } from 'safetensors-mmap';
import {
  openNumpy,
  openTorchCheckpoint,
  type ScanReport,
  scanPickle,
  type TorchCheckpoint,
} from 'safetensors-mmap/convert';

/** The result of a reader: a file's tensors, or the error that refused it. */
export type Outcome<Result> = Result | SafetensorsError;

/** Readers by name. A checkpoint's tensors are all of the file. */
export const READERS = {
  torch: (path: string) => openTorchCheckpoint(path, { root: [] }),
  placeholders: (path: string) =>
    openTorchCheckpoint(path, { root: [], unknownGlobals: 'placeholder', storage: 'read' }),
  numpy: (path: string) => openNumpy(path),
  opaque: (path: string) => openNumpy(path, { voidDtype: 'BF16', storage: 'read' }),
} as const;

/** Opens, calls `use` with every tensor, closes. Passes on errors that are not this package's. */
export function readAll(
  reader: keyof typeof READERS,
  path: string,
  use: (name: string, tensor: Tensor) => void,
  leaveOut: (name: string) => void = () => {},
): SafetensorsError | undefined {
  try {
    const file = READERS[reader](path);
    try {
      if ('root' in file) (file as TorchCheckpoint).values();
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
export function readEveryWay(path: string): Readings {
  const errors = new Map<keyof typeof READERS, SafetensorsError | undefined>();
  for (const reader of Object.keys(READERS) as (keyof typeof READERS)[]) {
    const error = readAll(reader, path, (_, tensor) => tensor.bytes);
    errors.set(reader, error);
  }
  scanPickle(path, { checksums: true });
  return { errors, report: scanPickle(path) };
}
