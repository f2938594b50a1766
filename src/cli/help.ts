/** The texts of `--help`. */

import { COMMON_OPTIONS } from './arguments.js';
import { COMMANDS } from './command-table.js';
import type { Command, CommandOptions } from './commands/command.js';
import type { Style } from './output/style.js';
import { factLines } from './output/table.js';

/** What the commands call what they read. */
const SOURCES =
  'SOURCE is a file, a folder, an index, a URL, hf://org/name, or the id of a repository in the cache of ' +
  'the Hugging Face Hub on this machine.';

const NARROWEST = 40;
const WIDEST = 100;

/** Lines of a paragraph. */
function wrapped(text: string, width: number | null): string[] {
  const limit = Math.min(Math.max(width ?? WIDEST, NARROWEST), WIDEST);
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= limit) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else lines.push(word);
  }
  return lines;
}

function optionLines(options: CommandOptions, style: Style): string[] {
  const facts = Object.entries(options).map(([name, { short, value, help }]) => {
    const names = `${short === undefined ? '' : `-${short}, `}--${name}`;
    return [`  ${names}${value === undefined ? '' : ` ${value}`}`, help] as const;
  });
  return facts.length === 0 ? [] : factLines(facts, style.bold);
}

/** The program and its commands. */
export function programHelp(style: Style, width: number | null): string[] {
  const commands = Object.entries(COMMANDS).map(
    ([name, { summary }]) => [`  ${name}`, summary] as const,
  );
  return [
    `${style.bold('Usage:')} safetensors-mmap COMMAND [ARGUMENTS]`,
    '',
    ...factLines(commands, style.bold),
    '',
    ...wrapped(SOURCES, width),
    ...wrapped(
      '`safetensors-mmap COMMAND --help` says more. Exit codes: 0 done, 1 the answer is no or the file is bad, ' +
        '2 wrong use.',
      width,
    ),
  ];
}

/** One command and its options. */
export function commandHelp(
  { usage, description, options }: Command,
  style: Style,
  width: number | null,
): string[] {
  const own = optionLines(options, style);
  return [
    `${style.bold('Usage:')} safetensors-mmap ${usage}`,
    '',
    ...wrapped(description, width),
    '',
    ...own,
    ...(own.length === 0 ? [] : ['']),
    ...optionLines(COMMON_OPTIONS, style),
  ];
}
