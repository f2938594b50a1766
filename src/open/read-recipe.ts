/** Reads recipes of merges from files: JSON or YAML. */

import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { SafetensorsError } from '../errors/errors.js';
import { parseHubId } from '../file/hub/ids.js';
import type { RecipeFile } from '../merge/models/merge-models.js';
import { closeFile, NOTHING_THERE } from '../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../platform/io/opened-file.js';
import { requirePath } from '../platform/io/paths.js';
import { hasCode, withAdvice } from '../platform/io/system-errors.js';
import { runAsync, type Work } from '../work/work.js';

/** Longer recipes are rejected. */
const MAX_BYTE_LENGTH = 2 ** 20;

/**
 * Reads a recipe. Sources in it that are paths are relative to the file, never to the working directory. Addresses stay
 * as they are, and so do ids of repositories, unless a path has the same name.
 *
 * @throws SafetensorsError `SAFETENSORS_INVALID_RECIPE`; errors of the system
 */
export async function readRecipe(
  given: string | URL,
  signal: AbortSignal | undefined,
): Promise<RecipeFile> {
  const path = requirePath('recipe', given);
  const bytes = await runAsync(readFile(path), signal).catch((error) => {
    throw missing(error, 'the recipe was not found; check the path');
  });
  const folder = dirname(path);
  return {
    path,
    recipe: await parseFile(path, bytes),
    resolve(source) {
      if (/^[a-z][a-z\d+.-]+:/i.test(source)) return source;
      const found = resolve(folder, source);
      // `open` would prefer a path in the working directory to the repository.
      return isId(source) && !existsSync(found) && !existsSync(source) ? source : found;
    },
    explain: (error, key) =>
      missing(
        error,
        `listed as ${key} in the recipe ${path}; check the path, which is relative to it`,
      ),
  };
}

/** Whether a text can be the id of a repository: an organization and a name. */
function isId(source: string): boolean {
  return /^[^/@]+\/[^/@]+(?:@|$)/.test(source) && parseHubId(source) !== null;
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
      throw invalid(
        `the recipe has ${file.byteLength} bytes; shorten it to ${MAX_BYTE_LENGTH} at most`,
        path,
      );
    }
    const bytes = new Uint8Array(file.byteLength);
    yield* readFully(readBytesOf(file), bytes, 0, path);
    return bytes;
  } finally {
    yield* closeFile(file.fd);
  }
}

/** Adds advice to the error of a path with nothing at it. */
function missing(error: unknown, advice: string): unknown {
  return hasCode(error, NOTHING_THERE) ? withAdvice(error as Error, advice) : error;
}

function invalid(message: string, path: string, cause?: unknown): SafetensorsError {
  return new SafetensorsError('SAFETENSORS_INVALID_RECIPE', message, { path, cause });
}
