/** The texts of `--help`. */

import { COMMON_OPTIONS, PROGRAM } from './arguments.js';
import type { Command, CommandOptions } from './commands/command.js';
import type { Style } from './output/style.js';
import { GAP, infoLines } from './output/table.js';

/** Meaning of SOURCE in every command. */
const SOURCES =
  'SOURCE is a file, a folder, an index, a URL, hf://org/name, or the id of a repository in the local Hugging Face ' +
  'cache.';

/** In place of a command. */
const PROGRAM_OPTIONS: CommandOptions = {
  version: { type: 'boolean', short: 'v', help: 'the version of the package' },
};

const USAGE = 'Usage:';

const NARROWEST = 40;
const WIDEST = 100;

/** Lines of a paragraph, indented except for the first. */
function wrapped(text: string, width: number | null, column = 0): string[] {
  const limit = Math.min(Math.max(width ?? WIDEST, NARROWEST), WIDEST) - column;
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= limit) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else lines.push(word);
  }
  return lines;
}

function optionLines(options: CommandOptions, style: Style, width: number | null): string[] {
  const names = Object.entries(options).map(([name, { short, value }]) => {
    const start = `  ${short === undefined ? '' : `-${short}, `}--${name}`;
    return value === undefined ? start : `${start} ${value}`;
  });
  const column = Math.max(0, ...names.map((name) => name.length)) + GAP.length;
  const facts = Object.values(options).flatMap(({ help }, i) =>
    wrapped(help, width, column).map(
      (line, at) => [at === 0 ? (names[i] ?? '') : '', line] as const,
    ),
  );
  return facts.length === 0 ? [] : infoLines(facts, style.bold);
}

/** `Usage: safetensors-mmap inspect SOURCE …` */
function usageLines(usage: string, style: Style, width: number | null): string[] {
  const [first = '', ...more] = wrapped(`${USAGE} ${PROGRAM} ${usage}`, width);
  return [style.bold(USAGE) + first.slice(USAGE.length), ...more];
}

/** The program and its commands. */
export function programHelp(
  table: Readonly<Record<string, Command>>,
  style: Style,
  width: number | null,
): string[] {
  const commands = Object.entries(table).map(
    ([name, { summary }]) => [`  ${name}`, summary] as const,
  );
  return [
    ...usageLines('COMMAND [ARGUMENTS]', style, width),
    '',
    ...infoLines(commands, style.bold),
    '',
    ...optionLines(PROGRAM_OPTIONS, style, width),
    '',
    ...wrapped(SOURCES, width),
    ...wrapped(
      'See `safetensors-mmap COMMAND --help` for details. Exit codes: 0 done, 1 negative result or bad file, ' +
        '2 usage error.',
      width,
    ),
  ];
}

/** One command and its options. */
export function commandHelp(
  { usage, description, example, options }: Command,
  style: Style,
  width: number | null,
): string[] {
  const own = optionLines(options, style, width);
  return [
    ...usageLines(usage, style, width),
    '',
    ...wrapped(description, width),
    '',
    `${style.bold('Example:')} ${PROGRAM} ${example}`,
    '',
    ...own,
    ...(own.length === 0 ? [] : ['']),
    ...optionLines(COMMON_OPTIONS, style, width),
  ];
}
