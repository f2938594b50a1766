/** Reads recipes of merges from files: JSON or YAML. */

import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { SafetensorsError } from '../errors/errors.js';
import type { RecipeFile } from '../merge/models/merge-models.js';
import { closeFile } from '../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../platform/io/opened-file.js';
import { pathText } from '../platform/io/paths.js';
import { runAsync, type Work } from '../work/work.js';

/** Longer recipes are refused. */
const MAX_BYTE_LENGTH = 2 ** 20;

/**
 * Reads a recipe. A source in it that is the path of something next to the file leads there; other texts stay as they
 * are, such as ids of cached repositories and addresses.
 *
 * @throws SafetensorsError `SAFETENSORS_INVALID_RECIPE`; errors of the system
 */
export async function readRecipe(
  given: string | URL,
  signal: AbortSignal | undefined,
): Promise<RecipeFile> {
  const path = pathText('recipe', given);
  const bytes = await runAsync(readFile(path), signal);
  const folder = dirname(path);
  return {
    path,
    recipe: await parseFile(path, bytes),
    resolve(source) {
      if (/^[a-z][a-z\d+.-]+:/i.test(source)) return source;
      const found = resolve(folder, source);
      return existsSync(found) ? found : source;
    },
  };
}

async function parseFile(path: string, bytes: Uint8Array): Promise<unknown> {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (/\.json$/i.test(path)) return JSON.parse(text);
  } catch (cause) {
    throw invalid(`the recipe cannot be parsed: ${(cause as Error).message}`, path, cause);
  }
  const { parseYaml } = await import('../merge/models/yaml.js');
  return parseYaml(text, path);
}

function* readFile(path: string): Work<Uint8Array> {
  const file = yield* openRegularFile(path, path);
  try {
    if (file.byteLength > MAX_BYTE_LENGTH) {
      throw invalid(`${file.byteLength} bytes are too long for a recipe`, path);
    }
    const bytes = new Uint8Array(file.byteLength);
    yield* readFully(readBytesOf(file), bytes, 0, path);
    return bytes;
  } finally {
    yield* closeFile(file.fd);
  }
}

function invalid(message: string, path: string, cause?: unknown): SafetensorsError {
  return new SafetensorsError('SAFETENSORS_INVALID_RECIPE', message, { path, cause });
}
