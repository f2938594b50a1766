/** All commands by name, in the order of the help. */

import type { Command } from './commands/command.js';
import { convert } from './commands/convert.js';
import { diff } from './commands/diff.js';
import { doctor } from './commands/doctor.js';
import { download } from './commands/download.js';
import { hash } from './commands/hash.js';
import { header } from './commands/header.js';
import { inspect } from './commands/inspect.js';
import { metadata } from './commands/metadata.js';
import { scan } from './commands/scan.js';
import { show } from './commands/show.js';
import { merge, split } from './commands/split.js';
import { verify } from './commands/verify.js';

export const COMMANDS: Readonly<Record<string, Command>> = {
  inspect,
  show,
  diff,
  header,
  metadata,
  verify,
  hash,
  convert,
  split,
  merge,
  download,
  scan,
  doctor,
};
