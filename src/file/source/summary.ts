/** Counts the tensors of a checkpoint. Its code, which knows quantization as the Hub counts it, loads on first use. */

import type { Work } from '../../work/work.js';
import { type CheckpointSummary, countParameters } from '../hub/parameter-count.js';
import type { CountedFiles } from './catalog.js';
import { countedFiles, isDequantized } from './view.js';

/** Tensors, parameters and bytes per dtype and by shard. */
export function* summarize(files: CountedFiles): Work<CheckpointSummary> {
  const { names, index } = files;
  const { contents, config } = yield* files.contentsAndConfig();
  const counted = contents.flatMap((one, i) => countedFiles(names[i] as string, one));
  // A configuration describes codes, not the weights that a view computes from them.
  return countParameters(counted, index, contents.some(isDequantized) ? undefined : config);
}
