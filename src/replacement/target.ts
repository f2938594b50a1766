/** Finds the file that a write is meant for: follows links, and refuses what must not be written. */

import { readlinkSync, type Stats, statSync } from 'node:fs';
import { isAbsolute, sep, toNamespacedPath } from 'node:path';
import process from 'node:process';
import { SafetensorsError } from '../errors/errors.js';
import { isRepositoryFolder } from '../hub/ids.js';
import { systemRealpath } from '../io/file-calls.js';
import { requireRegularFile } from '../io/opened-file.js';
import { aboutFile, hasCode, systemError } from '../io/system-errors.js';

/** Most dangling links that are followed one after the other; Linux follows 40 links. */
const MAX_LINKS = 40;

/** The file that is written or replaced. */
export interface ReplacementTarget {
  /** Its path without links, as bytes: a name need not be UTF-8. */
  readonly path: Buffer;
  /** The folder of `path`, with the separator. */
  readonly folder: Buffer;
  /** The file that is there now. */
  readonly stats: Stats | undefined;
}

/** A path as text with one character per byte. */
type ByteText = string;

function toBytes(path: ByteText): Buffer {
  return Buffer.from(path, 'latin1');
}

function toText(path: string | Buffer): ByteText {
  return Buffer.from(path as string).toString('latin1');
}

const isWindows = process.platform === 'win32';

/** For `node:fs`: on Windows names are text, and only text may be longer than 260 characters. */
function toPath(path: ByteText): string | Buffer {
  return isWindows ? toBytes(path).toString() : toBytes(path);
}

/** As bytes that may be longer on Windows, too: `\\?\C:\…`. */
function toLongPath(path: ByteText): Buffer {
  return isWindows ? Buffer.from(toNamespacedPath(toBytes(path).toString())) : toBytes(path);
}

/** Undoes that: `realpathSync` does not take it. */
function toShortForm(path: ByteText): ByteText {
  return isWindows ? path.replace(/^\\\\\?\\(UNC\\)?/, (_, share) => (share ? '\\\\' : '')) : path;
}

/** Folder with its separator, and name; Windows has two separators. */
function split(path: ByteText): [folder: ByteText, name: ByteText] {
  const end = Math.max(path.lastIndexOf('/'), path.lastIndexOf(sep)) + 1;
  return [path.slice(0, end), path.slice(end)];
}

function realPath(path: ByteText): ByteText {
  return toText(systemRealpath()(toPath(path), 'buffer'));
}

/** Where the link at `path` leads; undefined when nothing is there. */
function linkAt(path: ByteText): ByteText | undefined {
  try {
    const link = toText(readlinkSync(toPath(path), 'buffer'));
    return isAbsolute(link) ? link : split(path)[0] + link;
  } catch (error) {
    if (hasCode(error, ['ENOENT'])) return undefined;
    throw error;
  }
}

/** The real path of a file, or the one that a new file would get. */
function follow(given: ByteText, label: string): ByteText {
  let path = given;
  for (let links = 0; links <= MAX_LINKS; links++) {
    try {
      return realPath(path);
    } catch (error) {
      if (!hasCode(error, ['ENOENT'])) throw error;
    }
    const link = linkAt(path);
    if (link === undefined) {
      const [folder, name] = split(path);
      if (name === '') throw systemError('ENOENT', 'open', label);
      const real = realPath(folder === '' ? '.' : folder);
      return real.endsWith(sep) ? real + name : real + sep + name;
    }
    path = link;
  }
  throw systemError('ELOOP', 'open', label);
}

function refuseHubBlob(path: ByteText, label: string): void {
  const [repository, blobs] = path.split(sep).slice(-3);
  if (blobs !== 'blobs' || !isRepositoryFolder(repository ?? '')) return;
  throw new SafetensorsError(
    'SAFETENSORS_HUB_CACHE_BLOB',
    'expected a file of your own, found a blob of the Hugging Face Hub cache: its name is the ' +
      'hash of its content, which must not change; write to a path outside of the cache',
    { path: label },
  );
}

/**
 * Follows `path` to its file, also through links to a file that does not exist yet. `label` is the
 * path in messages.
 *
 * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`; `SAFETENSORS_HUB_CACHE_BLOB` unless it may be one; errors of
 * the system, such as `ENOENT` for a folder that does not exist, or `ELOOP`
 */
export function resolveTarget(
  path: string | Buffer,
  label: string,
  mayBeBlob = false,
): ReplacementTarget {
  try {
    const real = follow(toShortForm(toText(path)), label);
    const longPath = toLongPath(real);
    const [folder] = split(toText(longPath));
    const stats = statSync(toPath(real), { throwIfNoEntry: false });
    if (stats !== undefined) requireRegularFile(stats, label);
    if (!mayBeBlob) refuseHubBlob(real, label);
    return { path: longPath, folder: toBytes(folder), stats };
  } catch (error) {
    throw aboutFile(error, label, 'open');
  }
}
