/** `header`: the raw JSON of the headers. */

import type { ShardHeader } from '../../index.js';
import { visibleJson } from '../output/visible.js';
import { closeSource, openSource, requireSafetensors } from '../sources/open-source.js';
import type { Command } from './command.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

/** The raw header of a single file; of several files an object with the raw header of each by its name. */
function joinedHeaders(headers: readonly ShardHeader[]): string {
  const [only] = headers;
  if (only !== undefined && headers.length === 1) return only.text.trimEnd();
  const members = headers.map(({ file, text }) => `${JSON.stringify(file)}:${text.trimEnd()}`);
  return `{${members.join(',\n')}}`;
}

export const headerCommand: Command = {
  summary: 'prints the raw JSON of the header',
  usage: 'header SOURCE',
  description:
    'Prints the JSON of the header exactly as in the file, for tools such as jq. For a checkpoint in several ' +
    'files prints one object with the header of every file by name.',
  options: REPOSITORY,
  positionals: [1, 1],
  async run({ stdout, signal }, [source = ''], options) {
    const choice = repositoryChoice(options);
    const opened = await openSource(source, { signal, storage: 'read', choice });
    try {
      const { checkpoint } = requireSafetensors(opened);
      const text = joinedHeaders(await checkpoint.headers({ signal }));
      // A pipe gets the bytes of the file; terminals and --json get control characters as escapes.
      if (options['json'] === true) stdout.write(`${visibleJson(text).replaceAll('\n', ' ')}\n`);
      else stdout.write(`${stdout.isTerminal ? visibleJson(text) : text}\n`);
    } finally {
      closeSource(opened);
    }
    return 'done';
  },
};
