/** What a torch checkpoint has besides its tensors, as plain data. */

/** Keys that lead into a checkpoint: texts of dicts, numbers of lists and dicts. */
export type RootKeys = readonly (string | number)[];

/** One of Python's complex numbers. */
export interface ComplexValue {
  /** The real part. */
  readonly real: number;
  /** The imaginary part. */
  readonly imag: number;
}

/** Placeholder for the result of an unknown global, which was not run. */
export interface UnknownObject {
  /** Module and name of the class or function, such as `argparse.Namespace`. */
  readonly global: string;
  /** The arguments of the call. */
  readonly args: readonly PlainValue[];
  /** The object's state, such as its attributes; null without one. */
  readonly state: PlainValue;
  /** The items to append. */
  readonly items: readonly PlainValue[];
  /** The entries to set. */
  readonly entries: ReadonlyMap<PlainValue, PlainValue>;
}

/**
 * A value of a checkpoint as plain data. Dicts are Maps, lists and tuples arrays, integers beyond 2^53
 * bigints; dtypes, devices and layouts are texts such as `torch.float32`. A value may hold itself.
 */
export type PlainValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly PlainValue[]
  | ReadonlyMap<PlainValue, PlainValue>
  | ReadonlySet<PlainValue>
  | ComplexValue
  | UnknownObject;
