/** All commands by name, in the order of the help. */

import type { Command } from './commands/command.js';
import { header } from './commands/header.js';
import { inspect } from './commands/inspect.js';

export const COMMANDS: Readonly<Record<string, Command>> = { inspect, header };
