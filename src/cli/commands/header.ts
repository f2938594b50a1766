/** `header`: the JSON of headers as it stands in the files. */

import { visibleJson } from '../output/visible.js';
import {
  closeSource,
  type OpenedSource,
  openSource,
  requireSafetensors,
} from '../sources/open-source.js';
import type { Command } from './command.js';

async function headerTexts(
  opened: OpenedSource,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const found = requireSafetensors(opened);
  return found.kind === 'local'
    ? found.checkpoint.headerTexts()
    : await found.checkpoint.headerTexts({ signal });
}

/** The header of one file as it stands there; of several an object of them by file, as they stand there. */
function joinedHeaders(texts: ReadonlyMap<string, string>): string {
  const [only = ''] = texts.values();
  if (texts.size === 1) return only.trimEnd();
  const members = Array.from(texts, ([name, text]) => `${JSON.stringify(name)}:${text.trimEnd()}`);
  return `{${members.join(',\n')}}`;
}

export const headerCommand: Command = {
  summary: 'the raw JSON of the header',
  usage: 'header SOURCE',
  description:
    'Prints the JSON of the header as it stands in the file, for jq and the like. Of a checkpoint in ' +
    'several files it is one object, with the header of every file under its name.',
  options: {},
  positionals: [1, 1],
  async run({ stdout, signal }, [source = ''], options) {
    const opened = await openSource(source, { signal, storage: 'read' });
    try {
      const text = joinedHeaders(await headerTexts(opened, signal));
      // A program gets the bytes of the file; a terminal, and whoever asks for JSON, the same with escapes.
      if (options['json'] === true) stdout.write(`${visibleJson(text).replaceAll('\n', ' ')}\n`);
      else stdout.write(`${stdout.isTerminal ? visibleJson(text) : text}\n`);
    } finally {
      closeSource(opened);
    }
    return 'done';
  },
};
