/** Shared by commands that write checkpoints: options, plans and reports. */

import {
  type ConfigMismatch,
  type PlannedFile,
  type ReplacedFile,
  splitStateDictIntoShards,
} from '../../index.js';
import { formatBytes, plural, unknownCompleteness } from '../../inspect/format.js';
import { CAST_TARGETS, type CastTarget } from '../../tensor/float32/cast.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { namesTest } from '../sources/glob.js';
import { quantizedWeights } from '../sources/not-cast.js';
import { RenameError, renameRule, renamer } from '../sources/renames.js';
import { FORCE_ADVICE } from './advice.js';
import {
  type CommandContext,
  CommandError,
  type CommandOptions,
  type OptionValues,
  optionValues,
  printResult,
  requireDtypeChoice,
  UsageError,
} from './command.js';
import { FILTER, nothingChosen } from './filter-option.js';
import { formatRoot } from './foreign-options.js';
import { repositoryChoice } from './repository-options.js';

/** Most names in one line. */
const SHOWN_NAMES = 8;

/** Dtypes of dequantized weights. */
const PLAIN_DTYPES = ['BF16', 'F16', 'F32'] as const;

export const SELECTION: CommandOptions = {
  ...FILTER,
  exclude: {
    type: 'string',
    multiple: true,
    value: 'GLOB',
    help: 'leave out tensors with matching names; repeatable',
  },
  rename: {
    type: 'string',
    multiple: true,
    value: 'RULE',
    help: "new names, such as 'model.*=>*'; @FILE has a rule on each line; repeatable, and the first that matches counts",
  },
  dtype: {
    type: 'string',
    value: 'DTYPE',
    choices: CAST_TARGETS,
    help:
      'cast floating-point tensors to F32, F16, BF16, F8_E4M3 or F8_E5M2, but not the scales and code books of ' +
      'quantized weights',
  },
  dequantize: {
    type: 'string',
    value: 'DTYPE',
    choices: PLAIN_DTYPES,
    help: 'write dequantized weights as BF16, F16 or F32',
  },
};

export const SHARD_SIZE: CommandOptions = {
  'max-shard-size': {
    type: 'string',
    value: 'SIZE',
    help: "such as '5GB', the default; a plain number counts bytes",
  },
};

/** A number of bytes without a unit, as `split -b` takes it. */
const PLAIN_NUMBER = /^\d+$/;

/** The size of `--max-shard-size`; undefined without the option. Throws a UsageError for a malformed size. */
export function shardSizeOf({ 'max-shard-size': size }: OptionValues): string | number | undefined {
  if (typeof size !== 'string') return undefined;
  const parsed = PLAIN_NUMBER.test(size) ? Number(size) : size;
  try {
    splitStateDictIntoShards([], { maxShardSize: parsed });
  } catch (error) {
    throw new UsageError(String(Object(error).message).replace('maxShardSize', '--max-shard-size'));
  }
  return parsed;
}

export const DRY_RUN: CommandOptions = {
  'dry-run': {
    type: 'boolean',
    help: 'preview: list what would be written, replaced and deleted',
  },
};

export const FORCE: CommandOptions = {
  force: { type: 'boolean', help: 'replace existing weight files' },
};

export const DIGESTS: CommandOptions = {
  digests: {
    type: 'boolean',
    help: 'record the SHA-256 of every tensor in the metadata, where verify finds it',
  },
};

/** Whether a command records the digests of the tensors that it writes. */
export function isDigested(options: OptionValues): boolean {
  return options['digests'] === true;
}

/** Whether a command may replace weights. */
export function isForced(options: OptionValues): boolean {
  return options['force'] === true;
}

/** Throws a UsageError for `-`, which is the standard output of `convert` and no folder. */
export function requirePath(target: string): void {
  if (target !== '-') return;
  throw new UsageError('`convert SOURCE -` writes to the standard output; a folder is ./-');
}

/** Whether a command only plans. */
export function isDryRun(options: OptionValues): boolean {
  return options['dry-run'] === true;
}

/** Names in one line; only the first of many. */
function someNames(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).map((name) => visible(name, SHOWN_NAME_LENGTH));
  const left = names.length - shown.length;
  return [...shown, ...(left === 0 ? [] : [`and ${left} more (--json has all)`])].join(', ');
}

/** Effects of `--dtype` and `--dequantize`, done or planned, for `--json`. */
export interface CastResult {
  /** Number of cast tensors, also planned ones. */
  readonly castCount: number;
  /** Number of tensors written in place of quantized ones, also planned ones. */
  readonly dequantizedCount: number;
  /** Names of tensors left unchanged because they belong to quantized weights. */
  readonly notCast: readonly string[];
  /** Number of elements too large for the new dtype, by tensor; null in a plan, which cannot know it. */
  readonly overflowed: Readonly<Record<string, number>> | null;
  /** Configurations that list a dtype which the tensors do not have; absent without such files. */
  readonly configMismatches?: readonly ConfigMismatch[];
}

/** The part of the library's report for `--json`. */
export function castResult({
  cast,
  dequantized,
  notCast,
  overflowed,
  configMismatches = [],
}: Pick<
  WrittenOutcome,
  'cast' | 'dequantized' | 'notCast' | 'overflowed' | 'configMismatches'
>): CastResult {
  return {
    ...(configMismatches.length === 0 ? {} : { configMismatches }),
    castCount: cast.length,
    dequantizedCount: dequantized.length,
    notCast,
    overflowed: overflowed === undefined ? null : Object.fromEntries(overflowed),
  };
}

/** Reports the effects of `--dtype` and `--dequantize`, and the tensors left unchanged. */
export function castLines(
  { castCount, dequantizedCount, notCast, overflowed, configMismatches = [] }: CastResult,
  style: Style,
): string[] {
  const left = `${plural(notCast.length, 'tensor')} not cast, as parts of quantized weights`;
  return [
    ...(castCount === 0 ? [] : [`${plural(castCount, 'tensor')} cast`]),
    ...(dequantizedCount === 0 ? [] : [`${plural(dequantizedCount, 'tensor')} dequantized`]),
    ...(notCast.length === 0 ? [] : [`${left}: ${someNames(notCast)}`]),
    ...Object.entries(overflowed ?? {}).map(([name, count]) =>
      style.warning(
        `warning: ${visible(name, SHOWN_NAME_LENGTH)}: ${plural(count, 'element')} too large for the new dtype`,
      ),
    ),
    ...configMismatches.map(({ name, declared, dtypes }) => {
      const found = declared === null ? 'is not valid JSON' : `lists ${declared}`;
      const text = `warning: ${name} ${found}, but the tensors are ${dtypes.join(' and ')}`;
      return style.warning(visible(text, SHOWN_NAME_LENGTH));
    }),
  ];
}

/** Reports the tensors that `--filter` and `--exclude` leave out. */
export function excludedLines(names: readonly string[], isDry: boolean): string[] {
  if (names.length === 0 || !isDry) return [];
  return [`would leave out ${plural(names.length, 'tensor')}: ${someNames(names)}`];
}

/** Names of tensors and metadata keys of which the source has more than one. */
interface Ambiguities {
  readonly duplicates?: readonly string[] | undefined;
  readonly conflicts?: readonly string[] | undefined;
}

/** Warns of tensors and metadata keys of which the source has more than one: at most one was written. */
export function ambiguityLines(
  { duplicates = [], conflicts = [] }: Ambiguities,
  style: Style,
): string[] {
  return [
    ...(duplicates.length === 0
      ? []
      : [style.warning(`warning: found in several files, written once: ${someNames(duplicates)}`)]),
    ...(conflicts.length === 0
      ? []
      : [style.warning(`warning: metadata with several values: ${someNames(conflicts)}`)]),
  ];
}

function namesText(names: readonly string[]): string {
  return names.map((name) => visible(name, SHOWN_NAME_LENGTH)).join(', ');
}

/** Reports an earlier checkpoint's files to delete, or deleted. */
export function deletedLines(names: readonly string[], isDry: boolean): string[] {
  if (names.length === 0) return [];
  const what = isDry ? 'would delete' : 'deleted';
  return [`${what}, of an earlier checkpoint: ${namesText(names)}`];
}

/** Reports files that are gone: replaced by new ones, or deleted. */
export function replacedLines(
  replaced: readonly ReplacedFile[],
  deleted: readonly string[],
  isDry: boolean,
): string[] {
  const overwritten = replaced.filter(({ name }) => !deleted.includes(name));
  if (overwritten.length === 0) return [];
  const shown = overwritten.map(
    ({ name, byteLength }) => `${visible(name, SHOWN_NAME_LENGTH)} (${formatBytes(byteLength)})`,
  );
  return [`${isDry ? 'would replace' : 'replaced'}: ${shown.join(', ')}`];
}

/** Warns in a preview that the command itself would stop at weights in the target. */
export function forceLines(
  { needsForce }: Pick<WrittenResult, 'needsForce'>,
  style: Style,
): string[] {
  if (needsForce !== true) return [];
  return [style.warning(`warning: the target already holds weights; ${FORCE_ADVICE}`)];
}

/** The chosen tensors and their new dtypes. */
interface ChosenSelection {
  readonly names?: (name: string) => boolean;
  readonly rename?: (name: string) => string;
  readonly dtype?: CastTarget;
  readonly dequantize?: (typeof PLAIN_DTYPES)[number];
}

/** Throws a UsageError for a rule that cannot be used. */
function renameOf(options: OptionValues): ChosenSelection['rename'] {
  try {
    return renamer(optionValues(options, 'rename'));
  } catch (error) {
    throw error instanceof RenameError ? new UsageError(`--rename: ${error.message}`) : error;
  }
}

function selectionOf(options: OptionValues): ChosenSelection {
  const { dtype, dequantize } = options;
  const rename = renameOf(options);
  const names = namesTest(optionValues(options, 'filter'), optionValues(options, 'exclude'));
  return {
    ...(names === undefined ? {} : { names }),
    ...(rename === undefined ? {} : { rename }),
    ...(dtype === undefined
      ? {}
      : { dtype: requireDtypeChoice('dtype', dtype as string, CAST_TARGETS) }),
    ...(dequantize === undefined
      ? {}
      : { dequantize: requireDtypeChoice('dequantize', dequantize as string, PLAIN_DTYPES) }),
  };
}

/** The names to take, and their new forms. */
function chosenTensors(options: OptionValues): {
  takes(name: string): boolean;
  renames(name: string): string;
} {
  const { names = () => true, rename = (name) => name } = selectionOf(options);
  return { takes: names, renames: rename };
}

/** Options with patterns that no tensor matched, as on the command line. */
interface Unmatched {
  readonly unmatched: readonly string[];
}

/** Observes which patterns of `--filter`, `--exclude` and `--rename` match a name. */
class Patterns {
  readonly #unmatched = new Map<string, (name: string) => boolean>();

  constructor(options: OptionValues) {
    for (const option of ['filter', 'exclude']) {
      for (const glob of optionValues(options, option)) {
        this.#unmatched.set(`--${option} ${glob}`, namesTest([glob]) as (name: string) => boolean);
      }
    }
    for (const text of optionValues(options, 'rename')) {
      const rule = renameRule([text]);
      this.#unmatched.set(`--rename ${text}`, (name) => rule?.(name) !== undefined);
    }
  }

  observe(name: string): void {
    for (const [text, matches] of this.#unmatched) {
      if (matches(name)) this.#unmatched.delete(text);
    }
  }

  get unmatched(): string[] {
    return [...this.#unmatched.keys()];
  }
}

/**
 * Does work on the chosen tensors.
 *
 * @throws Error if the options choose no tensor; errors of the work
 */
export async function selecting<Result extends object>(
  options: OptionValues,
  work: (selection: ChosenSelection) => Promise<Result>,
): Promise<Result & Unmatched> {
  const { names, rename, ...rest } = selectionOf(options);
  const patterns = new Patterns(options);
  const renamed = (name: string): string => {
    patterns.observe(name);
    return (rename as (name: string) => string)(name);
  };
  const others = { ...rest, ...(rename === undefined ? {} : { rename: renamed }) };
  if (names === undefined) return { ...(await work(others)), unmatched: patterns.unmatched };
  let [isAsked, isAny] = [false, false];
  const noted = (name: string): boolean => {
    patterns.observe(name);
    const isChosen = names(name);
    [isAsked, isAny] = [true, isAny || isChosen];
    return isChosen;
  };
  try {
    return { ...(await work({ ...others, names: noted })), unmatched: patterns.unmatched };
  } catch (error) {
    const isNone = Object(error).argument === 'names' && isAsked && !isAny;
    throw isNone ? new CommandError('NO_TENSOR_CHOSEN', nothingChosen(options)) : error;
  }
}

/** Warns of patterns that no tensor matches. */
export function unmatchedLines(unmatched: readonly string[] | undefined, style: Style): string[] {
  return (unmatched ?? []).map((text) =>
    style.warning(`warning: no tensor matches ${visible(text, SHOWN_NAME_LENGTH)}`),
  );
}

/**
 * Requires `--dtype` to cast something, before anything is written.
 *
 * @param plan plans the same work
 * @throws Error if all chosen weights are quantized, and so stay as they are
 */
export async function requireCast(
  { signal }: CommandContext,
  options: OptionValues,
  source: string,
  plan: () => Promise<Pick<WrittenOutcome, 'cast'>>,
): Promise<void> {
  const { dtype, dequantize } = options;
  if (typeof dtype !== 'string' || dequantize !== undefined) return;
  if ((await plan()).cast.length > 0) return;
  const opening = { signal, storage: 'read', choice: repositoryChoice(options) } as const;
  const { takes } = chosenTensors(options);
  const { count, scheme, smallFloats } = await quantizedWeights(source, opening, takes, dtype);
  if (count === 0 && smallFloats > 0) {
    const left = `${plural(smallFloats, 'tensor')} in floats of 8 bits or less stay${smallFloats === 1 ? 's' : ''} unchanged`;
    throw new CommandError(
      'NOTHING_CAST',
      `nothing was cast: ${left}; --dtype casts F64, F32, F16 and BF16`,
    );
  }
  if (count === 0) return;
  const are = `${plural(count, 'weight')} ${count === 1 ? 'is' : 'are'}`;
  const kind = scheme === null ? 'quantized' : `${scheme}-quantized`;
  const plain = PLAIN_DTYPES.find((one) => one === dtype) ?? 'BF16';
  throw new CommandError(
    'NOTHING_CAST',
    `nothing was cast: ${are} ${kind}; use \`--dequantize ${plain}\``,
  );
}

/** Written or planned files, for `--json`. */
export interface WrittenResult extends CastResult {
  readonly source: string;
  readonly target: string;
  readonly dryRun: boolean;
  readonly files: readonly string[];
  readonly index: string | null;
  /** Length of all tensors. */
  readonly byteLength: number;
  /** Names of copied sibling files. */
  readonly copied: readonly string[];
  /** Names of sibling files that were not copied; absent without such files. */
  readonly skipped?: readonly string[];
  /** Names of an earlier checkpoint's deleted files. */
  readonly deleted: readonly string[];
  /**
   * Existing files that were replaced or deleted. Those of the source are listed only if some of its
   * tensors were left out, or if there are several sources.
   */
  readonly replaced: readonly ReplacedFile[];
  /** In a preview without `--force` that the command itself needs; absent otherwise. */
  readonly needsForce?: true;
  /** Names of the tensors that `--filter` and `--exclude` left out. */
  readonly excluded: readonly string[];
  /** The keys that led to the state dict; for `convert`, and `join` into a file. */
  readonly root?: readonly (string | number)[];
  /** The written name of each tensor by its dropped name; for the same commands. */
  readonly dropped?: Readonly<Record<string, string>>;
  /** The ranks of a distributed checkpoint whose completeness is unknown; absent for other sources. */
  readonly ranksFound?: number;
  /** What the metadata of a GGUF model lacks for a `config.json`; absent when nothing is missing. */
  readonly missingConfig?: readonly string[];
  /** Keys of metadata with different values, at most one of which was written; absent without such keys. */
  readonly conflicts?: readonly string[];
  /** Names that several shards or sources have, one tensor of each written; absent without such names. */
  readonly duplicates?: readonly string[];
  /** Options with patterns that no tensor matches; absent without such options. */
  readonly unmatched?: readonly string[];
}

/** Members that only some commands report. */
interface FurtherOutcome {
  readonly ranksFound?: number;
  readonly missingConfig?: readonly string[];
  readonly root?: readonly (string | number)[];
  readonly dropped?: ReadonlyMap<string, string>;
  readonly conflicts?: readonly string[];
  readonly duplicates?: readonly string[];
}

/** The report or plan of one of the library's functions. */
interface WrittenOutcome extends FurtherOutcome {
  readonly files: readonly (string | PlannedFile)[];
  readonly index: string | null;
  readonly totalSize: number;
  /** Missing in a plan, whose files have them. */
  readonly copied?: readonly string[];
  readonly skipped?: readonly string[];
  readonly deleted: readonly string[];
  readonly replaced: readonly ReplacedFile[];
  /** In a plan. */
  readonly needsOverwrite?: true;
  readonly excluded: readonly string[];
  readonly cast: readonly string[];
  readonly dequantized: readonly string[];
  readonly notCast: readonly string[];
  readonly configMismatches?: readonly ConfigMismatch[];
  /** Missing in a plan. */
  readonly overflowed?: ReadonlyMap<string, number>;
}

/** Does the work with progress and prints the result. */
export async function write(
  context: CommandContext,
  options: OptionValues,
  { source, target, label }: { source: string; target: string; label: string },
  work: (
    choices: ChosenSelection & {
      signal: AbortSignal;
      onProgress: ReturnType<typeof progressOn>['onProgress'];
      dryRun: boolean;
      overwrite: boolean;
      digests: boolean;
    },
  ) => Promise<WrittenOutcome>,
): Promise<void> {
  const progress = progressOn(context.stderr, label);
  const dryRun = isDryRun(options);
  const overwrite = isForced(options);
  const { onProgress } = progress;
  const digests = isDigested(options);
  const choices = { signal: context.signal, onProgress, dryRun, overwrite, digests };
  const run = (isPlan: boolean): Promise<WrittenOutcome & Unmatched> =>
    selecting(options, (selection) => work({ ...selection, ...choices, dryRun: isPlan }));
  await requireCast(context, options, source, () => run(true));
  const outcome = await run(dryRun).finally(() => progress.end());
  const { files, index, totalSize, deleted, replaced, excluded } = outcome;
  const {
    root,
    dropped,
    skipped = [],
    conflicts = [],
    duplicates = [],
    unmatched,
    missingConfig,
    ranksFound,
  } = outcome;
  printWritten(context, options, {
    ...{ source, target, dryRun, files: tensorFiles(files), index, deleted, replaced },
    ...{ byteLength: totalSize, copied: copiedFiles(outcome), excluded, ...castResult(outcome) },
    ...(outcome.needsOverwrite === undefined ? {} : { needsForce: true }),
    ...(skipped.length === 0 ? {} : { skipped }),
    ...(root === undefined ? {} : { root }),
    ...(dropped === undefined ? {} : { dropped: Object.fromEntries(dropped) }),
    ...(missingConfig === undefined ? {} : { missingConfig }),
    ...(ranksFound === undefined ? {} : { ranksFound }),
    ...(conflicts.length === 0 ? {} : { conflicts }),
    ...(duplicates.length === 0 ? {} : { duplicates }),
    ...(unmatched.length === 0 ? {} : { unmatched }),
  });
}

/** Names of the files next to the weights; in a plan the files without tensors, except the index. */
function copiedFiles({ copied, files, index }: WrittenOutcome): readonly string[] {
  if (copied !== undefined) return copied;
  return files.flatMap((file) => {
    const isOther = typeof file !== 'string' && file.tensors === null && file.name !== index;
    return isOther ? file.name : [];
  });
}

/** Names of the files with tensors; a plan has all files. */
function tensorFiles(files: WrittenOutcome['files']): string[] {
  return files.flatMap((file) => {
    if (typeof file === 'string') return file;
    return file.tensors === null ? [] : file.name;
  });
}

function printWritten(context: CommandContext, options: OptionValues, result: WrittenResult): void {
  printResult(context, options, result, (written, style) => {
    const { target, dryRun, files, byteLength, deleted, replaced } = written;
    const { copied, skipped = [], excluded, root = [], dropped = {} } = written;
    const { conflicts, duplicates, unmatched, missingConfig = [], ranksFound } = written;
    const tied = Object.entries(dropped).map((pair) => `${pair[0]}, as ${pair[1]}`);
    return [
      `${style.bold(visible(target, SHOWN_NAME_LENGTH))}: ${dryRun ? 'would have ' : ''}${plural(files.length, 'file')}, ${formatBytes(byteLength)} of tensors`,
      ...files.map((name) => `  ${visible(name, SHOWN_NAME_LENGTH)}`),
      ...(root.length === 0 ? [] : [`root: ${visible(formatRoot(root), SHOWN_NAME_LENGTH)}`]),
      ...(tied.length === 0 ? [] : [`written once: ${namesText(tied)}`]),
      ...(copied.length === 0 ? [] : [`${dryRun ? 'would copy' : 'copied'}: ${namesText(copied)}`]),
      ...(skipped.length === 0 ? [] : [`not copied: ${namesText(skipped)}`]),
      ...excludedLines(excluded, dryRun),
      ...(ranksFound === undefined
        ? []
        : [style.warning(`warning: ${unknownCompleteness(ranksFound)}`)]),
      ...(missingConfig.length === 0
        ? []
        : [style.warning(`warning: no config.json, for lack of ${someNames(missingConfig)}`)]),
      ...ambiguityLines({ duplicates, conflicts }, style),
      ...unmatchedLines(unmatched, style),
      ...castLines(written, style),
      ...replacedLines(replaced, deleted, dryRun),
      ...deletedLines(deleted, dryRun),
      ...forceLines(written, style),
    ];
  });
}
