/** Decides which folders of a pipeline hold models, and which files these are, only by names. */

import type { Advice } from '../../errors/advice.js';
import { FormatError, SafetensorsError } from '../../errors/errors.js';
import { isOfVariant, isSafetensorsName, variantsAmong } from './file-choice.js';
import { PIPELINE_FILE } from './file-names.js';
import { chooseModel, hasModel, isChosen, type ModelDecision } from './model-choice.js';
import { hasWeightsName } from './shard-paths.js';

/** Maximum number of folders to examine. Pipelines have about ten. */
export const MAX_COMPONENTS = 1000;

/** Maximum length of `model_index.json`, in bytes. Those of pipelines have less than 4 kB. */
export const MAX_PIPELINE_FILE_BYTE_LENGTH: number = 2 ** 20;

/** Maximum number of components that a message lists. */
const SHOWN_COMPONENTS = 20;

/** Maximum number of ways to open a component that it lists. */
const SHOWN_WAYS = 5;

/** A file by its path below the pipeline's folder. */
interface NamedFile {
  readonly name: string;
}

/** A folder of a pipeline with the files of a model. */
export interface Component {
  /** The name of the folder. */
  readonly name: string;
  readonly files: readonly string[];
  readonly variant: string | undefined;
}

/** One way to open a folder: as it is, with a variant, or one of its files. */
interface WayToOpen {
  readonly variant?: string;
  readonly file?: string;
}

/** Returns the call that opens a folder or a file of a pipeline, given by its path in the pipeline. */
type CallFor = (relative: string, variant: string | undefined) => Advice;

/** The names of the files in each folder directly below the pipeline's. */
export function filesByFolder(files: Iterable<NamedFile>): Map<string, string[]> {
  const byFolder = new Map<string, string[]>();
  for (const { name } of files) {
    const [folder = '', file, ...deeper] = name.split('/');
    if (file === undefined || deeper.length > 0 || !isComponentName(folder)) continue;
    const names = byFolder.get(folder);
    if (names === undefined) byFolder.set(folder, [file]);
    else names.push(file);
  }
  return byFolder;
}

/** Whether a name may be that of a model's folder: hidden ones are skipped. */
export function isComponentName(name: string): boolean {
  return !name.startsWith('.');
}

/**
 * Returns the folders with models, in the order of names. A folder that `model_index.json` lists (`named`) also counts
 * if it has weights of other formats, or no choice among several: its decision has the error. With a variant, a folder
 * that has it uses it. `path` is that of the pipeline, for errors.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a variant that no folder has
 */
export function componentsAmong(
  byFolder: ReadonlyMap<string, readonly string[]>,
  named: readonly string[],
  variant: string | undefined,
  path: string,
): Component[] {
  const found = [...byFolder]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, MAX_COMPONENTS)
    .map(([name, files]) => ({ name, files, variant: variantIn(files, variant) }))
    .filter(({ name, files, variant }) =>
      named.includes(name) ? files.some(hasWeightsName) : hasModel(files, variant),
    );
  if (variant === undefined || found.some((one) => one.variant === variant)) return found;
  const message = `expected models of the variant ${variant}, found none in the pipeline`;
  throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
}

/** The decision about a component. */
export function chooseComponent({ files, variant }: Component): ModelDecision {
  return chooseModel({ files }, { variant });
}

/** The variant of a folder: the requested one if it is there, none if there is a model without, else the first. */
function variantIn(files: readonly string[], wanted: string | undefined): string | undefined {
  if (wanted !== undefined && files.some((name) => isOfVariant(name, wanted))) return wanted;
  if (hasModel(files)) return undefined;
  return variantsAmong(files).find((variant) => hasModel(files, variant));
}

/** The ways to open a folder with files of these names, the preferred first; an empty list without weights. */
function waysToOpen(files: readonly string[]): WayToOpen[] {
  const first = firstOf(files, undefined);
  const variants = variantsAmong(files).filter((variant) => {
    const found = firstOf(files, variant);
    return found !== undefined && found !== first;
  });
  const ways = variants.map((variant) => ({ variant }));
  if (first !== undefined) return [{}, ...ways];
  if (ways.length > 0) return ways;
  return files.filter((name) => isSafetensorsName(name)).map((file) => ({ file }));
}

/** The file or index that a decision begins with. */
function firstOf(files: readonly string[], variant: string | undefined): string | undefined {
  const { value, done } = chooseModel({ files }, { variant }).next();
  if (done !== true) return value;
  return isChosen(value) ? value.name : undefined;
}

/**
 * The error for a folder without a checkpoint that is a pipeline: it lists every folder that holds weights, and the
 * calls that open it. Undefined for other folders, and for a pipeline without weights.
 */
export function pipelineError(
  names: readonly string[],
  byFolder: ReadonlyMap<string, readonly string[]>,
  callFor: CallFor,
  path: string | undefined,
): SafetensorsError | undefined {
  if (!names.includes(PIPELINE_FILE)) return undefined;
  const components = [...byFolder]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, MAX_COMPONENTS)
    .flatMap(([name, files]) => {
      const ways = waysToOpen(files.toSorted());
      return ways.length === 0 ? [] : [callsFor(name, ways, callFor)];
    });
  if (components.length === 0) return undefined;
  const shown = components.slice(0, SHOWN_COMPONENTS);
  const textsOf = (calls: readonly Advice[]): string => calls.map(({ text }) => text).join(' or ');
  const listed = shown.map(textsOf).join(', ');
  const more = components.length > SHOWN_COMPONENTS ? ' and more' : '';
  const atRoot = callsFor('', waysToOpen(names.toSorted()), callFor);
  const message =
    'expected one checkpoint in the folder, found a Diffusers pipeline, which has several; open one of ' +
    `them: ${listed}${more}${atRoot.length === 0 ? '' : `; next to them: ${textsOf(atRoot)}`}`;
  const advice = [...shown.flat(), ...atRoot];
  return new SafetensorsError('SAFETENSORS_DIFFUSERS_PIPELINE', message, { path, advice });
}

/** The calls that open a folder of the pipeline, or the pipeline's own files. */
function callsFor(folder: string, ways: readonly WayToOpen[], callFor: CallFor): Advice[] {
  const calls = ways
    .slice(0, SHOWN_WAYS)
    .map(({ file, variant }) => callFor([folder, file].filter(Boolean).join('/'), variant));
  return calls;
}

/** A call of a function that takes a source and options. */
export function openingCall(option: string, source: string, variant: string | undefined): Advice {
  const options = variant === undefined ? '' : `, { variant: ${JSON.stringify(variant)} }`;
  return { option, value: source, text: `${option}(${JSON.stringify(source)}${options})` };
}

/** The error for a folder that is not a pipeline. */
export function noPipeline(path: string): SafetensorsError {
  const message = `expected a pipeline, found no ${PIPELINE_FILE} in the folder`;
  return new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
}

/**
 * Throws for a `model_index.json` that is longer than any real one, before it is read.
 *
 * @throws FormatError `SAFETENSORS_INVALID_PIPELINE`
 */
export function checkPipelineByteLength(byteLength: number, path: string | undefined): void {
  if (byteLength <= MAX_PIPELINE_FILE_BYTE_LENGTH) return;
  const message =
    `expected ${PIPELINE_FILE} to have at most ${MAX_PIPELINE_FILE_BYTE_LENGTH} bytes, ` +
    `found ${byteLength}`;
  throw new FormatError('SAFETENSORS_INVALID_PIPELINE', message, { path });
}
