/** `join` of several sources: all their tensors in one file, or in one folder. */

import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { saveCheckpoint, saveFile, type Tensor } from '../../index.js';
import {
  OwnFiles,
  replacedAmong,
  requireOverwrite,
} from '../../write/replacement/replaced-files.js';
import { resolveTarget } from '../../write/replacement/target.js';
import { progressOn } from '../output/progress.js';
import {
  closeSource,
  foreignSource,
  type OpenedSource,
  openSource,
} from '../sources/open-source.js';
import {
  type CommandContext,
  type CommandOptions,
  type OptionValues,
  requireChoice,
  UsageError,
} from './command.js';
import { foreignChoices } from './foreign-options.js';
import { repositoryChoice } from './repository-options.js';
import { chosenTensors, isDryRun, isForced, nothingChosen, printWritten } from './written.js';

const RULES = ['refuse', 'first', 'last'] as const;

/** The option for names that several sources have. */
export const DUPLICATES: CommandOptions = {
  duplicates: {
    type: 'string',
    value: 'RULE',
    choices: RULES,
    help: 'of a name in several sources: refuse (the default), or take the first or the last',
  },
};

/** Options of one source, which the writer has and this has not. */
const OF_ONE = ['dtype', 'dequantize', 'copy-other-files'];

/** The tensors of all sources, under their new names. */
class Gathered {
  readonly tensors = new Map<string, Tensor>();
  readonly metadata = new Map<string, string>();
  readonly leftOut: string[] = [];
  /** Places of sources that have a tensor which is not written. */
  readonly losing = new Set<number>();
  readonly #sources = new Map<string, { readonly source: string; readonly place: number }>();
  readonly #rule: (typeof RULES)[number];

  constructor(rule: (typeof RULES)[number]) {
    this.#rule = rule;
  }

  /** Throws an Error for a name that is there, unless the rule says which to take. */
  add(source: string, place: number, name: string, tensor: Tensor): void {
    const other = this.#sources.get(name);
    if (other !== undefined && this.#rule === 'refuse') {
      throw new Error(
        `${JSON.stringify(name)} is in ${other.source} and in ${source}: pass --duplicates first or last, or --rename`,
      );
    }
    const isFirst = this.#rule === 'first';
    if (other !== undefined) this.losing.add(isFirst ? place : other.place);
    if (other !== undefined && isFirst) return;
    this.#sources.set(name, { source, place });
    this.tensors.set(name, tensor);
  }

  leaveOut(place: number, name: string): void {
    this.losing.add(place);
    this.leftOut.push(name);
  }

  /** Of a key in several sources, the first value counts. */
  addMetadata(metadata: ReadonlyMap<string, string> | null): void {
    for (const [key, value] of metadata ?? []) {
      if (key !== 'total_size' && !this.metadata.has(key)) this.metadata.set(key, value);
    }
  }
}

/** Paths of the files of open sources, with their indexes. */
function filesOf(opened: readonly OpenedSource[]): string[] {
  return opened.flatMap((one) => {
    if (!('checkpoint' in one) || one.kind === 'remote') return [];
    const { path, shards } = one.checkpoint;
    return [path, ...shards.map((name) => join(dirname(path), name))];
  });
}

/** Joins local sources of any format; throws a UsageError for options of one source. */
export async function joinSeveral(
  context: CommandContext,
  sources: readonly string[],
  target: string,
  options: OptionValues,
): Promise<void> {
  const given = OF_ONE.find((name) => options[name] !== undefined);
  if (given !== undefined)
    throw new UsageError(`--${given} is for one source: convert each before`);
  const rule = requireChoice('duplicates', options['duplicates'] ?? 'refuse', RULES);
  const { takes, renames } = chosenTensors(options);
  const { signal } = context;
  const isFile = target.endsWith('.safetensors');
  const opened: OpenedSource[] = [];
  const progress = progressOn(context.stderr, 'writing');
  try {
    const gathered = new Gathered(rule);
    for (const [place, source] of sources.entries()) {
      const one = await openSource(source, {
        ...{ signal, storage: undefined },
        ...{ foreign: foreignChoices({}), choice: repositoryChoice(options) },
      });
      opened.push(one);
      if (!('checkpoint' in one) || one.kind === 'remote') {
        if (one.kind === 'remote') throw new UsageError('expected local sources');
        throw foreignSource(one, 'a file or checkpoint whose tensors can be read');
      }
      const { checkpoint } = one;
      for (const name of checkpoint.offsetKeys()) {
        if (takes(name)) gathered.add(source, place, renames(name), checkpoint.getTensor(name));
        else gathered.leaveOut(place, name);
      }
      gathered.addMetadata(checkpoint.metadata);
    }
    const { tensors, metadata, leftOut } = gathered;
    if (tensors.size === 0) throw new Error(nothingChosen(options));
    const dryRun = isDryRun(options);
    const choices = { metadata, signal, onProgress: progress.onProgress };
    const byteLength = [...tensors.values()].reduce((sum, one) => sum + one.byteLength, 0);
    const result = {
      ...{ source: sources.join(' '), target, dryRun, byteLength, copied: [], leftOut },
      ...{ castCount: 0, dequantizedCount: 0, uncast: [], overflowed: dryRun ? null : {} },
    };
    // All replaced files are listed. Those of a source whose tensors are all written need no `--force`.
    const own = new OwnFiles(filesOf(opened.filter((_, place) => !gathered.losing.has(place))));
    const overwrite = isForced(options);
    if (isFile) {
      const name = basename(target);
      const replaced = replacedAmong(dirname(target), [name]);
      // A file that must not be replaced is an error, with and without `--force`.
      if (existsSync(target)) resolveTarget(target, target);
      if (!dryRun) {
        requireOverwrite(replacedAmong(dirname(target), [name], own), target, { overwrite });
        await saveFile(target, tensors, choices);
      }
      progress.end();
      const files = { files: [name], index: null, deleted: [], replaced };
      return printWritten(context, options, { ...result, ...files });
    }
    const layout = { ...choices, maxShardSize: Number.POSITIVE_INFINITY };
    const plan = await saveCheckpoint(target, tensors, { ...layout, dryRun: true });
    const { replaced } = plan;
    const names = replaced.map((file) => file.name);
    if (!dryRun) requireOverwrite(replacedAmong(target, names, own), target, { overwrite });
    const { deleted } = dryRun ? plan : await saveCheckpoint(target, tensors, layout);
    progress.end();
    const files = plan.files.flatMap((file) => (file.tensors === null ? [] : file.name));
    printWritten(context, options, { ...result, files, index: plan.index, deleted, replaced });
  } finally {
    progress.end();
    for (const one of opened) closeSource(one);
  }
}
