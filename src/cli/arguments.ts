/** Arguments of a command: options and positional ones, checked. */

import { parseArgs } from 'node:util';
import { nearNames } from '../errors/near-names.js';
import {
  type Command,
  type CommandOptions,
  type OptionValues,
  UsageError,
} from './commands/command.js';

/** Options of every command. */
export const COMMON_OPTIONS: CommandOptions = {
  json: { type: 'boolean', help: 'the result as one line of JSON' },
  'no-color': { type: 'boolean', help: 'no colours, as with NO_COLOR in the environment' },
  verbose: { type: 'boolean', help: 'errors with their stacks' },
  help: { type: 'boolean', short: 'h', help: 'this text' },
};

/** What was given. */
export interface ParsedArguments {
  readonly positionals: readonly string[];
  readonly options: OptionValues;
}

/** What to say of a name that there is not: those that may have been meant, or nothing. */
export function nearHint(name: string, names: Iterable<string>, prefix = ''): string {
  const near = nearNames(name, names);
  return near.length === 0 ? '' : `; did you mean ${near.map((one) => prefix + one).join(', ')}?`;
}

/**
 * Parses the arguments of a command, without its name.
 *
 * @throws UsageError for options that there are not, values that are missing or too many, and a wrong number
 *   of arguments, unless help is asked for
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
    // What is wrong is said here, with near names.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind === 'option') checkOption(token.name, token.rawName, token.value, known);
  }
  const [least, most] = command.positionals;
  if (values['help'] !== true && (positionals.length < least || positionals.length > most)) {
    const found = positionals.length === 0 ? 'none' : String(positionals.length);
    const expected = least === most ? String(least) : `${least} or more`;
    throw new UsageError(`expected ${expected} argument${least === 1 ? '' : 's'}, found ${found}`);
  }
  return { positionals, options: values };
}

function checkOption(
  name: string,
  rawName: string,
  value: string | undefined,
  known: CommandOptions,
): void {
  const option = Object.hasOwn(known, name) ? known[name] : undefined;
  if (option === undefined) {
    throw new UsageError(
      `there is no option ${JSON.stringify(rawName)}${nearHint(name, Object.keys(known), '--')}`,
    );
  }
  if (option.type === 'boolean' && value !== undefined) {
    throw new UsageError(`--${name} takes no value`);
  }
  if (option.type === 'string' && value === undefined) {
    throw new UsageError(`--${name} takes a value: --${name} ${option.value}`);
  }
}
