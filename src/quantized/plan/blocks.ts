/** The plan of a GGUF checkpoint: each tensor of blocks is a weight by itself, whatever the names of others. */

import type { Quantization } from '../../file/source/tensor-info.js';
import { forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import { BLOCK_TYPES, type BlockType, blockTypeOf } from '../blocks/types.js';
import type { BlockLayout, LogicalPlan, StoredTensor } from './logical-plan.js';
import type { CheckpointPlan } from './plan.js';

/** A tensor as a checkpoint lists it. */
export interface ListedTensor extends StoredTensor {
  readonly quantization?: Quantization | undefined;
}

/** Returns the names of all block types among some tensors. */
export function blockTypesIn(tensors: Iterable<ListedTensor>): Set<string> {
  const types = new Set<string>();
  for (const { quantization } of tensors) {
    const type = blockTypeOf(quantization?.scheme);
    if (type !== undefined) types.add(type);
  }
  return types;
}

/** Plans all tensors; `kernels` has the functions that decode the block types, by name. */
export function* planBlocks(
  tensors: Iterable<ListedTensor>,
  kernels: ReadonlyMap<string, BlockLayout['decode']>,
): Work<CheckpointPlan> {
  const weights = new Map<string, LogicalPlan>();
  let plainCount = 0;
  yield* forEachYielding(tensors, (tensor) => {
    const { name, shape, quantization } = tensor;
    const type = blockTypeOf(quantization?.scheme);
    if (type === undefined) {
      plainCount++;
      return;
    }
    const { length, byteLength, bits } = BLOCK_TYPES.get(type) as BlockType;
    const columns = ((shape.at(-1) ?? 0) / byteLength) * length;
    const decode = kernels.get(type) as BlockLayout['decode'];
    weights.set(name, {
      ...{ name, shape: [...shape.slice(0, -1), columns], bits, block: [1, length] },
      scheme: (quantization as Quantization).scheme,
      storedAs: { weight: name },
      layout: { kind: 'blocks', codes: tensor, decode },
    });
  });
  return { weights, plainCount, isPlain: (name) => !weights.has(name), problems: new Map() };
}
