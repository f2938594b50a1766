/** The statistics of all tensors of a checkpoint or a pipeline. */

import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { TensorSource } from '../../file/source/tensor-source.js';
import type { Tensor } from '../../tensor/tensor.js';
import { type TransferOptions, totalByteLength } from '../../work/transfer.js';
import type { Statistics } from './running-statistics.js';
import { statistics } from './statistics.js';
import { tensorValues } from './tensor-values.js';
import { type ComparablePipeline, modelsOf, tensorsInTurn } from './tensors-in-turn.js';

/** A tensor of a model, and the statistics of its values. */
export interface TensorStatistics {
  /** Of a pipeline with the folder before the name and the file. */
  readonly entry: TensorEntry;
  /** Of C64 those of real and imaginary parts together. */
  readonly statistics: Statistics;
}

/**
 * Computes the statistics of tensors one after the other, file by file. Memory holds one long tensor of a remote
 * source.
 *
 * @param isNamed chooses tensors; of a pipeline by names with the folder before them
 * @throws As `tensors` and `readTensors` of the source; `signal.reason`
 */
export async function* modelStatistics(
  source: TensorSource | ComparablePipeline,
  { signal, onProgress }: TransferOptions,
  isNamed: (name: string) => boolean = () => true,
): AsyncGenerator<TensorStatistics, void, void> {
  const models: {
    readonly prefix: string;
    readonly model: TensorSource;
    readonly entries: TensorEntry[];
  }[] = [];
  for (const [folder, model] of modelsOf('source', source)) {
    const prefix = folder === '' ? '' : `${folder}/`;
    const entries = (await model.tensors({ signal })).filter(({ name }) => isNamed(prefix + name));
    models.push({ prefix, model, entries });
  }
  const totalBytes = models.reduce((sum, { entries }) => sum + totalByteLength(entries), 0);
  let before = 0;
  for (const { prefix, model, entries } of models) {
    const tensors = tensorsInTurn(model, entries, signal);
    try {
      for (const { name, file, ...facts } of entries) {
        const tensor = (await tensors.next()).value as Tensor;
        const begin = before;
        const windows = tensorValues(tensor, {
          signal,
          onProgress: ({ bytes }) => onProgress?.({ bytes: begin + bytes, totalBytes }),
        });
        const found = await statistics(windows, tensor.dtype === 'C64' ? 'F32' : tensor.dtype);
        before += facts.byteLength;
        yield { entry: { ...facts, name: prefix + name, file: prefix + file }, statistics: found };
      }
    } finally {
      await tensors.return();
    }
  }
  onProgress?.({ bytes: totalBytes, totalBytes });
}
