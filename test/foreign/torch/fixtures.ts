/** The recorded checkpoints, and the expected result of each. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** An expected tensor. */
export interface ExpectedTensor {
  /** Keys from the root; an object for a key that JSON does not have. */
  readonly path: readonly (string | number | { readonly key: string })[];
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly nbytes: number;
  readonly sha256: string;
  readonly group: number;
}

/** One recorded file. */
export interface Fixture {
  readonly id: string;
  readonly file: string;
  readonly family: string;
  readonly expect: 'tensors' | 'either' | 'refuse';
  readonly tensors?: readonly ExpectedTensor[];
  readonly torch?: 'ok' | 'error';
  /** Whether plain pickle was seen to run its payload. */
  readonly armed?: boolean;
}

const folder = new URL('../../fixtures/torch/', import.meta.url);

/** All recorded files, those of NumPy among them. */
export const fixtures: readonly Fixture[] = JSON.parse(
  readFileSync(new URL('expected.json', folder), 'utf8'),
);

/** Path of the file of a fixture. */
export function fixturePath(file: string): string {
  return fileURLToPath(new URL(file, folder));
}

/** Path of a file that a scan must not call safe. */
export function scanFixture(file: string): string {
  return fileURLToPath(new URL(`../../fixtures/scan/${file}`, import.meta.url));
}
