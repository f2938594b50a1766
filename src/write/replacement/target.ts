/** Finds the target of a write: follows links, and refuses files that must not be written. */

import { lstatSync, readlinkSync, type Stats } from 'node:fs';
import { isAbsolute, resolve, sep, toNamespacedPath } from 'node:path';
import process from 'node:process';
import { SafetensorsError } from '../../errors/errors.js';
import { isBlobPath, markersAbove } from '../../file/cache/cache-layout.js';
import { MAX_LINKS, systemRealpath } from '../../platform/io/file-calls.js';
import { requireRegularFile } from '../../platform/io/opened-file.js';
import { aboutFile, hasCode, systemError } from '../../platform/io/system-errors.js';

/** The file to write or replace. */
export interface ReplacementTarget {
  /** Its path without links, as bytes: a name need not be UTF-8. */
  readonly path: Buffer;
  /** The folder of `path`, with the separator. */
  readonly folder: Buffer;
  /** The existing file. */
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

/** As bytes, with the prefix `\\?\C:\…` for long paths of Windows. */
function toLongPath(path: ByteText): Buffer {
  return isWindows ? Buffer.from(toNamespacedPath(toBytes(path).toString())) : toBytes(path);
}

/** Removes that prefix, which `realpathSync` does not accept. */
function toShortForm(path: ByteText): ByteText {
  return isWindows ? path.replace(/^\\\\\?\\(UNC\\)?/, (_, share) => (share ? '\\\\' : '')) : path;
}

/** Folder with its separator, and name; Windows has two separators. */
function folderAndName(path: ByteText): [folder: ByteText, name: ByteText] {
  const end = Math.max(path.lastIndexOf('/'), path.lastIndexOf(sep)) + 1;
  return [path.slice(0, end), path.slice(end)];
}

function resolvedPath(path: ByteText): ByteText {
  return toText(systemRealpath()(toPath(path), 'buffer'));
}

/** Returns where the link at `path` leads; undefined without a link, and for errors that the next call reports. */
function linkOf(path: ByteText): ByteText | undefined {
  try {
    const link = toText(readlinkSync(toPath(path), 'buffer'));
    return isAbsolute(link) ? link : folderAndName(path)[0] + link;
  } catch {
    return undefined;
  }
}

/** Returns the path, then the target of each link in turn. */
function followLinks(given: ByteText, label: string): [ByteText, ...ByteText[]] {
  const way: [ByteText, ...ByteText[]] = [given];
  for (let path = linkOf(given); path !== undefined; path = linkOf(path)) {
    if (way.length > MAX_LINKS) throw systemError('ELOOP', 'open', label);
    way.push(path);
  }
  return way;
}

/** A path in a folder without links. */
function inRealFolder(path: ByteText, label: string): ByteText {
  const [folder, name] = folderAndName(path);
  if (name === '') throw systemError('ENOENT', 'open', label);
  const real = resolvedPath(folder === '' ? '.' : folder);
  return real.endsWith(sep) ? real + name : real + sep + name;
}

/** Returns the real path of a file that is not a link, or the future real path of a new file. */
function realTarget(path: ByteText, label: string): ByteText {
  try {
    return resolvedPath(path);
  } catch (error) {
    if (!hasCode(error, ['ENOENT'])) throw error;
  }
  return inRealFolder(path, label);
}

/** Whether a real path is a blob, or in the store that all repositories share. */
function isInHubCache(path: ByteText): boolean {
  if (isBlobPath(path)) return true;
  return markersAbove(path).some(
    (marker) => lstatSync(toPath(marker), { throwIfNoEntry: false }) !== undefined,
  );
}

/**
 * Refuses files of the Hub cache, wherever the cache's links lead in the end. Checks every path on the way, too,
 * because the folder of blobs may itself be a link.
 */
function rejectHubBlob(way: readonly ByteText[], real: ByteText, label: string): void {
  const links = way.slice(0, -1).map((path) => inRealFolder(path, label));
  const isOfHub =
    way.some((path) => isBlobPath(resolve(path))) || [...links, real].some(isInHubCache);
  if (!isOfHub) return;
  throw new SafetensorsError(
    'SAFETENSORS_HUB_CACHE_BLOB',
    'expected a file of your own, found a blob of the Hugging Face Hub cache: its name is the ' +
      'hash of its content, which must not change, and repositories may share it; write to a path ' +
      'outside of the cache',
    { path: label },
  );
}

/** Options for finding the target. */
interface FindTargetOptions {
  /** True allows a blob of the Hub cache; a link at the path is then replaced, not followed. */
  readonly isBlob?: boolean | undefined;
}

/**
 * Follows `path` to its file, also through links to a file that does not exist yet. `label` is the
 * path in messages.
 *
 * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`; `SAFETENSORS_HUB_CACHE_BLOB` unless allowed; errors of
 * the system, such as `ENOENT` for a folder that does not exist, or `ELOOP`
 */
export function resolveTarget(
  path: string | Buffer,
  label: string,
  { isBlob = false }: FindTargetOptions = {},
): ReplacementTarget {
  try {
    const given = toShortForm(toText(path));
    const way: [ByteText, ...ByteText[]] = isBlob ? [given] : followLinks(given, label);
    const last = way.at(-1) as ByteText;
    const real = isBlob ? inRealFolder(last, label) : realTarget(last, label);
    const longPath = toLongPath(real);
    const [folder] = folderAndName(toText(longPath));
    const found = lstatSync(toPath(real), { throwIfNoEntry: false });
    // A link is left only where it will be replaced.
    const stats = found?.isSymbolicLink() ? undefined : found;
    if (stats !== undefined) requireRegularFile(stats, label);
    if (!isBlob) rejectHubBlob(way, real, label);
    return { path: longPath, folder: toBytes(folder), stats };
  } catch (error) {
    throw aboutFile(error, label, 'open');
  }
}
