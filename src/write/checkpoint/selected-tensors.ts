/** Turns the tensors of a source into those to write: selects, renames, casts, and writes shared ones once. */

import {
  type RewrittenMetadata,
  rewrittenMetadata,
  type SourceMetadata,
} from '../../file/shards/metadata.js';
import {
  planSharing,
  recordable,
  type SharedMode,
  type TensorMemory,
} from '../../file/shards/shared-tensors.js';
import type { SplitSummary } from '../../file/shards/split.js';
import type { Dtype } from '../../header/dtype.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import { filterYielding, forEachYielding, mapYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import { type ComputedPayload, computedPayload } from '../input/tensor-input.js';
import { payloadFill } from '../save/verifying-fill.js';
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

/** Names of floating-point dtypes. */
const FLOAT = /^B?F\d/;

/** The caller's choices for a source. */
export interface Choices<Info extends SelectableInfo> {
  readonly selection: SelectionOptions<Info>;
  readonly shared: SharedMode;
  /** Wins over the metadata of the source; null for no metadata. */
  readonly metadata: ReadonlyMap<string, string> | null;
}

/** The tensors to write. */
export interface SelectedTensors<Info extends SelectableInfo> {
  readonly table: TensorTable;
  /** The selected tensors of the source; empty when all are taken unchanged. */
  readonly tensors: readonly SourceTensor<Info>[];
  /** For every dropped name, the name of the tensor written in its place. */
  readonly dropped: ReadonlyMap<string, string>;
  readonly overlaps: readonly (readonly string[])[];
  /** Filled while the tensors are written. */
  readonly report: SelectionReport;
  /** The dtypes of all floating-point tensors that are written; empty when all are taken unchanged. */
  readonly floatDtypes: ReadonlySet<Dtype>;
  metadataOf(split: SplitSummary): RewrittenMetadata;
}

/**
 * Selects tensors, and reports every problem with the choices. A source taken unchanged keeps its table.
 *
 * @throws As `Selection.of` and `planSharing`
 */
export function* selectTensors<Info extends SelectableInfo>(
  source: CheckpointSource<Info>,
  choices: Choices<Info>,
): Work<SelectedTensors<Info>> {
  const { shared, metadata: given } = choices;
  const { table } = source;
  if (table !== null && selectsAll(choices.selection)) {
    // Tensors of such a source share no bytes.
    const { dropped, overlaps } = yield* planSharing([], shared);
    const metadata = source.metadataOf();
    const isSameData = (): boolean => metadata?.files.length === 1 && table.isInOrder?.() === true;
    const metadataOf = (split: SplitSummary): RewrittenMetadata =>
      rewrittenMetadata({ source: metadata, given, dropped, isSameData }, split);
    return {
      table,
      tensors: [],
      dropped,
      overlaps,
      report: emptyReport(source.duplicates),
      floatDtypes: new Set(),
      metadataOf,
    };
  }
  const listed = yield* source.list();
  const selection = new Selection<Info>(choices.selection, listed);
  const selected = yield* selection.of(listed.tensors, listed.unselectable);
  const taken = new Set<string>();
  yield* forEachYielding(selected, ({ tensor }) => void taken.add(tensor.name));
  const excluded = yield* filterYielding(listed.names(), (name) => !taken.has(name));
  const overflowed = new Map<string, number>();
  const entries = yield* selectedEntries(selected, overflowed);
  // The report does not list copies.
  const memories = shared === 'copy' ? [] : yield* memoriesOf(selected);
  const plan = yield* planSharing(memories, shared, 'order');
  const { dropped, overlaps } = recordable(plan, shared, keysOf(source.metadataOf(), given));
  const isKept = ({ name }: { readonly name: string }): boolean => !dropped.has(name);
  const kept = yield* filterYielding(selected, isKept);
  const tensors = yield* mapYielding(kept, ({ tensor }) => tensor);
  const floatDtypes = new Set<Dtype>();
  yield* forEachYielding(kept, ({ dtype }) => {
    if (FLOAT.test(dtype)) floatDtypes.add(dtype);
  });
  const metadata = selectedMetadata(
    source.metadataOf(tensors),
    yield* selection.metadataOf(selected),
  );
  return {
    table: yield* tableOf(yield* filterYielding(entries, isKept)),
    tensors,
    dropped,
    overlaps,
    report: yield* reportOf(kept, { excluded, duplicates: source.duplicates }, overflowed),
    floatDtypes,
    metadataOf: (split) =>
      rewrittenMetadata({ source: metadata, given, dropped, isSameData: () => false }, split),
  };
}

/** Returns the tensors with new names and dtypes. `overflowed` is filled while they are written. */
function* selectedEntries(
  selected: readonly Selected<SourceTensor>[],
  overflowed: Map<string, number>,
): Work<AnyEntry[]> {
  const memory = new CastMemory();
  const entryOf = ({ tensor, name, dtype, cast }: Selected<SourceTensor>): AnyEntry => {
    const { shape } = tensor.info;
    const byteLength = tensorByteLength({ dtype, shape });
    const payload = tensor.payload;
    if (cast === null) return { name, dtype, shape, byteLength, payload };
    const made = madeOf(payload, tensor.memory.storageByteLength);
    const fill = castFill(made.fill, cast, memory, counterOf(overflowed, name));
    return { name, dtype, shape, byteLength, payload: { ...made, fill } };
  };
  return yield* mapYielding(selected, entryOf);
}

/** Turns bytes of a file or of memory into a payload that fills buffers. */
function madeOf(payload: SourceTensor['payload'], byteLength: number): ComputedPayload {
  if (payload.kind === 'computed') return payload;
  const fill = payloadFill(payload, byteLength);
  if (payload.kind === 'file') return computedPayload(payload.storage, fill);
  const { verify, storage } = payload;
  return { kind: 'computed', fill, verify, storage };
}

/** Cast tensors share bytes only with tensors cast to the same dtype. */
function* memoriesOf(selected: readonly Selected<SourceTensor>[]): Work<TensorMemory[]> {
  const storages = new Map<unknown, Map<Dtype, object>>();
  const storageOf = (storage: unknown, to: Dtype): object => {
    const casts = storages.get(storage) ?? new Map<Dtype, object>();
    storages.set(storage, casts);
    const cast = casts.get(to) ?? {};
    casts.set(to, cast);
    return cast;
  };
  return yield* mapYielding(selected, ({ tensor: { memory }, name, cast }) => {
    const storage = cast === null ? memory.storage : storageOf(memory.storage, cast.to);
    return { ...memory, name, storage };
  });
}

/** All keys of the metadata of a source and of the caller. */
function keysOf(
  source: SourceMetadata | null,
  given: ReadonlyMap<string, string> | null,
): Set<string> {
  const all = [given, source?.index?.metadata, ...(source?.files ?? [])];
  return new Set(all.flatMap((metadata) => [...(metadata?.keys() ?? [])]));
}

/** Returns the source's metadata for the selected tensors. */
function selectedMetadata(
  metadata: SourceMetadata | null,
  metadataOf: (metadata: ReadonlyMap<string, string> | null) => Map<string, string> | null,
): SourceMetadata | null {
  if (metadata === null) return null;
  const { files, index } = metadata;
  const ofIndex = index && { metadata: metadataOf(index.metadata), jsonKeys: index.jsonKeys };
  return { ...metadata, files: files.map(metadataOf), index: ofIndex };
}
