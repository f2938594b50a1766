/**
 * Decides which files of a folder are the model, only by names: for local folders, the Hub, Blobs and archives. The
 * caller reads the indexes that the decision requests.
 */

import { OPEN_READS } from '../../errors/advice.js';
import {
  type ErrorContext,
  type FormatError,
  quoteName,
  quoteNames,
  SafetensorsError,
} from '../../errors/errors.js';
import {
  CANONICAL_STEMS,
  canonicalNames,
  foldName,
  foreignFolder,
  indexedNameOf,
  indexesAmong,
  isCanonicalVariantName,
  isConvertibleName,
  isOfVariant,
  isSafetensorsName,
  isTorchIndexName,
  SHARD_NUMBER,
  singleNameOf,
} from './file-choice.js';
import { INDEX_SUFFIX } from './file-names.js';
import { partNames, partsError } from './incomplete-models.js';
import type { CheckpointProblem } from './verification-report.js';

/** The names in a folder. A caller that can't distinguish folders from files passes all of them as files. */
interface FolderNames {
  readonly files: readonly string[];
  readonly folders?: readonly string[] | undefined;
}

/** An index that was read. */
interface IndexedShards {
  /** The shards that it lists. */
  readonly shards: readonly string[];
  /** Those of them without a file of exactly this name. */
  readonly missing: readonly string[];
}

/** The files of a model. */
export interface ChosenModel {
  readonly kind: 'file' | 'index' | 'shards';
  /** The single file or the index; of shards without an index, the name that it would have. */
  readonly name: string;
  /**
   * The files by the names that the index lists. Both differ where the index has another case or Unicode normalization.
   */
  readonly shards: ReadonlyMap<string, string>;
  /** An index or a single file of the same model that was not chosen. */
  readonly ignoredFiles: readonly string[];
  /** Problems by names, for the verification. */
  readonly problems: readonly CheckpointProblem[];
}

/** An index whose shards are not all there. */
export interface PartialModel extends Pick<ChosenModel, 'name' | 'shards'> {
  readonly kind: 'missing-shards';
  /** The error; `pathOf` returns the path of a file in the folder, or that of the folder for an empty name. */
  errorAt(pathOf: PathOfName): SafetensorsError;
}

/** A folder without files to open. */
export interface NoModel {
  /** Only parts of a distributed checkpoint; or no file, or no choice among several: then it may be a pipeline. */
  readonly kind: 'parts' | 'none';
  /** Whether the folder has no safetensors file and no index. */
  readonly isEmpty: boolean;
  /** As of a partial model. */
  errorAt(pathOf: PathOfName): SafetensorsError;
}

/** Returns the path of a file in the folder, or that of the folder for an empty name. */
type PathOfName = (name: string) => string | undefined;

/** What the names in a folder are. */
type Decision = ChosenModel | PartialModel | NoModel;

/** Whether a decision has chosen the files of a complete model. */
export function isChosen(decision: Decision): decision is ChosenModel {
  return decision.kind === 'file' || decision.kind === 'index' || decision.kind === 'shards';
}

/** The decision about one folder. Yields the names of indexes to read. */
export type ModelDecision = Generator<string, Decision, IndexedShards>;

/** A file, or numbered shards. */
interface Unit {
  /** The name of the single file. */
  readonly name: string;
  /** In the order of their numbers. */
  readonly files: readonly string[];
  /** Whether it is a file, or all shards from 1 to their count. */
  readonly isWhole: boolean;
}

/** The files of a model, and what else may be one. */
interface Candidates {
  readonly indexes: readonly string[];
  readonly unit: Unit | undefined;
}

/**
 * Decides which files of a folder are the model: its index if all its shards are there, else its single file, else its
 * numbered shards if all of them are there. Usual names come first, then the only index of another name, then the only
 * file or set of shards.
 */
export function* chooseModel(
  names: FolderNames,
  { variant }: { readonly variant?: string | undefined } = {},
): ModelDecision {
  const present = distinctNames(names.files).filter((name) => isOfVariant(name, variant));
  const all = { ...names, files: present };
  const units = unitsAmong(present);
  const { indexes, unit } = candidatesAmong(present, units, variant);
  let incomplete: MissingShards | undefined;
  for (const name of indexes) {
    const found = locateShards(name, yield name, names.files);
    if (found.missing.length === 0) {
      const listed = [...found.shards.values()];
      const others = unit !== undefined && isFile(unit.files) ? unit.files : [];
      const ignoredFiles = others.filter((file) => !listed.includes(file));
      return { ...indexed(found), ignoredFiles };
    }
    incomplete ??= found;
  }
  if (unit !== undefined) {
    if (incomplete === undefined || isFile(unit.files)) return chosen(unit, incomplete);
  } else if (units.length === 1) {
    const only = units[0] as Unit;
    const isListed = incomplete?.shards.has(only.name) === true;
    const isSet = !isFile(only.files) && indexesAmong(present).length > 0;
    if (only.isWhole && !isSet && !isListed) return chosen(only, incomplete);
  }
  return incomplete === undefined ? noModel(all, units, variant) : missingShards(incomplete);
}

/** Decides about the index of this name, whatever else is in its folder. */
export function chooseIndex(
  name: string,
  index: IndexedShards,
  files: readonly string[],
): ChosenModel | PartialModel {
  const found = locateShards(name, index, files);
  return found.missing.length > 0 ? missingShards(found) : indexed(found);
}

/** A file of any name. */
function chooseFile(name: string): ChosenModel {
  return { kind: 'file', name, shards: new Map([[name, name]]), ignoredFiles: [], problems: [] };
}

/** Whether files of these names make a checkpoint, valid or not. */
export function hasModel(files: readonly string[], variant?: string): boolean {
  const { value, done } = chooseModel({ files }, { variant }).next();
  return done !== true || isChosen(value);
}

/** Names that differ only in case or Unicode normalization are the same: where one is canonical, the others drop out. */
function distinctNames(files: readonly string[]): readonly string[] {
  const all = new Set(files);
  return files.filter((name) => {
    const folded = foldName(name);
    return folded === name || !all.has(folded);
  });
}

/** The files and the sets of shards. Shards are left out next to the single file that has their name. */
function unitsAmong(present: readonly string[]): Unit[] {
  const groups = new Map<string, string[]>();
  // Folders, Blobs and repositories list them in different orders.
  for (const name of present.toSorted()) {
    if (!isSafetensorsName(name)) continue;
    const key = foldName(singleNameOf(name));
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [name]);
    else group.push(name);
  }
  return [...groups.values()].flatMap((files) => {
    const whole = files.filter((name) => !SHARD_NUMBER.test(name));
    if (whole.length > 0) return whole.map((name) => ({ name, files: [name], isWhole: true }));
    return [setOf(files)];
  });
}

/** The numbered shards of one model. */
function setOf(files: readonly string[]): Unit {
  const byNumber = new Map<number, string>();
  const counts = new Set<number>();
  for (const file of files) {
    const [, number, count] = SHARD_NUMBER.exec(file) ?? [];
    byNumber.set(Number(number), file);
    counts.add(Number(count));
  }
  const numbers = [...byNumber.keys()].sort((a, b) => a - b);
  const isComplete =
    counts.size === 1 &&
    counts.has(files.length) &&
    numbers.length === files.length &&
    numbers.every((number, i) => number === i + 1);
  const ordered = isComplete ? numbers.map((number) => byNumber.get(number) as string) : files;
  const [first = ''] = ordered;
  return {
    name: files.length === 1 ? first : singleNameOf(first),
    files: ordered,
    isWhole: isComplete && partNames(files).length === 0,
  };
}

/** The indexes, files and shards of a variant that have usual names, else the only index. */
function candidatesAmong(
  present: readonly string[],
  units: readonly Unit[],
  variant: string | undefined,
): Candidates {
  const indexes = indexesAmong(present);
  // An index of any name may list the shards. That of a variant lists others.
  const isIndexed = indexes.some((name) => variant !== undefined || !isCanonicalVariantName(name));
  for (const stem of CANONICAL_STEMS) {
    const usual = canonicalNames(stem, variant);
    const named = usual.indexes.flatMap((name) => onlyMatch(indexes, name));
    const [unit] = units.filter(
      ({ name, files, isWhole }) =>
        isWhole &&
        foldName(singleNameOf(name)) === foldName(usual.single) &&
        (isFile(files) || named.length > 0 || !isIndexed),
    );
    if (named.length > 0 || unit !== undefined) return { indexes: named, unit };
  }
  return { indexes: indexes.length === 1 ? indexes : [], unit: undefined };
}

/** Whether files are one without a number. */
function isFile(files: readonly string[]): boolean {
  return files.length === 1 && !SHARD_NUMBER.test(files[0] as string);
}

/** The name that is the same but for case and Unicode normalization; none of several. */
function onlyMatch(names: readonly string[], wanted: string): readonly string[] {
  const found = names.filter((name) => foldName(name) === foldName(wanted));
  return found.length === 1 ? found : [];
}

function chosen({ name, files }: Unit, incomplete: MissingShards | undefined): ChosenModel {
  if (files.length === 1) {
    const ignoredFiles = incomplete === undefined ? [] : [incomplete.index];
    return { ...chooseFile(files[0] as string), ignoredFiles };
  }
  const index = `${name}${INDEX_SUFFIX}`;
  const message =
    `the index of ${files.length} shards is missing: other programs may not open them; ` +
    'save the model again, with convert, `split` or `join`';
  const problem = { file: index, tensor: null, code: 'SAFETENSORS_INDEX_MISMATCH', message };
  return {
    kind: 'shards',
    name: index,
    shards: new Map(files.map((file) => [file, file])),
    ignoredFiles: [],
    problems: [problem],
  };
}

/** The shards of an index: where they are, which are missing, and which of the folder it does not list. */
interface MissingShards {
  readonly index: string;
  readonly shards: ReadonlyMap<string, string>;
  readonly missing: readonly string[];
  readonly unlisted: readonly string[];
}

function locateShards(
  index: string,
  { shards, missing }: IndexedShards,
  files: readonly string[],
): MissingShards {
  const listed = new Set(shards);
  const byFold = new Map<string, string[]>();
  if (missing.length > 0) {
    for (const file of files) {
      if (listed.has(file)) continue;
      const key = foldName(file);
      byFold.set(key, [...(byFold.get(key) ?? []), file]);
    }
  }
  const lacking = new Set(missing);
  const places = new Map<string, string>();
  const taken = new Set<string>();
  for (const name of shards) {
    if (!lacking.has(name)) {
      places.set(name, name);
      continue;
    }
    const [other, ...more] = byFold.get(foldName(name)) ?? [];
    if (other === undefined || more.length > 0 || taken.has(other)) continue;
    taken.add(other);
    places.set(name, other);
  }
  const models = new Set(
    [indexedNameOf(index), ...shards].map((name) => foldName(singleNameOf(name))),
  );
  const present = new Set(places.values());
  const unlisted = files.filter((name) => {
    const isOfModel = SHARD_NUMBER.test(name) && models.has(foldName(singleNameOf(name)));
    return isOfModel && !present.has(name) && !listed.has(name);
  });
  const absent = shards.filter((name) => !places.has(name));
  const all = new Map(shards.map((name) => [name, places.get(name) ?? name]));
  return { index, shards: all, missing: absent, unlisted: unlisted.sort() };
}

function indexed({ index, shards, unlisted }: MissingShards): ChosenModel {
  const problems = unlisted.map((file) => {
    const message = `${quoteName(index)} does not list this shard, which is next to it`;
    return { file, tensor: null, code: 'SAFETENSORS_INDEX_MISMATCH', message };
  });
  return { kind: 'index', name: index, shards, ignoredFiles: [], problems };
}

function missingShards({ index, shards, missing, unlisted }: MissingShards): PartialModel {
  const others =
    unlisted.length === 0
      ? ''
      : `; the folder has shards that the index does not list: ${quoteNames(unlisted)}`;
  const message =
    shards.size === 1
      ? `expected 1 shard, found it missing: ${quoteNames(missing)}${others}`
      : `expected ${shards.size} shards, found ${missing.length} of them missing: ` +
        `${quoteNames(missing)}${others}`;
  return {
    kind: 'missing-shards',
    name: index,
    shards,
    errorAt: (pathOf) =>
      new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path: pathOf(index) }),
  };
}

function noModel(
  { files, folders = [] }: FolderNames,
  units: readonly Unit[],
  variant: string | undefined,
): NoModel {
  const found = [...indexesAmong(files), ...units.flatMap((unit) => unit.files)].sort();
  const ofParts = partsError(files);
  const foreign = found.length > 0 ? null : foreignFolder([...files, ...folders]);
  const message =
    foreign !== null
      ? `expected a safetensors checkpoint in the folder, found ${foreign.description}`
      : messageFor(files, found, units, variant);
  const hasHint = foreign === null && found.length === 0 && hintFor(files) !== '';
  const code = 'SAFETENSORS_CHECKPOINT_NOT_FOUND';
  return {
    kind: ofParts === undefined ? 'none' : 'parts',
    isEmpty: found.length === 0,
    errorAt: (pathOf) => {
      const path = pathOf('');
      if (ofParts !== undefined) return partsError(files, path) as FormatError;
      const advice = hasHint ? [OPEN_READS] : undefined;
      const context: ErrorContext = { path, foundFormat: foreign?.format, advice };
      return new SafetensorsError(code, message, context);
    },
  };
}

function messageFor(
  files: readonly string[],
  found: readonly string[],
  units: readonly Unit[],
  variant: string | undefined,
): string {
  const ofVariant = variant === undefined ? '' : ` of the variant ${variant}`;
  if (found.length === 0) {
    return `expected a checkpoint in the folder, found no safetensors file or index${ofVariant}${hintFor(files)}`;
  }
  const [only, ...more] = units;
  const isIncomplete =
    only !== undefined && more.length === 0 && only.files.length === found.length;
  if (isIncomplete && !only.isWhole) {
    const what =
      found.length === 1 ? 'a shard without its index' : 'some shards without their index';
    return `expected a whole checkpoint in the folder, found ${what}: ${quoteNames(found)}`;
  }
  return `expected one checkpoint${ofVariant} in the folder, found several to choose from: ${quoteNames(found)}; open one of them`;
}

/** Names the files that another function opens. */
function hintFor(names: readonly string[]): string {
  const indexes = names.filter(isTorchIndexName);
  // Parts are rejected by their paths, too.
  const parts = partNames(names);
  const files = names.filter((name) => isConvertibleName(name) && !parts.includes(name));
  const others = (indexes.length > 0 ? indexes : files).toSorted();
  if (others.length === 0) return '';
  return `, but files that ${OPEN_READS.text} by their paths: ${quoteNames(others)}`;
}
