/** Writes GGUF files by hand, valid and malformed. */
import { writeFileSync } from 'node:fs';
import { temporaryPath } from '../../support/make-file.js';

/** A value of the metadata: the number of its type, and its bytes. */
export type Value = readonly [type: number, bytes: Uint8Array];

/** A tensor: dimensions with the innermost first, as in the file. */
export interface MadeTensor {
  readonly name: string | Uint8Array;
  readonly dims: readonly (number | bigint)[];
  readonly type: number;
  readonly offset: number | bigint;
}

/** The parts of a file. What is left out is valid. */
export interface MadeGguf {
  readonly magic?: string;
  readonly version?: number;
  readonly isBigEndian?: boolean;
  readonly keys?: readonly (readonly [key: string | Uint8Array, value: Value])[];
  readonly keyCount?: number | bigint;
  readonly tensors?: readonly MadeTensor[];
  readonly tensorCount?: number | bigint;
  readonly alignment?: number;
  readonly data?: Uint8Array;
}

/** Encodes numbers of a file of one version and byte order. */
export class Encoder {
  readonly #isLittle: boolean;
  readonly #isWide: boolean;

  constructor({ version = 3, isBigEndian = false }: MadeGguf = {}) {
    this.#isLittle = !isBigEndian;
    this.#isWide = version !== 1;
  }

  u16(value: number): Uint8Array {
    const bytes = new Uint8Array(2);
    new DataView(bytes.buffer).setUint16(0, value, this.#isLittle);
    return bytes;
  }

  u32(value: number): Uint8Array {
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setUint32(0, value, this.#isLittle);
    return bytes;
  }

  f32(value: number): Uint8Array {
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setFloat32(0, value, this.#isLittle);
    return bytes;
  }

  u64(value: number | bigint): Uint8Array {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(value), this.#isLittle);
    return bytes;
  }

  length(value: number | bigint): Uint8Array {
    return this.#isWide ? this.u64(value) : this.u32(Number(value));
  }

  text(value: string | Uint8Array): Uint8Array {
    const bytes = Buffer.from(value as string);
    return Buffer.concat([this.length(bytes.length), bytes]);
  }

  array(type: number, count: number | bigint, items: readonly Uint8Array[] = []): Value {
    return [9, Buffer.concat([this.u32(type), this.length(count), ...items])];
  }
}

/** The bytes of a file. */
export function ggufBytes(made: MadeGguf): Buffer {
  const { magic = 'GGUF', version = 3, keys = [], tensors = [], alignment = 32, data } = made;
  const encoder = new Encoder(made);
  const header = Buffer.concat([
    Buffer.from(magic),
    encoder.u32(version),
    encoder.length(made.tensorCount ?? tensors.length),
    encoder.length(made.keyCount ?? keys.length),
    ...keys.flatMap(([key, [type, bytes]]) => [encoder.text(key), encoder.u32(type), bytes]),
    ...tensors.flatMap(({ name, dims, type, offset }) => [
      encoder.text(name),
      encoder.u32(dims.length),
      ...dims.map((size) => encoder.length(size)),
      encoder.u32(type),
      encoder.u64(offset),
    ]),
  ]);
  const padding = (alignment - (header.length % alignment)) % alignment;
  return Buffer.concat([header, Buffer.alloc(padding), data ?? new Uint8Array(0)]);
}

/** Writes a file that is removed after the test. */
export function writtenGguf(bytes: Uint8Array, name = 'model.gguf'): string {
  const path = temporaryPath(name);
  writeFileSync(path, bytes);
  return path;
}
