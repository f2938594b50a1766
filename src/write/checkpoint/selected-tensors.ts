/** From the tensors of a source to those that are written: left out, renamed, cast, each once. */

import {
  type RewrittenMetadata,
  rewrittenMetadata,
  type SourceMetadata,
} from '../../file/shards/metadata.js';
import {
  planSharing,
  type SharedMode,
  type TensorMemory,
} from '../../file/shards/shared-tensors.js';
import type { SplitSummary } from '../../file/shards/split.js';
import type { Dtype } from '../../header/dtype.js';
import {
  filterInSlices,
  forEachInSlices,
  mapInSlices,
  type Slices,
} from '../../header/json/slices.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { Steps } from '../../platform/io/steps.js';
import { storageFill } from '../../platform/storage/storage-fill.js';
import { type FilePayload, type MadePayload, madePayload } from '../input/tensor-input.js';
import { CastMemory, castFill } from '../selection/cast-bytes.js';
import { type SelectableInfo, type SelectionOptions, selectsAll } from '../selection/options.js';
import { type Selected, Selection } from '../selection/select.js';
import {
  counterOf,
  emptyReport,
  reportOf,
  type SelectionReport,
} from '../selection/selection-report.js';
import { type AnyEntry, type TensorTable, tableOf } from './layout.js';
import type { CheckpointSource, SourceTensor } from './source.js';

/** What the caller wants of a source. */
export interface Choices<Info extends SelectableInfo> {
  readonly selection: SelectionOptions<Info>;
  readonly shared: SharedMode;
  /** Wins over the metadata of the source. */
  readonly metadata: ReadonlyMap<string, string>;
}

/** What is to be written. */
export interface SelectedTensors<Info extends SelectableInfo> {
  readonly table: TensorTable;
  /** The tensors of the source that become these; none when all are taken as they are. */
  readonly tensors: readonly SourceTensor<Info>[];
  /** For every name that is not written, the name of the tensor that is. */
  readonly dropped: ReadonlyMap<string, string>;
  readonly overlaps: readonly (readonly string[])[];
  /** Filled while the tensors are written. */
  readonly report: SelectionReport;
  metadataOf(split: SplitSummary): RewrittenMetadata;
}

/**
 * Selects tensors, and finds all that is wrong with the choices. A source that is taken as it is keeps its table.
 *
 * @throws As `Selection.of` and `planSharing`
 */
export function* selectTensors<Info extends SelectableInfo>(
  source: CheckpointSource<Info>,
  choices: Choices<Info>,
): Steps<SelectedTensors<Info>> {
  const { shared, metadata: given } = choices;
  const { table } = source;
  if (table !== null && selectsAll(choices.selection)) {
    // Tensors of such a source share no bytes.
    const { dropped, overlaps } = yield* planSharing([], shared);
    const metadata = source.metadataOf();
    const metadataOf = (split: SplitSummary): RewrittenMetadata =>
      rewrittenMetadata({ source: metadata, given, dropped }, split);
    return { table, tensors: [], dropped, overlaps, report: emptyReport(), metadataOf };
  }
  const listed = yield* source.list();
  const selection = new Selection<Info>(choices.selection, listed);
  const selected = yield* selection.of(listed.tensors, listed.unselectable);
  const taken = new Set<string>();
  yield* forEachInSlices(selected, ({ tensor }) => void taken.add(tensor.name));
  const leftOut = yield* filterInSlices(listed.names(), (name) => !taken.has(name));
  const overflowed = new Map<string, number>();
  const entries = yield* selectedEntries(selected, overflowed);
  // Nobody looks at copies.
  const memories = shared === 'copy' ? [] : yield* memoriesOf(selected);
  const { dropped, overlaps } = yield* planSharing(memories, shared, 'order');
  const isKept = ({ name }: { readonly name: string }): boolean => !dropped.has(name);
  const kept = yield* filterInSlices(selected, isKept);
  const tensors = yield* mapInSlices(kept, ({ tensor }) => tensor);
  const metadata = selectedMetadata(
    source.metadataOf(tensors),
    yield* selection.metadataOf(selected),
  );
  return {
    table: yield* tableOf(yield* filterInSlices(entries, isKept)),
    tensors,
    dropped,
    overlaps,
    report: yield* reportOf(kept, leftOut, overflowed),
    metadataOf: (split) => rewrittenMetadata({ source: metadata, given, dropped }, split),
  };
}

/** The tensors under their new names, as their new dtypes. `overflowed` is filled while they are written. */
function* selectedEntries(
  selected: readonly Selected<SourceTensor>[],
  overflowed: Map<string, number>,
): Slices<AnyEntry[]> {
  const memory = new CastMemory();
  const entryOf = ({ tensor, name, cast }: Selected<SourceTensor>): AnyEntry => {
    const { shape } = tensor.info;
    const dtype = cast?.to ?? tensor.info.dtype;
    const byteLength = tensorByteLength({ dtype, shape });
    const payload = tensor.payload;
    if (cast === null) return { name, dtype, shape, byteLength, payload };
    const made = madeOf(payload);
    const fill = castFill(made.fill, cast, memory, counterOf(overflowed, name));
    return { name, dtype, shape, byteLength, payload: { ...made, fill } };
  };
  return yield* mapInSlices(selected, entryOf);
}

/** Bytes of a file as bytes that are put into memory. */
function madeOf(payload: FilePayload | MadePayload): MadePayload {
  if (payload.kind === 'made') return payload;
  const { storage, position } = payload;
  return madePayload(storage, storageFill(storage, position));
}

/** Tensors that are cast share bytes only with those that are cast to the same dtype. */
function* memoriesOf(selected: readonly Selected<SourceTensor>[]): Slices<TensorMemory[]> {
  const storages = new Map<unknown, Map<Dtype, object>>();
  const storageOf = (storage: unknown, to: Dtype): object => {
    const casts = storages.get(storage) ?? new Map<Dtype, object>();
    storages.set(storage, casts);
    const cast = casts.get(to) ?? {};
    casts.set(to, cast);
    return cast;
  };
  return yield* mapInSlices(selected, ({ tensor: { memory }, name, cast }) => {
    const storage = cast === null ? memory.storage : storageOf(memory.storage, cast.to);
    return { ...memory, name, storage };
  });
}

/** The metadata of the source that goes with the tensors that were selected. */
function selectedMetadata(
  metadata: SourceMetadata | null,
  metadataOf: (metadata: ReadonlyMap<string, string> | null) => Map<string, string> | null,
): SourceMetadata | null {
  if (metadata === null) return null;
  const { files, index } = metadata;
  const ofIndex = index && { metadata: metadataOf(index.metadata), jsonKeys: index.jsonKeys };
  return { files: files.map(metadataOf), index: ofIndex };
}
