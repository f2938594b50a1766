/** The names of a model's files: usual ones, of variants, of numbered shards, of indexes and of other formats. */

import { argumentRangeError, requireString } from '../../errors/arguments.js';
import { type ForeignFormat, formatOfFolder, formatOfParts } from '../../header/foreign-names.js';
import { pathError, SHARD_EXTENSION } from './shard-paths.js';

/** The usual names of a model's files: those of transformers and diffusers. */
export const CANONICAL_STEMS: readonly string[] = ['model', 'diffusion_pytorch_model'];

/** The name of an index, or of the only file: its stem, and the variant that an index may have. */
const INDEX_OR_FILE = /^(.*)\.safetensors(\.index(?:\.([^.]+))?\.json)?$/i;

const INDEX_NAME = /\.safetensors\.index\.(?:[^/]*\.)?json$/i;

/** The name of an index of any format: that of the single file is in two parts, around the variant of the index. */
const INDEX_OF_FILE = /^(.*)(\.[^.]+)\.index(?:\.([^.]+))?\.json$/i;

/** A usual name with a variant; an index has the variant in one of two places. */
const VARIANT_NAME =
  /^(?:model|diffusion_pytorch_model)\.(?:([^.]+)\.safetensors(?:\.index\.json)?|safetensors\.index\.([^.]+)\.json)$/i;

/** Extensions of the files that torch and NumPy write. */
const CONVERTIBLE_NAME = /\.(?:bin|pt|pth|ckpt|pdparams|npz|npy)$/;

/** The part that a shard's name adds to the name of a single file of the same model: its number and their count. */
export const SHARD_NUMBER: RegExp = /-(\d{5,})-of-(\d{5,})(?!\d)/i;

/** The usual names of a variant. */
interface CanonicalNames {
  /** Of indexes, the preferred first. */
  readonly indexes: readonly string[];
  readonly single: string;
}

/**
 * Throws unless the option `variant` can be a part of a file name.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE`
 */
export function requireVariant(variant: string | undefined): void {
  if (variant === undefined) return;
  requireString('variant', variant);
  if (pathError(variant) === null && !variant.includes('/')) return;
  throw argumentRangeError('variant', 'a part of a file name, such as fp16', variant);
}

/** The error for the option `variant` of something that is one file, which needs no choice. */
export function noVariant(what: string, variant: string): RangeError {
  return argumentRangeError('variant', `left out for ${what}: it chooses in a folder`, variant);
}

/** Returns the usual names of a variant's index and single file. */
export function canonicalNames(stem: string, variant: string | undefined): CanonicalNames {
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
export function canonicalFileName(stem: string, variant: string | undefined): string {
  return canonicalNames(stem, variant).single;
}

/** Returns the usual names of indexes and files of a variant, the preferred first. */
export function canonicalFileNames(variant: string | undefined): string[] {
  return CANONICAL_STEMS.flatMap((stem) => {
    const { indexes, single } = canonicalNames(stem, variant);
    return [...indexes, single];
  });
}

/**
 * A name as it is compared: file systems and archives differ in case and Unicode normalization. The original name
 * identifies the file.
 */
export function foldName(name: string): string {
  return name.normalize('NFC').toLowerCase();
}

/** Whether a file has the name of a safetensors file. */
export function isSafetensorsName(name: string): boolean {
  return /\.safetensors$/i.test(name);
}

/** Returns the name that the single file of a shard's model would have. */
export function singleNameOf(name: string): string {
  return name.replace(SHARD_NUMBER, '');
}

/** Returns the name that the single file of an index's model would have. */
export function indexedNameOf(index: string): string {
  const [, stem = '', extension = '', variant] = INDEX_OF_FILE.exec(index) ?? [];
  return variant === undefined ? stem + extension : `${stem}.${variant}${extension}`;
}

/** Whether an index or a single file has the usual name of a variant. */
export function isCanonicalVariantName(name: string): boolean {
  return VARIANT_NAME.test(name);
}

/** The names of indexes. */
export function indexesAmong(present: readonly string[]): string[] {
  return present.filter((name) => INDEX_NAME.test(name));
}

/** Whether a path is opened as an index, of whatever format: of safetensors and torch no other file is JSON. */
export function isIndexPath(path: string): boolean {
  return /\.json$/i.test(path);
}

/** Whether a file of this name may be of torch or NumPy, which `open` reads. */
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
  const folded = foldName(singleNameOf(name));
  const wanted = foldName(variant);
  return (
    folded.endsWith(`.${wanted}${SHARD_EXTENSION}`) ||
    folded.endsWith(`.${wanted}.safetensors.index.json`) ||
    folded.endsWith(`.safetensors.index.${wanted}.json`)
  );
}

/** The variants that have usually named files. */
export function variantsAmong(names: readonly string[]): string[] {
  const found = names.map((name) => VARIANT_NAME.exec(singleNameOf(name))?.slice(1).find(Boolean));
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
