/** `completion`: the script by which a shell completes commands and options. */

import {
  bashCompletion,
  type CompletedCommand,
  fishCompletion,
  zshCompletion,
} from '../output/completion.js';
import { type Command, type CommandOptions, printResult, requireAction } from './command.js';

/** Both names of the program. */
const PROGRAMS = ['safetensors-mmap', 'safetensors'];

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };
const SHELLS = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

function completed(
  commands: Readonly<Record<string, Command>>,
  common: CommandOptions,
): CompletedCommand[] {
  return Object.entries(commands).map(([name, { summary, usage, options }]) => {
    const [, first = ''] = usage.split(' ');
    return {
      name,
      summary,
      actions: first.includes('|') ? first.split('|') : [],
      options: Object.entries({ ...options, ...common }).map(
        ([option, { short, value, choices = [], help }]) => ({
          ...{ name: option, short, help },
          ...{ takesValue: value !== undefined, choices },
        }),
      ),
    };
  });
}

/**
 * Makes the command.
 *
 * @param commands gives all commands, of which this is one
 * @param common options of every command
 */
export function completionCommand(
  commands: () => Readonly<Record<string, Command>>,
  common: CommandOptions,
): Command {
  return {
    summary: 'Print a completion script for a shell',
    usage: 'completion bash|zsh|fish',
    description:
      'Print a completion script. bash: `source <(safetensors-mmap completion bash)` in ~/.bashrc. zsh: the same with ' +
      'zsh in ~/.zshrc, after compinit. fish: `safetensors-mmap completion fish | source` in config.fish.',
    example: 'completion fish | source',
    options: {},
    positionals: [1, 1],
    async run(context, [word = ''], options) {
      const shell = requireAction('completion', word, SHELLS);
      const script = SCRIPTS[shell](PROGRAMS, completed(commands(), common));
      printResult(context, options, { shell, script }, () => [script.trimEnd()]);
      return 'done';
    },
  };
}
