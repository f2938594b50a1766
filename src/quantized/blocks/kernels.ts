/** The kernels of block types: native ones, else in TypeScript. Those with codebooks load on first use. */

import { NATIVE_BLOCK_TYPES, nativeKernels } from '../../tensor/float32/kernels.js';
import type { BlockKernel } from './small-blocks.js';
import * as small from './small-blocks.js';
import * as large from './super-blocks.js';

/** Of the types without a codebook. */
const KERNELS: ReadonlyMap<string, BlockKernel> = new Map([
  ['Q4_0', small.decodeQ4_0],
  ['Q4_1', small.decodeQ4_1],
  ['Q5_0', small.decodeQ5_0],
  ['Q5_1', small.decodeQ5_1],
  ['Q8_0', small.decodeQ8_0],
  ['Q8_1', small.decodeQ8_1],
  ['IQ4_NL', small.decodeIQ4_NL],
  ['MXFP4', small.decodeMXFP4],
  ['NVFP4', small.decodeNVFP4],
  ['Q1_0', small.decodeQ1_0],
  ['Q2_K', large.decodeQ2_K],
  ['Q3_K', large.decodeQ3_K],
  ['Q4_K', large.decodeQ4_K],
  ['Q5_K', large.decodeQ5_K],
  ['Q6_K', large.decodeQ6_K],
  ['Q8_K', large.decodeQ8_K],
  ['IQ4_XS', large.decodeIQ4_XS],
  ['TQ1_0', large.decodeTQ1_0],
  ['TQ2_0', large.decodeTQ2_0],
]);

/** Returns the kernels of some block types, by name. */
export async function blockKernels(types: Iterable<string>): Promise<Map<string, BlockKernel>> {
  const kernels = new Map<string, BlockKernel>();
  for (const type of types) {
    const kernel = nativeKernel(type) ?? KERNELS.get(type) ?? (await codebookKernel(type));
    kernels.set(type, kernel);
  }
  return kernels;
}

function nativeKernel(name: string): BlockKernel | undefined {
  const type = NATIVE_BLOCK_TYPES.find((native) => native === name);
  const kernels = nativeKernels();
  if (type === undefined || kernels === undefined) return undefined;
  return (blocks, into) => kernels.decodeBlocks(type, blocks, into);
}

async function codebookKernel(type: string): Promise<BlockKernel> {
  const books = await import('./codebook-blocks.js');
  const kernels: Readonly<Record<string, BlockKernel>> = {
    IQ1_S: books.decodeIQ1_S,
    IQ1_M: books.decodeIQ1_M,
    IQ2_XXS: books.decodeIQ2_XXS,
    IQ2_XS: books.decodeIQ2_XS,
    IQ2_S: books.decodeIQ2_S,
    IQ3_XXS: books.decodeIQ3_XXS,
    IQ3_S: books.decodeIQ3_S,
  };
  return kernels[type] as BlockKernel;
}
