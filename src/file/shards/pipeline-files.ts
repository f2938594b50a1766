/** Chooses the files of a pipeline's models, by names alone. */

import { SafetensorsError } from '../../errors/errors.js';
import { isOfVariant, preferredFile, waysToOpen } from './file-choice.js';

/** Most folders that are looked at. Pipelines have about ten. */
const MAX_COMPONENTS = 1000;

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
    if (file === undefined || deeper.length > 0 || folder.startsWith('.')) continue;
    const names = byFolder.get(folder) ?? [];
    byFolder.set(folder, names);
    names.push(file);
  }
  const chosen = new Map<string, string>();
  let hasVariant = variant === undefined;
  for (const folder of [...byFolder.keys()].sort().slice(0, MAX_COMPONENTS)) {
    const names = byFolder.get(folder) as string[];
    const isOf = variant !== undefined && names.some((name) => isOfVariant(name, variant));
    hasVariant ||= isOf;
    const [way] = isOf ? [{ variant }] : waysToOpen(names);
    if (way === undefined) continue;
    const file = 'file' in way ? way.file : preferredFile(names, way.variant);
    if (file !== undefined) chosen.set(folder, `${folder}/${file}`);
  }
  if (!hasVariant) throw missingVariant(variant, path);
  return chosen;
}

/** The error for a variant that no folder of a pipeline has. */
export function missingVariant(variant: string | undefined, path: string): SafetensorsError {
  const message = `expected models of the variant ${variant}, found none in the pipeline`;
  return new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
}
