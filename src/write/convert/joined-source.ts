/** Several sources as one: their tensors, chosen and renamed in each of them, under unique names. */

import type { Advice } from '../../errors/advice.js';
import { quoteName, SafetensorsError } from '../../errors/errors.js';
import { fileMetadata, joinedMetadata, type SourceMetadata } from '../../file/shards/metadata.js';
import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { Dtype } from '../../header/dtype.js';
import { forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import type {
  CheckpointSource,
  JoinedReport,
  ListedTensors,
  SourceTensor,
} from '../checkpoint/source.js';
import { type Selected, Selection, selectionSource, throwTogether } from '../selection/select.js';
import { TOTAL_PARAMETERS } from '../selection/total-parameters.js';
import type { DuplicateRule } from './duplicate-rules.js';
import type { ConversionSource, SourceTensorInfo } from './source.js';

/** Advice for a name in two sources. */
const CHOOSE_DUPLICATE: Advice = {
  option: 'duplicates',
  text: "pass duplicates: 'first' or duplicates: 'last'",
};

/** One of the sources. */
export interface SourcePart {
  /** As it was given, for messages. */
  readonly label: string;
  readonly source: ConversionSource;
}

/** The choices for the tensors of every source. */
export interface JoinChoices {
  readonly names?: ((name: string) => boolean) | undefined;
  readonly rename?: ((name: string) => string) | undefined;
  readonly duplicates: DuplicateRule;
}

/** A tensor of one source under its new name, or under an alias of that. */
class JoinedTensor implements SourceTensor<SourceTensorInfo> {
  readonly name: string;
  readonly info: SourceTensorInfo & { readonly dtype: Dtype };
  readonly place: number;
  readonly origin: SourceTensor<SourceTensorInfo>;

  constructor(name: string, place: number, origin: SourceTensor<SourceTensorInfo>) {
    this.name = name;
    this.info = origin.info;
    this.place = place;
    this.origin = origin;
  }

  get memory(): TensorMemory {
    return { ...this.origin.memory, name: this.name };
  }

  get payload(): SourceTensor['payload'] {
    return this.origin.payload;
  }
}

/** A name of a source: of a tensor, or an alias of one in the metadata. */
interface Named {
  readonly tensor: JoinedTensor;
  /** For an alias: the name of the tensor. */
  readonly aliasOf: string | null;
}

/**
 * The sources as one. An alias in the metadata counts as a name of its source. A tensor that another source replaces
 * is still written under its aliases that remain.
 */
export class JoinedSource implements CheckpointSource<SourceTensorInfo> {
  readonly table = null;
  readonly #parts: readonly SourcePart[];
  readonly #choices: JoinChoices;
  readonly #named = new Map<string, Named>();
  readonly #problems: SafetensorsError[] = [];
  readonly #excluded: string[] = [];
  readonly #duplicates = new Set<string>();
  /** `total_parameters` of every source that declares it. */
  readonly #counts: string[] = [];
  /** Places of sources that have a tensor which is not written. */
  readonly #losing = new Set<number>();
  #metadata: SourceMetadata | null = null;

  constructor(parts: readonly SourcePart[], choices: JoinChoices) {
    this.#parts = parts;
    this.#choices = choices;
  }

  get path(): string {
    return (this.#parts[0] as SourcePart).source.path;
  }

  /** Files whose replacement loses no tensor. Complete after `list`. */
  get files(): readonly string[] {
    const whole = this.#parts.filter((_, place) => !this.#losing.has(place));
    return whole.flatMap(({ source }) => source.files);
  }

  /** Complete after `list`. */
  get joined(): JoinedReport {
    return { excluded: this.#excluded };
  }

  /** Complete after `list`. */
  get duplicates(): readonly string[] {
    const ofParts = this.#parts.flatMap(({ source }) => source.duplicates);
    return [...new Set([...ofParts, ...this.#duplicates])];
  }

  *list(): Work<ListedTensors<SourceTensorInfo>> {
    const { names, rename } = this.#choices;
    const metadata: (ReadonlyMap<string, string> | null)[] = [];
    const conflicts: string[] = [];
    let nothingLeft: RangeError | undefined;
    for (const [place, { source }] of this.#parts.entries()) {
      const listed = yield* source.list();
      if (source.duplicates.length > 0) this.#losing.add(place);
      const selection = new Selection<SourceTensorInfo>({ names, rename }, listed);
      const selected = yield* selection.of(listed.tensors, listed.unselectable, 'maybe none');
      if (selected.length === 0) nothingLeft = selection.nothingLeft();
      const taken = new Set<string>();
      yield* forEachYielding(selected, ({ tensor }) => void taken.add(tensor.name));
      yield* forEachYielding(listed.names(), (name) => {
        if (!taken.has(name)) this.#leaveOut(place, name);
      });
      const found = source.metadataOf(selected.map(({ tensor }) => tensor));
      const adapt = yield* selection.metadataOf(selected);
      const own = fileMetadata(found, adapt);
      conflicts.push(...own.conflicts);
      metadata.push(yield* this.#addAll(place, selected, own.file));
    }
    throwTogether(this.#problems, undefined);
    if (this.#named.size === 0 && this.#excluded.length > 0) throw nothingLeft;
    const tensors = this.#tensors();
    const merged = joinedMetadata(metadata, new Map([...this.#aliases(), ...this.#count()]));
    this.#metadata = { ...merged, conflicts: [...new Set([...conflicts, ...merged.conflicts])] };
    const written = new Set(tensors.map(({ name }) => name));
    return { ...selectionSource(written, null, undefined), tensors, unselectable: [] };
  }

  get isReadBack(): boolean {
    return this.#parts.some(({ source }) => source.isReadBack === true);
  }

  metadataOf(): SourceMetadata | null {
    return this.#metadata;
  }

  async verify(tensors: readonly JoinedTensor[], signal: AbortSignal | undefined): Promise<void> {
    for (const [place, { source }] of this.#parts.entries()) {
      const own = tensors.filter((tensor) => tensor.place === place);
      await source.verify?.(
        own.map(({ origin }) => origin),
        signal,
      );
    }
  }

  close(): void {
    for (const { source } of this.#parts) source.close();
  }

  #leaveOut(place: number, name: string): void {
    this.#losing.add(place);
    this.#excluded.push(name);
  }

  /** Adds the tensors of a source, and the aliases in its metadata. Returns the rest of the metadata. */
  *#addAll(
    place: number,
    selected: readonly Selected<SourceTensor<SourceTensorInfo>>[],
    metadata: ReadonlyMap<string, string> | null,
  ): Work<ReadonlyMap<string, string> | null> {
    const origins = new Map<string, SourceTensor<SourceTensorInfo>>();
    yield* forEachYielding(selected, ({ tensor, name }) => {
      origins.set(name, tensor);
      this.#add({ tensor: new JoinedTensor(name, place, tensor), aliasOf: null });
    });
    if (metadata === null) return null;
    const rest = new Map(metadata);
    const count = rest.get(TOTAL_PARAMETERS);
    if (count !== undefined) this.#counts.push(count);
    rest.delete(TOTAL_PARAMETERS);
    for (const [alias, name] of metadata) {
      const origin = origins.get(name);
      if (origin === undefined || origins.has(alias)) continue;
      this.#add({ tensor: new JoinedTensor(alias, place, origin), aliasOf: name });
      rest.delete(alias);
    }
    return rest;
  }

  #add(named: Named): void {
    const { name, place } = named.tensor;
    const other = this.#named.get(name)?.tensor;
    const { duplicates } = this.#choices;
    if (other !== undefined) {
      this.#duplicates.add(name);
      if (duplicates === 'error') this.#problems.push(this.#duplicate(name, other.place, place));
      this.#losing.add(duplicates === 'first' ? place : other.place);
      if (duplicates === 'first') return;
    }
    this.#named.set(name, named);
  }

  #duplicate(name: string, ...places: readonly number[]): SafetensorsError {
    const [one, other] = places.map((place) => this.#parts[place]?.label);
    return new SafetensorsError(
      'SAFETENSORS_INVALID_SELECTION',
      `${quoteName(name)} is in ${one} and in ${other}: ${CHOOSE_DUPLICATE.text}, or rename one`,
      { advice: [CHOOSE_DUPLICATE] },
    );
  }

  /** All tensors, and the aliases whose tensor is not written under its own name. */
  #tensors(): JoinedTensor[] {
    const named = [...this.#named.values()];
    return named.filter((one) => !this.#isRecorded(one)).map(({ tensor }) => tensor);
  }

  /** Whether a name is an alias that the metadata records. */
  #isRecorded({ tensor, aliasOf }: Named): boolean {
    if (aliasOf === null) return false;
    return this.#named.get(aliasOf)?.tensor.origin === tensor.origin;
  }

  /** The aliases that the metadata records, with the names of their tensors. */
  #aliases(): Map<string, string> {
    const recorded = [...this.#named.values()].filter((one) => this.#isRecorded(one));
    return new Map(recorded.map(({ tensor, aliasOf }) => [tensor.name, aliasOf as string]));
  }

  /** The sum of `total_parameters`; empty where it is not known. */
  #count(): [string, string][] {
    const isKnown = this.#duplicates.size === 0 && this.#counts.length === this.#parts.length;
    if (!isKnown || !this.#counts.every((count) => /^\d+$/.test(count))) return [];
    const sum = this.#counts.reduce((sum, count) => sum + BigInt(count), 0n);
    return [[TOTAL_PARAMETERS, String(sum)]];
  }
}
