/** Finds the models of a diffusers pipeline, which is a folder of models, and the calls that open them. */

import { join } from 'node:path';
import { SafetensorsError } from '../../errors/errors.js';
import type { Work } from '../../work/work.js';
import { type WayToOpen, waysToOpen } from '../shards/file-choice.js';
import { PIPELINE_FILE } from '../shards/file-names.js';
import { isComponentName, MAX_COMPONENTS, wayInto } from '../shards/pipeline-files.js';
import { lastingNames } from './find-files.js';

/** Most components that a message lists. */
const SHOWN_COMPONENTS = 20;

/** Most ways to open a component that it lists. */
const SHOWN_WAYS = 5;

/** Returns the path that opens a file or folder of the pipeline, given by its path in the pipeline. */
export type PathTo = (relative: string) => string;

/**
 * The error for a folder without a checkpoint that is a pipeline: it lists every folder that holds
 * weights, and the calls that open it. Undefined for other folders, and for a pipeline without weights.
 */
export function* pipelineError(
  folder: string,
  label: string,
  pathTo: PathTo,
): Work<SafetensorsError | undefined> {
  const names = yield* namesIn(folder);
  if (!names.includes(PIPELINE_FILE)) return undefined;
  const components: string[] = [];
  for (const name of names.filter(isComponentName).slice(0, MAX_COMPONENTS)) {
    const ways = waysToOpen(yield* namesIn(join(folder, name)));
    if (ways.length > 0) components.push(callsFor(name, ways, pathTo));
  }
  if (components.length === 0) return undefined;
  const shown = components.slice(0, SHOWN_COMPONENTS).join(', ');
  const more = components.length > SHOWN_COMPONENTS ? ' and more' : '';
  const beside = waysToOpen(names);
  const message =
    'expected one checkpoint in the folder, found a diffusers pipeline, which has several; open one of ' +
    `them: ${shown}${more}${beside.length === 0 ? '' : `; beside them: ${callsFor('', beside, pathTo)}`}`;
  return new SafetensorsError('SAFETENSORS_DIFFUSERS_PIPELINE', message, { path: label });
}

/** A model of a pipeline. */
export interface FoundModel {
  /** The path of its folder or file in the pipeline. */
  readonly path: string;
  /** The name of its folder. */
  readonly name: string;
  readonly variant: string | undefined;
}

/**
 * Models of a pipeline, by the paths of their folders or files in it; each is opened in the preferred way, or with the
 * variant where its folder has one.
 */
export function* modelsOf(folder: string, wanted?: string): Work<FoundModel[]> {
  const models: FoundModel[] = [];
  const names = (yield* namesIn(folder)).filter(isComponentName);
  for (const name of names.slice(0, MAX_COMPONENTS)) {
    const way = wayInto(yield* namesIn(join(folder, name)), wanted);
    if (way === undefined) continue;
    const { file, variant } = way;
    models.push({ path: file === undefined ? name : `${name}/${file}`, name, variant });
  }
  return models;
}

/** The calls that open a folder of the pipeline, or the pipeline's own files. */
function callsFor(folder: string, ways: readonly WayToOpen[], pathTo: PathTo): string {
  const calls = ways.slice(0, SHOWN_WAYS).map(({ file, variant }) => {
    const path = JSON.stringify(pathTo([folder, file].filter(Boolean).join('/')));
    const options = variant === undefined ? '' : `, { variant: ${JSON.stringify(variant)} }`;
    return `openCheckpoint(${path}${options})`;
  });
  return calls.join(' or ');
}

/** Lists the names in a folder; empty for other paths and unreadable folders. */
export function* namesIn(folder: string): Work<string[]> {
  try {
    return (yield* lastingNames(folder)).sort();
  } catch {
    return [];
  }
}
