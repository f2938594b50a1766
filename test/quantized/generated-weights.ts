/** Random weights of every scheme: tensors and configuration as its tool writes them. */
import { awq, bitsandbytes, gptq, mlx, pack } from './generated-packed.js';
import { byGroup, byRow, fp8Block, int8, mxfp4, mxfp8, nvfp4 } from './generated-rows.js';
import type { Maker } from './generated-tensors.js';

/** Makers by the name of what they make. */
export const MAKERS: Readonly<Record<string, Maker>> = {
  fp8Block, byRow, byGroup, mxfp8, int8, nvfp4, mxfp4, pack, bitsandbytes, gptq, awq, mlx,
}; // biome-ignore format: a list
