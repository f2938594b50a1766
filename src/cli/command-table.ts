/** All commands by name, in the order of the help. */

import { COMMON_OPTIONS } from './arguments.js';
import type { Command } from './commands/command.js';
import { completionCommand } from './commands/completion.js';
import { convertCommand } from './commands/convert.js';
import { diffCommand } from './commands/diff.js';
import { doctorCommand } from './commands/doctor.js';
import { downloadCommand } from './commands/download.js';
import { hashCommand } from './commands/hash.js';
import { headerCommand } from './commands/header.js';
import { inspectCommand } from './commands/inspect.js';
import { mergeCommand } from './commands/merge.js';
import { metadataCommand } from './commands/metadata.js';
import { pageCommand } from './commands/page.js';
import { scanCommand } from './commands/scan.js';
import { serveCommand } from './commands/serve.js';
import { showCommand } from './commands/show.js';
import { joinCommand, splitCommand } from './commands/split.js';
import { statsCommand } from './commands/stats.js';
import { verifyCommand } from './commands/verify.js';

export const COMMANDS: Readonly<Record<string, Command>> = {
  inspect: inspectCommand,
  show: showCommand,
  stats: statsCommand,
  diff: diffCommand,
  header: headerCommand,
  metadata: metadataCommand,
  verify: verifyCommand,
  hash: hashCommand,
  convert: convertCommand,
  split: splitCommand,
  join: joinCommand,
  merge: mergeCommand,
  download: downloadCommand,
  scan: scanCommand,
  serve: serveCommand,
  page: pageCommand,
  doctor: doctorCommand,
  completion: completionCommand(() => COMMANDS, COMMON_OPTIONS),
};
