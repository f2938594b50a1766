/** Translates options of functions into those of the command line: `maxShardSize` is `--max-shard-size`. */

import type { CommandOptions } from './commands/command.js';

/** `copyOtherFiles` of `copy-other-files`. */
export function functionOptionOf(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * Replaces the function's options in a message of the library with the command's: where the message begins with an
 * option, gives it a value, or advises to pass it.
 */
export function inOptionsOf(command: CommandOptions, message: string): string {
  const words = Object.keys(command).map((name) => [functionOptionOf(name), `--${name}`] as const);
  if (command['filter'] !== undefined) words.push(['names', '--filter and --exclude']);
  let text = message;
  for (const [name, shown] of words) {
    text = text
      .replace(RegExp(`^${name}(?= must | left )`), shown)
      .replace(RegExp(`\\b${name}: '([\\w-]+)'`, 'g'), `${shown} $1`)
      .replace(RegExp(`\\bas ${name}\\b`, 'g'), `as ${shown}`);
  }
  return text;
}
