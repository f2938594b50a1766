/** The recorded quantized checkpoints, and which of their tensors are plain numbers. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/source-tree.js';

const folder = join(root, 'test/fixtures/quantized');

interface Recorded {
  readonly id: string;
  readonly plain?: readonly string[];
}

/** A quantized checkpoint. */
export interface QuantizedModel {
  readonly id: string;
  readonly path: string;
  isPlain(name: string): boolean;
}

const manifest: { fixtures: Recorded[] } = JSON.parse(
  readFileSync(join(folder, 'manifest.json'), 'utf8'),
);

/** All of them. In the broken ones, the norm is plain, and so is a weight next to its packed form. */
export const QUANTIZED_MODELS: readonly QuantizedModel[] = manifest.fixtures.map(
  ({ id, plain }) => ({
    id,
    path: join(folder, id),
    isPlain: (name) =>
      plain?.includes(name) ??
      (name === 'model.norm.weight' || (id === 'bad-name-collision' && name.endsWith('.weight'))),
  }),
);
