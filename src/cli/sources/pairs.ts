/** Tensors of two sources, pair by pair: as they are stored, or as the models mean them. */

import { Buffer } from 'node:buffer';
import { turnWhenDue } from '../../header/json/turns.js';
import type { Tensor, TensorEntry, TransferOptions } from '../../index.js';
import type { PairReader } from '../../inspect/values/checkpoint-difference.js';
import { compareTensors } from '../../inspect.js';
import { Transfer } from '../../platform/transfer/transfer.js';
import type { DequantizedCheckpoint, LogicalTensor } from '../../quantized.js';
import { tensorsInTurn } from './get-tensor.js';
import { logicalModel } from './logical.js';
import type { OpenedSource } from './open-source.js';

/** Bytes to compare at a time. */
const WINDOW = 2 ** 22;

/** Whether two tensors of one dtype and shape have the same bytes. */
async function haveSameBytes(a: Tensor, b: Tensor, options: TransferOptions): Promise<boolean> {
  const transfer = new Transfer(a.byteLength, options);
  const others = b.chunks({ maxByteLength: WINDOW });
  for (const chunk of a.chunks({ maxByteLength: WINDOW })) {
    const { value } = others.next();
    if (Buffer.compare(chunk, value as Uint8Array) !== 0) return false;
    transfer.advance(chunk.length);
    await turnWhenDue();
    options.signal?.throwIfAborted();
  }
  return true;
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
        haveSameBytes: (options) => haveSameBytes(a, b, options),
        compare: (options) => compareTensors(a, b, options),
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
