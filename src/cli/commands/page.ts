/** `page`: the page that shows checkpoints, as a file. */

import { existsSync } from 'node:fs';
import { formatBytes } from '../../inspect/format.js';
import { writeViews } from '../../platform/io/file-writes.js';
import { Replacement } from '../../write/replacement/replacement.js';
import { visible } from '../output/visible.js';
import { readPage } from '../serve/page.js';
import { isRemote } from '../sources/open-source.js';
import { type Command, printResult, UsageError } from './command.js';

/** The written file, for `--json`. */
interface PageResult {
  readonly path: string;
  readonly byteLength: number;
}

export const pageCommand: Command = {
  summary: 'Write the viewer to an HTML file',
  usage: 'page FILE.html',
  description:
    'Write the viewer as one self-contained HTML file, which works from file:// and on any static host. It opens ' +
    'files, folders and addresses.',
  example: 'page viewer.html',
  options: { force: { type: 'boolean', help: 'replace an existing file' } },
  positionals: [1, 1],
  async run(context, [path = ''], options) {
    if (isRemote(path)) throw new UsageError('expected the path of the new file, found an address');
    const bytes = readPage();
    if (options['force'] !== true && existsSync(path)) {
      throw new UsageError(`${path} exists; --force replaces it`);
    }
    const { byteLength } = bytes;
    const replacement = await Replacement.open(path, path, { byteLength, durable: false });
    try {
      await writeViews(replacement, [bytes], 0);
      await replacement.commit(context.signal);
    } finally {
      replacement.discard();
    }
    printResult<PageResult>(context, options, { path, byteLength }, (result) => [
      `${visible(result.path)}  ${formatBytes(result.byteLength)}`,
    ]);
    return 'done';
  },
};
