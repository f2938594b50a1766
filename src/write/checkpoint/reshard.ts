/** `reshard`: writes a checkpoint anew, in files of another size. */

import { type OptionNames, requireOptions } from '../../errors/arguments.js';
import type { TensorInfo } from '../../file/source/facts.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import type { OverwriteOptions } from '../replacement/replaced-files.js';
import { readSelection, SELECTION_OPTIONS, type SelectionOptions } from '../selection/options.js';
import type { SelectionReport } from '../selection/selection-report.js';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
} from './execute-plan.js';
import { type CheckpointLayoutOptions, LAYOUT_OPTIONS } from './layout.js';
import type { CopiedFiles, OtherFilesOptions } from './other-files.js';
import type { CheckpointPlan, DryRun } from './plan.js';
import { rewriteFolder } from './rewrite.js';
import { openSafetensorsSource } from './safetensors-source.js';
import type { CheckpointSource } from './source.js';

/** Options of `reshard`; those of the layout are the target's. */
export interface ReshardOptions
  extends CheckpointLayoutOptions,
    WriteCheckpointOptions,
    SelectionOptions,
    OtherFilesOptions,
    OverwriteOptions {}

const RESHARD_OPTIONS: OptionNames<ReshardOptions & DryRun> = {
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  ...SELECTION_OPTIONS,
  copyOtherFiles: true,
  overwrite: true,
};

/** Result of `reshard`. */
export interface ReshardedCheckpoint extends WrittenCheckpoint, SelectionReport, CopiedFiles {
  /** Keys of metadata with different values in the files of the source: at most one of the values was written. */
  readonly conflicts: readonly string[];
}

/** Result with `dryRun: true`: without the counts that only a cast can give. */
export interface ReshardPlan
  extends CheckpointPlan,
    Omit<ReshardedCheckpoint, keyof WrittenCheckpoint | 'overflowed'> {}

/** As the public `reshard`. */
export async function reshard(
  source: string | URL,
  target: string | URL,
  options: ReshardOptions & DryRun = {},
): Promise<ReshardedCheckpoint | ReshardPlan> {
  requireLittleEndianHost();
  requireOptions(options, RESHARD_OPTIONS);
  const selection = readSelection(options);
  const { signal } = options;
  const open = (): Promise<CheckpointSource<TensorInfo>> =>
    openSafetensorsSource(source, { comparison: 'sums', dequantize: selection.dequantize, signal });
  const choices = { selection, shared: 'copy', metadata: new Map(), verify: false } as const;
  const result = await rewriteFolder(target, open, { ...options, ...choices });
  const { dropped, unrecorded, overlaps, ...resharded } = result;
  return resharded;
}
