/** Adapters with the values that their originals compute. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { type AdapterSource, type Checkpoint, safeOpen, type Tensor } from '../support/api.js';

const folder = fileURLToPath(new URL('../fixtures/merge/', import.meta.url));

/** An adapter, its base, and the merged weights. */
export interface AdapterFixture {
  readonly name: string;
  readonly base: string;
  readonly adapter: AdapterSource;
  /** Tensors of the expected file; the others of the base stay as they are. */
  readonly expected: string;
  readonly skips?: boolean;
  readonly isNonFinite?: boolean;
}

const peft = (name: string): AdapterFixture => ({
  name,
  base: pathOf(name, 'base'),
  adapter: pathOf(name, 'adapter'),
  expected: pathOf(name, 'expected.safetensors'),
  isNonFinite: name === 'peft-nan',
});

const kohya = (model: string): AdapterFixture => ({
  name: `kohya-sd15-f32: ${model}`,
  base: pathOf('kohya-sd15-f32', `${model}.safetensors`),
  adapter: { source: pathOf('kohya-sd15-f32', 'lora0.safetensors'), scale: 0.8 },
  expected: pathOf('kohya-sd15-f32', `expected.${model}.safetensors`),
  skips: true,
});

const lyCoris = (name: string, file: string): AdapterFixture => {
  const { multiplier } = JSON.parse(readFileSync(pathOf(name, 'manifest.json'), 'utf8'));
  return {
    name: `${name}: ${file}`,
    base: pathOf(name, 'base.safetensors'),
    adapter: { source: pathOf(name, 'lora.safetensors'), scale: multiplier },
    expected: pathOf(name, `${file}.safetensors`),
  };
};

export function pathOf(...parts: readonly string[]): string {
  return join(folder, ...parts);
}

export const FIXTURES: readonly AdapterFixture[] = [
  ...[
    ...[
      'conv',
      'dora-linear',
      'embedding',
      'fan-in-fan-out',
      'ia3',
      'linear-bf16-base-f32-adapter',
    ],
    ...['linear-bf16-both', 'linear-f32', 'loha', 'lokr', 'lora-bias', 'nan', 'rslora-patterns'],
  ].map((name) => peft(`peft-${name}`)),
  kohya('unet'),
  kohya('text_encoder'),
  lyCoris('lyco-ia3', 'forward'),
  lyCoris('lyco-locon-mid', 'forward'),
  // Of LoCon the original merges as its forward pass computes; of LoHa and LoKr it applies alpha / rank twice.
  lyCoris('lyco-locon-mid', 'lycoris_merge_to'),
  lyCoris('lyco-loha', 'forward'),
  lyCoris('lyco-lokr', 'forward'),
];

/**
 * Expects equal values within the tolerance of the fixtures: the same bits in BF16 and F16, 3e-7 of the largest in F32.
 */
export function expectClose(found: Tensor, expected: Tensor): void {
  expect([found.dtype, found.shape]).toEqual([expected.dtype, expected.shape]);
  if (expected.dtype !== 'F32') {
    expect(found.bytes, expected.name).toEqual(expected.bytes);
    return;
  }
  const values = expected.toFloat32();
  const tolerance = 3e-7 * values.reduce((max, value) => Math.max(max, Math.abs(value) || 0), 0);
  const own = found.toFloat32();
  for (const [i, value] of values.entries()) {
    const isSame = Object.is(value, own[i]) || Math.abs(value - (own[i] as number)) <= tolerance;
    expect(isSame, `${expected.name}[${i}]: ${own[i]}, not ${value}`).toBe(true);
  }
}

/** The expected values, by name. */
export function expectedOf({ expected }: AdapterFixture): Checkpoint {
  return safeOpen(expected);
}
