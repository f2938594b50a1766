/** Tensors by name: what readers of all formats give. */

/** A tensor as a reader hands it out. */
export interface NamedTensor {
  readonly bytes: Uint8Array;
  /** What the reader says about its elements. */
  readonly dtype: string;
}

/** An open file. */
export interface NamedTensors {
  readonly names: Iterable<string>;
  get(name: string): NamedTensor | Promise<NamedTensor>;
}

/** Opens a file; what the package needs is loaded. */
export type OpenTensors = (path: string) => NamedTensors | Promise<NamedTensors>;

/** Tensors that are all there when the file has been read. */
export function readTensors(tensors: ReadonlyMap<string, NamedTensor>): NamedTensors {
  return { names: tensors.keys(), get: (name) => known(tensors.get(name), name) };
}

/** What was found by a name. */
export function known<Value>(value: Value | undefined, name: string): Value {
  if (value === undefined) throw new Error(`there is no ${name}`);
  return value;
}
