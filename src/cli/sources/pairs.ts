/** Tensors of two sources, pair by pair: as they are stored, or as the models mean them. */

import {
  type DequantizedCheckpoint,
  dequantize,
  type LogicalTensor,
  type Tensor,
  type TensorEntry,
} from '../../index.js';
import {
  haveSameBytes,
  type PairReader,
  storedPair,
} from '../../inspect/values/checkpoint-difference.js';
import { compareTensors } from '../../inspect.js';
import { tensorsInTurn } from './get-tensor.js';
import { logicalModel } from './logical.js';
import type { OpenedSource } from './open-source.js';

/** Reads tensors of both sources as they are stored. */
export function storedPairs(
  sources: readonly [OpenedSource, OpenedSource],
  entries: readonly [readonly TensorEntry[], readonly TensorEntry[]],
  signal: AbortSignal,
): PairReader {
  const sides = [0, 1].map((i) =>
    tensorsInTurn(sources[i] as OpenedSource, entries[i] as TensorEntry[], signal),
  );
  return {
    async next() {
      const found: Tensor[] = [];
      for (const side of sides) found.push((await side.next()).value as Tensor);
      return storedPair(...(found as [Tensor, Tensor]));
    },
    async end() {
      for (const side of sides) await side.return();
    },
  };
}

/** The logical tensors of two sources. */
export type LogicalModels = readonly [DequantizedCheckpoint, DequantizedCheckpoint];

/** Both sources as their models mean them; null when neither has quantized weights. */
export async function logicalModels(
  sources: readonly [OpenedSource, OpenedSource],
  tensors: readonly [Iterable<TensorEntry>, Iterable<TensorEntry>],
  signal: AbortSignal,
): Promise<LogicalModels | null> {
  const [a, b] = sources;
  const found = [
    await logicalModel(a, tensors[0], signal),
    await logicalModel(b, tensors[1], signal),
  ];
  if (found.every((model) => model === null)) return null;
  const plain = async (opened: OpenedSource): Promise<DequantizedCheckpoint> =>
    await dequantize((opened as Extract<OpenedSource, { kind: 'local' }>).checkpoint, {
      config: null,
      signal,
    });
  return [found[0] ?? (await plain(a)), found[1] ?? (await plain(b))];
}

/** Reads logical tensors of both sources. */
export function readLogicalPairs([first, second]: LogicalModels): PairReader {
  return {
    async next(name) {
      const [a, b] = [first.getTensor(name), second.getTensor(name)];
      const [x, y] = [plainTensor(a), plainTensor(b)];
      const arePlain = x !== null && y !== null;
      return {
        areComputed: !arePlain,
        haveSameBytes: async (options) => arePlain && (await haveSameBytes(x, y, options)),
        compare: (options) => compareTensors(a, b, options),
      };
    },
    async end() {},
  };
}

function plainTensor(tensor: LogicalTensor): Tensor | null {
  return tensor.info.scheme === null ? tensor.tensor : null;
}
