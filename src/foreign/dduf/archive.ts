/** What a DDUF archive holds: the files of a pipeline of diffusers, stored without compression, at most one folder deep. */

import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import { PIPELINE_FILE } from '../../file/shards/file-names.js';
import { checkPipelineByteLength } from '../../file/shards/pipeline-files.js';
import { componentsIn } from '../../file/source/pipeline.js';
import type { ArchiveEntry, ByteReader } from '../zip/archive.js';
import type { ArchiveLimits } from '../zip/limits.js';
import { readArchive } from '../zip/read-archive.js';

/** Endings of the names that the format allows. */
const ALLOWED = /\.(?:json|model|safetensors|txt)$/;

/** Every folder has one of these. */
const CONFIGS: readonly string[] = [
  'config.json',
  'tokenizer_config.json',
  'preprocessor_config.json',
  'scheduler_config.json',
];

/** The files of an archive that follows the rules. */
export interface DdufArchive {
  /** By their names, such as `unet/config.json`, in the order of their bytes. */
  readonly entries: ReadonlyMap<string, ArchiveEntry>;
  /** The components in `model_index.json`. */
  readonly components: readonly string[];
  /** Those of them that have no folder. */
  readonly missing: readonly string[];
}

/**
 * Reads the directory of an archive and its `model_index.json`, and checks them by the rules of the format.
 *
 * @throws FormatError as `readArchive`; `SAFETENSORS_INVALID_ARCHIVE` for compressed entries, and for names that DDUF
 *   does not allow; `SAFETENSORS_INVALID_PIPELINE` without a good `model_index.json`, for a folder that it does not name,
 *   and for one without configuration
 */
export function readDduf(
  file: ByteReader,
  context: ErrorContext,
  limits: ArchiveLimits | undefined,
): DdufArchive {
  const { entries } = readArchive(file, context, limits);
  const folders = new Set<string>();
  for (const entry of entries.values()) {
    requireAllowed(entry, context);
    const [folder, below] = entry.name.split('/') as [string, string?];
    if (below !== undefined) folders.add(folder);
  }
  const { names, components } = readIndex(entries.get(PIPELINE_FILE), file, context);
  for (const folder of folders) {
    const invalid = (message: string): never => {
      const shown = `folder ${quoteName(folder)}: ${message}`;
      throw new FormatError('SAFETENSORS_INVALID_PIPELINE', shown, context);
    };
    if (!names.has(folder)) invalid(`expected its name in ${PIPELINE_FILE}, found none`);
    if (!CONFIGS.some((name) => entries.has(`${folder}/${name}`))) {
      invalid(`expected one of ${CONFIGS.join(', ')} in it, found none`);
    }
  }
  return { entries, components, missing: components.filter((name) => !folders.has(name)) };
}

function requireAllowed({ name, method }: ArchiveEntry, context: ErrorContext): void {
  const message =
    method !== 'stored'
      ? 'expected bytes without compression, found deflated ones'
      : !ALLOWED.test(name)
        ? 'expected a file that ends in .json, .model, .safetensors or .txt'
        : name.split('/').length > 2
          ? 'expected at most one folder'
          : undefined;
  if (message === undefined) return;
  const shown = `entry ${quoteName(name)}: ${message}`;
  throw new FormatError('SAFETENSORS_INVALID_ARCHIVE', shown, context);
}

/** All names in `model_index.json`, and those of components with a class. */
function readIndex(
  entry: ArchiveEntry | undefined,
  file: ByteReader,
  context: ErrorContext,
): { readonly names: ReadonlySet<string>; readonly components: readonly string[] } {
  const code = 'SAFETENSORS_INVALID_PIPELINE';
  if (entry === undefined) {
    throw new FormatError(code, `expected ${PIPELINE_FILE} in the archive, found none`, context);
  }
  checkPipelineByteLength(entry.byteLength, `${context.path ?? ''}/${PIPELINE_FILE}`);
  const text = new TextDecoder().decode(file.read(entry.begin, entry.end));
  const components = componentsIn(text, context.path ?? '');
  return { names: new Set(Object.keys(JSON.parse(text))), components };
}
