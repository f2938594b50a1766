/** Chooses the files of a model in a folder, by names alone. */

import { argumentRangeError, requireString } from '../../errors/arguments.js';
import { type ForeignFormat, formatOfFolder, formatOfParts } from '../../header/foreign-names.js';
import { pathObjection, SHARD_EXTENSION } from './shard-paths.js';

/** The usual names of a model's files: those of transformers and diffusers. */
const USUAL_STEMS: readonly string[] = ['model', 'diffusion_pytorch_model'];

/** The name of an index, or of the only file: its stem, and the variant that an index may have. */
const INDEX_OR_FILE = /^(.*)\.safetensors(\.index(?:\.([^.]+))?\.json)?$/;

const INDEX_NAME = /\.safetensors(?:\.index\.json|\.index\.[^/]*\.json)$/;

/** A usual name with a variant; an index has the variant in one of two places. */
const VARIANT_NAME =
  /^(?:model|diffusion_pytorch_model)\.(?:([^.]+)\.safetensors(?:\.index\.json)?|safetensors\.index\.([^.]+)\.json)$/;

/** Extensions of the files that torch and NumPy write. */
const CONVERTIBLE_NAME = /\.(?:bin|pt|pth|ckpt|npz|npy)$/;

/** The name of a numbered shard. */
const NUMBERED_SHARD = /-\d{5,}-of-(?!0*1\.)\d{5,}\.safetensors$/;

/** The part that a shard's name adds to the name of a single file of the same pattern. */
const SHARD_NUMBER = /-\d{5,}-of-\d{5,}/;

/** Files to be opened. */
export interface FileChoice {
  /** Indexes, the preferred first. */
  readonly indexes: readonly string[];
  /** The model's single file. */
  readonly single: string | undefined;
}

/**
 * Throws unless the option `variant` can be a part of a file name.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE`
 */
export function requireVariant(variant: string | undefined): void {
  if (variant === undefined) return;
  requireString('variant', variant);
  if (pathObjection(variant) === null && !variant.includes('/')) return;
  throw argumentRangeError('variant', 'a part of a file name, such as fp16', variant);
}

/** The error for the option `variant` of something that is one file, which needs no choice. */
export function noVariant(what: string, variant: string): RangeError {
  return argumentRangeError('variant', `left out for ${what}: it chooses in a folder`, variant);
}

function usualNames(
  stem: string,
  variant: string | undefined,
): FileChoice & { readonly single: string } {
  if (variant === undefined) {
    return { indexes: [`${stem}.safetensors.index.json`], single: `${stem}.safetensors` };
  }
  return {
    indexes: [
      `${stem}.safetensors.index.${variant}.json`,
      `${stem}.${variant}.safetensors.index.json`,
    ],
    single: `${stem}.${variant}.safetensors`,
  };
}

/** Returns the usual name of a single file: `model.safetensors`, or `model.fp16.safetensors` with a variant. */
export function usualFileName(stem: string, variant: string | undefined): string {
  return usualNames(stem, variant).single;
}

/** Returns the usual names of indexes and files of a variant, the preferred first. */
export function usualFileNames(variant: string | undefined): string[] {
  return USUAL_STEMS.flatMap((stem) => {
    const { indexes, single } = usualNames(stem, variant);
    return [...indexes, single];
  });
}

/** The usually named files of a variant; undefined if the folder has no such files. */
function usualFiles(
  present: readonly string[],
  variant: string | undefined,
): FileChoice | undefined {
  for (const stem of USUAL_STEMS) {
    const usual = usualNames(stem, variant);
    const indexes = usual.indexes.filter((name) => present.includes(name));
    const single = present.find((name) => name === usual.single);
    if (indexes.length > 0 || single !== undefined) return { indexes, single };
  }
  return undefined;
}

/** The files of a variant that have usual names, else the only index. */
export function chooseFiles(present: readonly string[], variant: string | undefined): FileChoice {
  const others = indexesAmong(present);
  const only = { indexes: others.length === 1 ? others : [], single: undefined };
  return usualFiles(present, variant) ?? only;
}

/** The file or index to open among these names: an index, the single file, or the only file of another name. */
export function preferredFile(
  names: readonly string[],
  variant: string | undefined,
  missing?: string,
): string | undefined {
  const ofVariant = names.filter((name) => isOfVariant(name, variant));
  const { indexes, single } = chooseFiles(ofVariant, variant);
  const found = [indexes[0], single, onlyWholeFile(ofVariant)];
  return found.find((name) => name !== undefined && name !== missing);
}

/** Whether files of these names make a checkpoint, right or wrong, that is chosen without a variant. */
export function hasCheckpoint(present: readonly string[]): boolean {
  const { indexes, single = onlyWholeFile(present) } = chooseFiles(present, undefined);
  return indexes.length > 0 || single !== undefined;
}

/** The names of indexes. */
export function indexesAmong(present: readonly string[]): string[] {
  return present.filter((name) => INDEX_NAME.test(name));
}

/** Whether a path is opened as an index, of whatever format: of safetensors and torch no other file is JSON. */
export function isIndexPath(path: string): boolean {
  return path.endsWith('.json');
}

/** Whether a file of this name may be of torch or NumPy, which `safetensors-mmap/convert` opens. */
export function isConvertibleName(name: string): boolean {
  return CONVERTIBLE_NAME.test(name);
}

/**
 * Recognises a folder without safetensors files that is of another format, or whose files are parts; null for others,
 * such as a folder of torch files.
 */
export function foreignFolder(names: readonly string[]): ForeignFormat | null {
  return formatOfParts(names) ?? (names.some(isConvertibleName) ? null : formatOfFolder(names));
}

/** Whether a path is that of a torch index, with or without a variant. */
export function isTorchIndexName(path: string): boolean {
  return /\.bin\.index\.(?:[^/\\]*\.)?json$/.test(path);
}

/** Whether a file of any name belongs to a variant. Without a variant all files do. */
export function isOfVariant(name: string, variant: string | undefined): boolean {
  if (variant === undefined) return true;
  return (
    name.endsWith(`.${variant}${SHARD_EXTENSION}`) ||
    name.endsWith(`.${variant}.safetensors.index.json`) ||
    name.endsWith(`.safetensors.index.${variant}.json`)
  );
}

/**
 * The safetensors files of a folder, without those that a save from or to a single file leaves there
 * for a moment, or for good when it is killed: shards that no index names.
 */
export function wholeFiles(present: readonly string[]): string[] {
  const names = present.filter((name) => name.endsWith(SHARD_EXTENSION));
  const all = new Set(names);
  return names.filter(
    (name) => !SHARD_NUMBER.test(name) || !all.has(name.replace(SHARD_NUMBER, '')),
  );
}

/** The only file among `wholeFiles`, unless it is a numbered shard. */
export function onlyWholeFile(present: readonly string[]): string | undefined {
  const [only, ...more] = wholeFiles(present);
  return only === undefined || more.length > 0 || NUMBERED_SHARD.test(only) ? undefined : only;
}

/** One way to open a folder: as it is, with a variant, or one of its files. */
export interface WayToOpen {
  readonly variant?: string;
  readonly file?: string;
}

/** The ways to open a folder with files of these names, the preferred first; an empty list without weights. */
export function waysToOpen(names: readonly string[]): WayToOpen[] {
  const variants = variantsAmong(names).map((variant) => ({ variant }));
  if (usualFiles(names, undefined) !== undefined) return [{}, ...variants];
  if (hasCheckpoint(names)) return [{}];
  if (variants.length > 0) return variants;
  const files = [...indexesAmong(names), ...wholeFiles(names)];
  return files.filter((name) => !NUMBERED_SHARD.test(name)).map((file) => ({ file }));
}

/** The variants that have usually named files. */
export function variantsAmong(names: readonly string[]): string[] {
  const whole = names.filter((name) => !SHARD_NUMBER.test(name));
  const found = whole.map((name) => VARIANT_NAME.exec(name)?.slice(1).find(Boolean));
  return [...new Set(found.filter((variant) => variant !== undefined))].sort();
}

/**
 * What the names of a model's files have in common, by the name of its index or only file: the options of a
 * `FilenamePattern`. A usual name such as `model.fp16.safetensors` is that of a variant.
 */
export function namingOf(name: string): {
  readonly filenamePattern: string;
  readonly variant: string | undefined;
} {
  const [, stem = '', index, ofIndex] = INDEX_OR_FILE.exec(name) ?? [];
  const ofFile = index === undefined ? VARIANT_NAME.exec(name)?.[1] : undefined;
  const bare = ofFile === undefined ? stem : stem.slice(0, -ofFile.length - 1);
  return { filenamePattern: `${bare}{suffix}${SHARD_EXTENSION}`, variant: ofIndex ?? ofFile };
}
