/** `header`: the JSON of headers as it stands in the files. */

import { SafetensorsError } from '../../index.js';
import { visibleJson } from '../output/visible.js';
import { closeSource, type OpenedSource, openSource } from '../sources/open-source.js';
import type { Command } from './command.js';

async function headerTexts(
  opened: OpenedSource,
  source: string,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  if (opened.kind === 'local') return opened.checkpoint.headerTexts();
  if (opened.kind === 'remote') return await opened.checkpoint.headerTexts({ signal });
  const what =
    opened.kind === 'pipeline' ? 'a pipeline of several models' : `a file of ${opened.kind}`;
  const message = `expected a safetensors file or checkpoint, found ${what}`;
  throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path: source });
}

/** The header of one file as it stands there; of several an object of them by file, as they stand there. */
function joined(texts: ReadonlyMap<string, string>): string {
  const [only = ''] = texts.values();
  if (texts.size === 1) return only.trimEnd();
  const members = Array.from(texts, ([name, text]) => `${JSON.stringify(name)}:${text.trimEnd()}`);
  return `{${members.join(',\n')}}`;
}

export const header: Command = {
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
      const text = joined(await headerTexts(opened, source, signal));
      // A program gets the bytes of the file; a terminal, and whoever asks for JSON, the same with escapes.
      const isShown = stdout.isTerminal || options['json'] === true;
      stdout.write(`${isShown ? visibleJson(text) : text}\n`);
    } finally {
      closeSource(opened);
    }
    return 'done';
  },
};
