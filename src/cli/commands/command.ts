/** The interface of a command, and the context in which it runs. */

import { nearHint } from '../../errors/near-names.js';
import type { Dtype } from '../../header/dtype.js';
import { dtypeOfOtherName } from '../../header/dtype-names.js';
import type { Output } from '../output/output.js';
import { type Style, styleOf } from '../output/style.js';
import { visibleJson } from '../output/visible.js';

/** Streams and signal of the process; tests pass their own. */
export interface CommandContext {
  readonly stdout: Output;
  readonly stderr: Output;
  /** Writes bytes to the standard output. They may be overwritten when the promise resolves. */
  writeBytes(bytes: Uint8Array): Promise<void>;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
}

/** One option. Its line of help names the value, if it takes one. */
interface CommandOption {
  readonly type: 'boolean' | 'string';
  readonly short?: string;
  /** Whether it may be repeated. */
  readonly multiple?: boolean;
  /** Name of the option's value, such as `GLOB`; for options of the type string. */
  readonly value?: string;
  /** All values that it takes, where these are few; shells complete them. */
  readonly choices?: readonly string[];
  readonly help: string;
}

export type CommandOptions = Readonly<Record<string, CommandOption>>;

/** The options of a call. */
export type OptionValues = Readonly<
  Record<string, string | boolean | readonly (string | boolean)[] | undefined>
>;

/** The values of an option, in order; empty without the option. */
export function optionValues(options: OptionValues, name: string): string[] {
  return [options[name] ?? []].flat().map(String);
}

/** Whether the answer is yes; no exits with code 1. */
export type Outcome = 'done' | 'no';

/** One command. */
export interface Command {
  /** Its purpose, for the list of commands. */
  readonly summary: string;
  /** Without the name of the program: `inspect SOURCE [options]`. */
  readonly usage: string;
  /** Its description, a paragraph. */
  readonly description: string;
  /** One call, without the name of the program. */
  readonly example: string;
  readonly options: CommandOptions;
  /** Least and most positional arguments. The usage lists required ones first. */
  readonly positionals: readonly [least: number, most: number];
  run(
    context: CommandContext,
    positionals: readonly string[],
    options: OptionValues,
  ): Promise<Outcome>;
}

/** Codes of errors that are the command line's own. Only `--json` prints them. */
type CommandErrorCode =
  | 'USAGE_ERROR'
  | 'INTERRUPTED'
  | 'NO_TENSOR_CHOSEN'
  | 'NOTHING_CAST'
  | 'UNRELATED_BASE';

/** An error of the command line, not of the library. */
export class CommandError extends Error {
  readonly code: CommandErrorCode;

  constructor(code: CommandErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** A usage error: exit code 2. */
export class UsageError extends CommandError {
  constructor(message: string) {
    super('USAGE_ERROR', message);
  }
}

/** Other programs' names for these words. */
const OTHER_WORDS: Readonly<Record<string, readonly string[]>> = {
  rm: ['remove', 'delete', 'del', 'unset', 'drop'],
  set: ['add', 'put', 'update', 'edit', 'write'],
  get: ['show', 'list', 'ls', 'read', 'view', 'print', 'cat'],
  show: ['get', 'list', 'ls', 'read', 'view', 'print', 'cat'],
  clear: ['reset', 'empty', 'wipe'],
  export: ['dump', 'save'],
  import: ['load', 'replace'],
  strip: ['clean', 'anonymize'],
  check: ['validate', 'verify'],
};

/** Throws a UsageError unless the second word of a command is in the list; suggests the right one. */
export function requireAction<Action extends string>(
  command: string,
  word: string,
  actions: readonly Action[],
): Action {
  if (actions.includes(word as Action)) return word as Action;
  const meant = actions.find((action) => OTHER_WORDS[action]?.includes(word.toLowerCase()));
  const near = meant === undefined ? nearHint(word, actions) : `; did you mean ${meant}?`;
  const hint = near === '' ? `; it takes ${actions.join(', ')}` : near;
  throw new UsageError(`${command} has no ${JSON.stringify(word)}${hint}`);
}

/** Throws a UsageError when an argument is missing; `name` is its name in the help. */
export function requireArgument(name: string, value: string | undefined): asserts value is string {
  if (value === undefined) throw new UsageError(`${name} is missing`);
}

/** A signal ended a command; the message says how to continue. */
export class InterruptedError extends CommandError {
  constructor(message: string) {
    super('INTERRUPTED', message);
  }
}

/** Throws a UsageError unless the list contains the value; suggests similar ones. */
export function requireChoice<Choice extends string>(
  option: string,
  value: unknown,
  choices: readonly Choice[],
): Choice {
  if (choices.includes(value as Choice)) return value as Choice;
  const hint = nearHint(value, choices);
  throw new UsageError(`--${option} takes ${choices.join(', ')}${hint}`);
}

/** A dtype in any case, under this or another library's name, such as `bf16` or `torch.bfloat16`. */
export function requireDtypeChoice<Choice extends Dtype>(
  option: string,
  value: string,
  choices: readonly Choice[],
): Choice {
  return requireChoice(option, dtypeOfOtherName(value), choices);
}

/** Throws a UsageError for surplus arguments. */
export function requireNone(args: readonly string[]): void {
  if (args.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(args[0])}`);
}

/**
 * Prints a result as JSON or as lines. Both come from the same object, so they cannot disagree.
 */
export function printResult<Result>(
  { stdout }: CommandContext,
  options: OptionValues,
  result: Result,
  linesOf: (result: Result, style: Style, width: number | null) => readonly string[],
): void {
  if (options['json'] === true) {
    stdout.write(`${visibleJson(JSON.stringify(result))}\n`);
    return;
  }
  const lines = linesOf(result, styleOf(stdout.hasColors), stdout.columns);
  if (lines.length > 0) stdout.write(`${lines.join('\n')}\n`);
}

/** A number for JSON; NaN and infinities, which JSON lacks, become texts. */
export function jsonNumber(value: number | null): number | string | null {
  return value === null || Number.isFinite(value) ? value : String(value);
}
