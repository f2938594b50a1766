/** `header`: the raw JSON of the headers. */

import { type AnyCheckpoint, FormatError } from '../../index.js';
import { visibleJson } from '../output/visible.js';
import { modelsOf, openSource } from '../sources/open-source.js';
import type { Command } from './command.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

/** Formats without a header. */
const OTHERS = {
  torch: 'a torch file',
  numpy: 'a NumPy file',
  gguf: 'a GGUF file',
  dcp: 'a distributed checkpoint',
};

/** The raw header of a single file; of several files an object with the raw header of each by its name. */
function joinedHeaders(headers: ReadonlyMap<string, string>): string {
  const [only] = headers.values();
  if (only !== undefined && headers.size === 1) return only;
  const members = Array.from(headers, ([file, text]) => `${JSON.stringify(file)}:${text}`);
  return `{${members.join(',\n')}}`;
}

/** The headers of the files of all models, by their names in the source. */
async function headersOf(
  models: ReadonlyMap<string, AnyCheckpoint>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const headers = new Map<string, string>();
  for (const [folder, model] of models) {
    const { format, path } = model;
    if (format !== 'safetensors') {
      const message = `expected safetensors, found ${OTHERS[format]} without a JSON header; \`inspect\` lists its tensors`;
      throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
    }
    for (const { file, text } of await model.headers({ signal })) {
      headers.set(folder === '' ? file : `${folder}/${file}`, text.trimEnd());
    }
  }
  return headers;
}

export const headerCommand: Command = {
  summary: 'Print the raw JSON header',
  usage: 'header SOURCE',
  description:
    'Print the JSON header exactly as in the file, for tools such as jq. For a checkpoint in several ' +
    'files, or a pipeline, print one object with the header of every file by name.',
  example: 'header model.safetensors | jq keys',
  options: REPOSITORY,
  positionals: [1, 1],
  async run({ stdout, signal }, [source = ''], options) {
    const choice = repositoryChoice(options);
    const opened = await openSource(source, { signal, storage: 'read', choice });
    try {
      const text = joinedHeaders(await headersOf(modelsOf(opened), signal));
      // A pipe gets the bytes of the file; terminals and --json get control characters as escapes.
      if (options['json'] === true) stdout.write(`${visibleJson(text).replaceAll('\n', ' ')}\n`);
      else stdout.write(`${stdout.isTerminal ? visibleJson(text) : text}\n`);
    } finally {
      opened.close();
    }
    return 'done';
  },
};
