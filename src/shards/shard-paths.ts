/** Names of shards as an index gives them: a stranger's text that becomes part of a path. */

import { type ErrorContext, FormatError, quoteName } from '../errors/errors.js';

/** What the name of every shard ends with. */
export const SHARD_EXTENSION = '.safetensors';

// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what is looked for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * What is wrong with a relative path, read by the rules of POSIX and of Windows alike; null when it
 * stays below the folder that it is joined to, as long as no symbolic link leads out.
 */
export function pathObjection(path: string): string | null {
  if (path === '') return 'an empty name';
  if (CONTROL_CHARACTER.test(path)) return 'a control character';
  if (path.includes('\\')) return 'a backslash';
  if (path.includes(':')) return 'a colon';
  const parts = path.split('/');
  if (parts[0] === '') return 'an absolute path';
  if (parts.includes('')) return 'an empty part';
  if (parts.includes('..')) return 'a ".." part';
  return null;
}

/**
 * The name of a shard without its `.` parts, so that one file has one name.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; the context names index and tensor
 */
export function checkShardName(name: string, context: ErrorContext): string {
  const found =
    pathObjection(name) ?? (name.endsWith(SHARD_EXTENSION) ? null : 'another extension');
  if (found !== null) {
    const expected = `a shard's name to be a relative path that ends with ${SHARD_EXTENSION}`;
    const message = `expected ${expected}, found ${found} in ${quoteName(name)}`;
    throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, context);
  }
  return name
    .split('/')
    .filter((part) => part !== '.')
    .join('/');
}
