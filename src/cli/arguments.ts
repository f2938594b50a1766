/** Checks the options and arguments of a command. */

import { parseArgs } from 'node:util';
import { nearHint } from '../errors/near-names.js';
import { flagOf } from './commands/advice.js';
import {
  type Command,
  type CommandOptions,
  type OptionValues,
  UsageError,
} from './commands/command.js';

/** The name of the program. */
export const PROGRAM = 'safetensors-mmap';

/** Options of every command. */
export const COMMON_OPTIONS: CommandOptions = {
  json: { type: 'boolean', help: 'print the result, or the error, as one line of JSON' },
  'no-color': { type: 'boolean', help: 'disable colors, as NO_COLOR in the environment does' },
  verbose: { type: 'boolean', help: 'show stack traces of errors' },
  help: { type: 'boolean', short: 'h', help: 'show this help' },
};

/** Arguments and options as the user gave them. */
interface ParsedArguments {
  readonly positionals: readonly string[];
  readonly options: OptionValues;
}

/**
 * Parses the arguments of a command, without its name.
 *
 * @throws UsageError for unknown options, missing or needless values, repeated options that take one value, and,
 *   without `--help`, a wrong number of arguments
 */
export function parseArguments(args: readonly string[], command: Command): ParsedArguments {
  const known: CommandOptions = { ...command.options, ...COMMON_OPTIONS };
  const { values, positionals, tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(known).map(([name, { type, short, multiple }]) => [
        name,
        { type, ...(short && { short }), ...(multiple && { multiple }) },
      ]),
    ),
    // The checks below report mistakes, with close names.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given = new Set<string>();
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    checkOption(token, known);
    const { name } = token;
    if (given.has(name) && known[name]?.multiple !== true) {
      throw new UsageError(`--${name} is given twice`);
    }
    given.add(name);
  }
  if (values['help'] !== true) checkCount(positionals, command);
  return { positionals, options: values };
}

/** Names the missing or unexpected argument as the usage does. */
function checkCount(
  given: readonly string[],
  { usage, positionals: [least, most] }: Command,
): void {
  const names = usage.split(' ').slice(1, 1 + least);
  const missing = names[given.length];
  const expected = names.length < 2 ? '' : `; expected ${names.join(' ')}`;
  if (missing !== undefined) throw new UsageError(`${missing} is missing${expected}`);
  if (given.length > most)
    throw new UsageError(`unexpected argument ${JSON.stringify(given[most])}${expected}`);
}

/** Options here that do what functions and the command `hf download` call so. */
const OTHER_OPTIONS: ReadonlyMap<string, readonly string[]> = new Map([
  ['names', ['filter']],
  ['include', ['files', 'filter']],
  ['allow-patterns', ['files']],
  ['ignore-patterns', ['ignore']],
]);

/** A hint for an unknown option: its equivalent in functions and in `hf download`, or a similar name. */
function hintOn(name: string, known: CommandOptions): string {
  const hyphened = flagOf(name).replaceAll('_', '-');
  const meant = [hyphened, ...(OTHER_OPTIONS.get(hyphened) ?? [])];
  const own = meant.find((option) => known[option] !== undefined);
  if (own !== undefined) return `; it is --${own} here`;
  if (hyphened === 'local-dir') return '; the folder is the second argument';
  return nearHint(name, Object.keys(known), '--');
}

/** An option of the command line. */
interface GivenOption {
  readonly name: string;
  /** The option with its hyphens. */
  readonly rawName: string;
  readonly value?: string | undefined;
  /** Whether the value stands after a `=`. */
  readonly inlineValue?: boolean | undefined;
}

function checkOption(
  { name, rawName, value, inlineValue }: GivenOption,
  known: CommandOptions,
): void {
  const option = Object.hasOwn(known, name) ? known[name] : undefined;
  if (option === undefined) {
    throw new UsageError(`unknown option ${JSON.stringify(rawName)}${hintOn(name, known)}`);
  }
  if (option.type === 'boolean' && value !== undefined) {
    throw new UsageError(`--${name} takes no value`);
  }
  // A value with one hyphen may be a number, as in a slice.
  const isOption = inlineValue !== true && value?.startsWith('--') === true;
  if (option.type === 'string' && (value === undefined || isOption)) {
    throw new UsageError(`--${name} takes a value: --${name} ${option.value}`);
  }
}
