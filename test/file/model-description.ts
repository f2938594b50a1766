/** Compares a file with Python's reading of it. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { expect } from 'vitest';
import { elementCountOf } from '../../src/header/tensor-spec.js';
import type { Checkpoint, Tensor } from '../support/api.js';

/** Python's reading of one tensor. */
export interface TensorDescription {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** SHA-256 of the raw bytes. */
  readonly sha256: string;
  /** SHA-256 of the values as float32, little endian; only for 8- and 16-bit floats. */
  readonly float32Sha256?: string;
}

/** Python's reading of one file, from `scripts/fixtures/make_models.py`. */
export interface FileDescription {
  readonly libraries: Readonly<Record<string, string>>;
  readonly seed: number;
  readonly byteLength: number;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly offsetKeys: readonly string[];
  /** In the order of the reference's `keys()`. */
  readonly tensors: readonly TensorDescription[];
}

/** Reads the description next to a model. */
export function readDescription(path: string): FileDescription {
  return JSON.parse(readFileSync(path, 'utf8')) as FileDescription;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Compares names, orders, size and metadata of an open file with Python's. */
export function expectSameFile(file: Checkpoint, path: string, python: FileDescription): void {
  const names = python.tensors.map((tensor) => tensor.name);
  expect(file.keys()).toEqual(names);
  expect(file.offsetKeys()).toEqual(python.offsetKeys);
  expect([...file].map(([name]) => name)).toEqual(python.offsetKeys);
  expect(file.size).toBe(names.length);
  expect(file.byteLength()).toBe(python.byteLength);
  expect(statSync(path).size).toBe(python.byteLength);
  expect(file.metadata && Object.fromEntries(file.metadata)).toEqual(python.metadata);
}

/** Compares dtype, shape, raw bytes, typed view and float32 values with Python's. */
export function expectSameTensor(tensor: Tensor, python: TensorDescription): void {
  expect(tensor.name).toBe(python.name);
  expect(tensor.dtype).toBe(python.dtype);
  expect(tensor.shape).toEqual(python.shape);
  expect(tensor.elementCount).toBe(elementCountOf(python.shape));
  expect(tensor.byteLength).toBe(tensor.bytes.byteLength);
  expect(sha256(tensor.bytes)).toBe(python.sha256);
  expect(sha256(bytesOf(tensor.data))).toBe(python.sha256);
  if (python.float32Sha256 !== undefined) {
    const values = tensor.toFloat32();
    expect(values.length).toBe(tensor.elementCount);
    expect(sha256(bytesOf(values))).toBe(python.float32Sha256);
  }
}
