/** The tensors that `reshard` takes when the caller selects, renames or casts some. */

import { type TensorInfo, tensorInfo } from '../../file/facts.js';
import { madePayload } from '../../save/tensor-input.js';
import { byteLengthOf, CastMemory, castFill } from '../../selection/cast-bytes.js';
import { type CastReport, counterOf, reportOf } from '../../selection/cast-report.js';
import type { SelectionOptions } from '../../selection/options.js';
import { type Selected, Selection, selectionSource } from '../../selection/select.js';
import { storageFill } from '../../storage/storage-fill.js';
import type { CheckpointFiles } from '../find-files.js';
import { type AnyEntry, type TensorTable, tableOf } from './layout.js';
import type { SourceTensors } from './reshard-source.js';

/** A tensor of the source. */
interface SourceTensor {
  readonly number: number;
  readonly name: string;
  readonly info: TensorInfo;
}

type Metadata = ReadonlyMap<string, string> | null;

/** Tensors to be written, and what becomes of the metadata of the source. */
export interface SelectedTensors {
  readonly table: TensorTable;
  metadataOf(metadata: Metadata): Metadata;
  /** Filled while the tensors are written. */
  readonly report: CastReport;
}

/**
 * Selects tensors. Makes objects for each.
 *
 * @throws As `Selection.of`
 */
export function selectTensors(
  tensors: SourceTensors,
  { path, index }: CheckpointFiles,
  files: readonly Metadata[],
  options: SelectionOptions,
): SelectedTensors {
  const given = Array.from(tensors.byteLengths, (_, number): SourceTensor => {
    const [header, entry] = [tensors.header(number), tensors.entry(number)];
    return { number, name: header.name(entry), info: tensorInfo(header, entry) };
  });
  const names = new Set(given.map(({ name }) => name));
  const metadata = index === null ? (files[0] ?? null) : index.metadata;
  const selection = new Selection(options, selectionSource(names, metadata, path));
  const selected = selection.of(given);
  const overflowed = new Map<string, number>();
  const entries = selected.map(entryMaker(tensors, overflowed));
  const metadataOf = selection.metadataOf(selected);
  return { table: tableOf(entries), metadataOf, report: reportOf(selected, overflowed) };
}

/** Makes entries of selected tensors, which share memory for what is cast. */
function entryMaker(
  tensors: SourceTensors,
  overflowed: Map<string, number>,
): (selected: Selected<SourceTensor>) => AnyEntry {
  const memory = new CastMemory();
  return ({ tensor: { number, info }, name, cast }) => {
    const { dtype, shape } = info;
    const payload = tensors.payload(number);
    const byteLength = tensors.byteLengths[number] as number;
    if (cast === null) return { name, dtype, shape, byteLength, payload };
    const { storage, position } = payload;
    const bytes = castFill(
      storageFill(storage, position),
      cast,
      memory,
      counterOf(overflowed, name),
    );
    const newByteLength = byteLengthOf(cast.to, byteLength / byteLengthOf(cast.from, 1));
    const made = madePayload(storage, bytes);
    return { name, dtype: cast.to, shape, byteLength: newByteLength, payload: made };
  };
}
