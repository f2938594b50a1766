/** Loads commands: `inspect` with the program, all others at their first use. */

import type { Command } from './commands/command.js';
import { inspectCommand } from './commands/inspect.js';

/** Loads all commands, by name. */
export async function loadCommands(): Promise<Readonly<Record<string, Command>>> {
  const { COMMANDS } = await import('./command-table.js');
  return COMMANDS;
}

/** Loads the command with this name; undefined for another word. */
export async function commandNamed(name: string): Promise<Command | undefined> {
  if (name === 'inspect') return inspectCommand;
  const commands = await loadCommands();
  return Object.hasOwn(commands, name) ? commands[name] : undefined;
}
