/** The Hub's cache in a temporary folder, with and without a store that repositories share. */
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { writeBelow } from './make-checkpoint.js';
import { temporaryPath } from './make-file.js';

/** The commit of every repository. */
export const COMMIT = '0123456789abcdef0123456789abcdef01234567';

/** The text of the store's marker. */
export const STORE_LAYOUT = '1\n';

/** The digits of a content's hash, by which the cache names its blob. */
export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Puts a relative link at a path, and makes the folders that it is in. */
export function linkTo(target: string, path: string): string {
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(relative(dirname(path), target), path);
  return path;
}

/** The Hub's cache in a temporary folder, laid out as its Python library does since 1.33, and before. */
export class HubCache {
  readonly folder: string;

  /** `marker` is the text that makes the store one; null for a cache without a marker. */
  constructor(name = 'hub-cache', marker: string | null = STORE_LAYOUT) {
    this.folder = temporaryPath(name);
    mkdirSync(this.folder, { recursive: true });
    if (marker !== null) writeBelow(this.folder, 'blobs/.huggingface-shared-blobs', marker);
  }

  /** The folder of a repository. */
  repository(name = 'models--org--name'): string {
    const repository = join(this.folder, name);
    if (!existsSync(repository)) writeBelow(repository, 'refs/main', COMMIT);
    return repository;
  }

  snapshot(name?: string): string {
    return join(this.repository(name), 'snapshots', COMMIT);
  }

  /** The path of a store's entry. The store knows contents by other hashes than SHA-256. */
  entryOf(content: string | Uint8Array): string {
    const hash = sha256(`xet ${sha256(content)}`);
    return join(this.folder, 'blobs', hash.slice(0, 2), hash);
  }

  /** A file as it is now: its bytes in the store, a link to these in `blobs`, a link to that one. */
  addShared(path: string, content: string | Uint8Array, name?: string): string {
    const entry = this.entryOf(content);
    if (!existsSync(entry)) {
      mkdirSync(dirname(entry), { recursive: true });
      writeBelow(dirname(entry), entry.slice(dirname(entry).length + 1), content);
      chmodSync(entry, 0o444);
    }
    const blob = join(this.repository(name), 'blobs', sha256(content));
    if (!existsSync(blob)) linkTo(entry, blob);
    return linkTo(blob, join(this.snapshot(name), path));
  }

  /** A file as it was, and as small ones still are: its bytes in `blobs`. */
  addPlain(path: string, content: string | Uint8Array, name?: string): string {
    const blob = writeBelow(this.repository(name), `blobs/${sha256(content)}`, content);
    return linkTo(blob, join(this.snapshot(name), path));
  }
}
