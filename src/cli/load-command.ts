/** Loads commands: short ones with the program, frequent ones by themselves, and all others at their first use. */

import type { Command } from './commands/command.js';
import { headerCommand } from './commands/header.js';
import { verifyCommand } from './commands/verify.js';

type Loader = () => Promise<Command>;

/** Frequent commands, which load without the others. */
const FREQUENT: ReadonlyMap<string, Loader> = new Map<string, Loader>([
  ['header', async () => headerCommand],
  ['verify', async () => verifyCommand],
  ['inspect', async () => (await import('./commands/inspect.js')).inspectCommand],
  ['show', async () => (await import('./commands/show.js')).showCommand],
]);

/** Loads all commands, by name. */
export async function loadCommands(): Promise<Readonly<Record<string, Command>>> {
  const { COMMANDS } = await import('./command-table.js');
  return COMMANDS;
}

/** Loads the command with this name; undefined for another word. */
export async function commandNamed(name: string): Promise<Command | undefined> {
  const load = FREQUENT.get(name);
  if (load !== undefined) return await load();
  const commands = await loadCommands();
  return Object.hasOwn(commands, name) ? commands[name] : undefined;
}
