/** Chooses the files of a pipeline's models, by names alone. */

import { SafetensorsError } from '../../errors/errors.js';
import { isOfVariant, preferredFile, type WayToOpen, waysToOpen } from './file-choice.js';

/** Most folders that are looked at, and names among which they are. Pipelines have about ten. */
export const MAX_COMPONENTS = 1000;

/** A file by its path below the pipeline's folder. */
interface NamedFile {
  readonly name: string;
}

/**
 * The files or indexes of a pipeline's models by their folders, in the order of names. With a variant, those of it in
 * folders that have it, and the usual ones elsewhere. Passes over hidden folders. `path` names the pipeline in errors.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a variant that no folder has
 */
export function chooseModels(
  files: Iterable<NamedFile>,
  variant: string | undefined,
  path: string,
): Map<string, string> {
  const byFolder = new Map<string, string[]>();
  for (const { name } of files) {
    const [folder = '', file, ...deeper] = name.split('/');
    if (file === undefined || deeper.length > 0 || !isComponentName(folder)) continue;
    const names = byFolder.get(folder) ?? [];
    byFolder.set(folder, names);
    names.push(file);
  }
  const chosen = new Map<string, string>();
  let hasVariant = variant === undefined;
  for (const folder of [...byFolder.keys()].sort().slice(0, MAX_COMPONENTS)) {
    const names = byFolder.get(folder) as string[];
    const way = wayInto(names, variant);
    if (way === undefined) continue;
    hasVariant ||= way.variant === variant;
    const { file = preferredFile(names, way.variant) } = way;
    if (file !== undefined) chosen.set(folder, `${folder}/${file}`);
  }
  if (!hasVariant) throw missingVariant(variant, path);
  return chosen;
}

/** Whether a name may be that of a model's folder: hidden ones are passed over. */
export function isComponentName(name: string): boolean {
  return !name.startsWith('.');
}

/**
 * How the model in a folder with files of these names is opened: with the variant where the folder has it, else in the
 * preferred way. Undefined without weights.
 */
export function wayInto(
  names: readonly string[],
  variant: string | undefined,
): WayToOpen | undefined {
  const isOf = variant !== undefined && names.some((name) => isOfVariant(name, variant));
  return isOf ? { variant } : waysToOpen(names)[0];
}

/** The error for a variant that no folder of a pipeline has. */
export function missingVariant(variant: string | undefined, path: string): SafetensorsError {
  const message = `expected models of the variant ${variant}, found none in the pipeline`;
  return new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
}
