/** The checkpoints and arrays of `test/fixtures/torch`, and their expected results. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** One tensor of a fixture. */
export interface ExpectedTensor {
  readonly path: readonly (string | number)[];
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly nbytes: number;
  readonly sha256: string;
}

/** One file. */
export interface Fixture {
  readonly id: string;
  readonly file: string;
  readonly family: 'zip' | 'legacy' | 'other' | 'hostile-pickle' | 'hostile-zip' | 'numpy';
  readonly expect: 'tensors' | 'either' | 'refuse';
  readonly error?: string;
  readonly note: string;
  readonly tensors?: readonly ExpectedTensor[];
}

const folder = new URL('../fixtures/torch/', import.meta.url);

/** All fixtures. */
export const FIXTURES: readonly Fixture[] = JSON.parse(
  readFileSync(new URL('expected.json', folder), 'utf8'),
);

/** Path of a fixture's file. */
export function pathOf({ file }: Fixture): string {
  return fileURLToPath(new URL(file, folder));
}

/** The bytes of a fixture's file. */
export function bytesOf(fixture: Fixture): Buffer {
  return readFileSync(pathOf(fixture));
}
