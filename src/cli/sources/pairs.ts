/** Tensors of two sources, pair by pair: as they are stored, or as the models mean them. */

import type { Tensor, TensorEntry } from '../../index.js';
import type { DequantizedCheckpoint, LogicalTensor } from '../../quantized.js';
import { haveSameBytes, logicalPairs, tensorPairs, type ValuePairs } from './compare.js';
import { tensorsInTurn } from './get-tensor.js';
import { logicalModel } from './logical.js';
import type { LongWork } from './long-work.js';
import type { OpenedSource } from './open-source.js';

/** The facts of a tensor that are compared before values are. */
export interface TensorFacts {
  readonly name: string;
  /** The scheme of a quantized weight. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly byteLength: number;
}

/** A tensor of both sources, until the next one. */
export interface Both {
  /** Whether values are all that can be compared: quantized weights can have the same in other bytes. */
  readonly areComputed: boolean;
  /** Whether they are the same without looking at values. */
  haveSameBytes(work: LongWork): Promise<boolean>;
  values(work: LongWork): AsyncIterable<ValuePairs>;
}

/** Reads pairs of tensors, in the order in which their names were given. */
export interface PairReader {
  next(name: string): Promise<Both>;
  end(): Promise<void>;
}

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
      const [a, b] = found as [Tensor, Tensor];
      return {
        areComputed: false,
        haveSameBytes: (work) => haveSameBytes(a, b, work),
        values: (work) => tensorPairs(a, b, work),
      };
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
  const { dequantized } = await import('../../quantized.js');
  const plain = async (opened: OpenedSource): Promise<DequantizedCheckpoint> =>
    await dequantized((opened as Extract<OpenedSource, { kind: 'local' }>).checkpoint, {
      config: null,
      signal,
    });
  return [found[0] ?? (await plain(a)), found[1] ?? (await plain(b))];
}

/** Reads logical tensors of both sources. */
export function readLogicalPairs([first, second]: LogicalModels, signal: AbortSignal): PairReader {
  return {
    async next(name) {
      const [a, b] = [first.getTensor(name), second.getTensor(name)];
      const [x, y] = [plainTensor(a), plainTensor(b)];
      const arePlain = x !== null && y !== null;
      return {
        areComputed: !arePlain,
        haveSameBytes: async (work) => arePlain && (await haveSameBytes(x, y, work)),
        values: (work) => (arePlain ? tensorPairs(x, y, work) : logicalPairs(a, b, signal, work)),
      };
    },
    async end() {},
  };
}

function plainTensor(tensor: LogicalTensor): Tensor | null {
  return tensor.info.scheme === null ? tensor.tensor : null;
}
