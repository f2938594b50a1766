/** What a conversion writes: which tensors, under which names, with which metadata. */

import type { AnyEntry } from '../checkpoint/write/layout.js';
import type { ForeignTensor } from '../foreign/foreign-tensor.js';
import { type CastReport, reportOf } from '../selection/cast-report.js';
import type { SelectionOptions } from '../selection/options.js';
import { Selection } from '../selection/select.js';
import { planSharing, type SharedMode } from '../shards/shared-tensors.js';
import type { SplitSummary } from '../shards/split.js';
import { convertedTensors } from './entries.js';
import { type ConvertedMetadata, convertedMetadata } from './metadata.js';
import type { ConversionSource, SourceTensor, SourceTensorInfo } from './source.js';
import type { SourceBytes } from './source-bytes.js';

/** What the caller wants of the source. */
export interface ConversionChoices {
  readonly selection: SelectionOptions<SourceTensorInfo>;
  readonly shared: SharedMode;
  /** Wins over the metadata of the source. */
  readonly metadata: ReadonlyMap<string, string>;
}

/** What is to be written. */
export interface Conversion {
  readonly entries: readonly AnyEntry[];
  /** The tensors of the source that become these. */
  readonly sources: readonly ForeignTensor[];
  readonly dropped: ReadonlyMap<string, string>;
  readonly overlaps: readonly (readonly string[])[];
  /** Filled while the tensors are written. */
  readonly report: CastReport;
  metadataOf(split: SplitSummary): ConvertedMetadata;
}

/**
 * Plans a conversion, and finds all that is wrong with the choices before anything is written.
 *
 * @throws As `Selection.of` and `planSharing`
 */
export function planConversion(
  source: ConversionSource,
  bytes: SourceBytes,
  choices: ConversionChoices,
): Conversion {
  const selection = new Selection(choices.selection, source);
  const selected = selection.of(
    source.tensors.map((facts): SourceTensor => {
      const { name, dtype, shape } = facts;
      return { name, info: { dtype, shape }, facts };
    }),
    source.problems.map((problem) => ({
      name: problem.tensor as string,
      info: { dtype: null, shape: [] },
      problem,
    })),
  );
  const overflowed = new Map<string, number>();
  const tensors = convertedTensors(selected, bytes, overflowed);
  const memories = tensors.map(({ memory }) => memory);
  const { dropped, overlaps } = planSharing(memories, choices.shared, 'order');
  const { metadata } = source;
  const metadataOf = selection.metadataOf(selected);
  const metadataSources = {
    source: metadata && {
      files: metadata.files.map(metadataOf),
      index: metadata.index && {
        metadata: metadataOf(metadata.index.metadata),
        jsonKeys: metadata.index.jsonKeys,
      },
    },
    given: choices.metadata,
    dropped,
  };
  const kept = tensors.filter(({ entry }) => !dropped.has(entry.name));
  return {
    entries: kept.map(({ entry }) => entry),
    sources: kept.map(({ facts }) => facts),
    dropped,
    overlaps,
    report: reportOf(
      selected.filter(({ name }) => !dropped.has(name)),
      overflowed,
    ),
    metadataOf: (split) => convertedMetadata(metadataSources, split),
  };
}
