/** What people drop on the page: files, and folders with all that is below. */

import type { ChosenFile } from './choose.js';

/** Most entries of dropped folders to look at: a disk's root could be dropped. */
const MAX_ENTRIES = 20_000;

const MAX_DEPTH = 8;

/** Names of weights in other formats, which the page names, and does not read. */
export const FOREIGN_FILE = /\.(?:pt|pth|bin|ckpt|gguf|npz|npy|dduf)$/;

/** A file or a folder, whichever way the browser gives it. */
interface Dropped {
  readonly name: string;
  /** What is in a folder; null for a file. */
  readonly children: (() => Promise<Dropped[]>) | null;
  file(): Promise<File>;
}

function ofEntry(entry: FileSystemEntry): Dropped {
  const folder = entry as FileSystemDirectoryEntry;
  return {
    name: entry.name,
    children: entry.isDirectory ? async () => (await entriesIn(folder)).map(ofEntry) : null,
    file: () =>
      new Promise((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)),
  };
}

function entriesIn(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  return new Promise((resolve, reject) => {
    // A folder is read in portions; an empty one is the end.
    const next = () =>
      reader.readEntries((some) => {
        all.push(...some);
        if (some.length === 0) resolve(all);
        else next();
      }, reject);
    next();
  });
}

async function handlesIn(folder: FileSystemDirectoryHandle): Promise<FileSystemHandle[]> {
  const all: FileSystemHandle[] = [];
  for await (const handle of folder.values()) all.push(handle);
  return all;
}

function ofHandle(handle: FileSystemHandle): Dropped {
  const folder = handle as FileSystemDirectoryHandle;
  return {
    name: handle.name,
    children:
      handle.kind === 'directory' ? async () => (await handlesIn(folder)).map(ofHandle) : null,
    file: () => (handle as FileSystemFileHandle).getFile(),
  };
}

/** The ways to a dropped item, of which each browser has some. */
interface Item {
  readonly kind: string;
  webkitGetAsEntry(): FileSystemEntry | null;
  getAsFileSystemHandle?(): Promise<FileSystemHandle | null>;
}

/**
 * What an item is; null for text. On a page from `file://` Chromium gives entries that it refuses to read
 * ("EncodingError"), and handles that it reads. Elsewhere entries are better: for a handle of a home folder it asks first.
 */
async function droppedOf(item: Item): Promise<Dropped | null> {
  if (item.kind !== 'file') return null;
  if (location.protocol === 'file:' && item.getAsFileSystemHandle !== undefined) {
    const handle = await item.getAsFileSystemHandle();
    return handle && ofHandle(handle);
  }
  const entry = item.webkitGetAsEntry();
  return entry && ofEntry(entry);
}

/** A name that no other has: folders of one name can be dropped together. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  let free = name;
  for (let number = 2; taken.has(free); number++) free = `${name} (${number})`;
  return free;
}

/** The files that were dropped, those in folders too. Rejects with what the browser says of one that it cannot read. */
export async function filesOfDrop({ items }: DataTransfer): Promise<ChosenFile[]> {
  // The list is empty after the event: everything is taken from it at once.
  const dropped = await Promise.all([...items].map(droppedOf));
  const names = new Set<string>();
  let open = dropped.flatMap((one) => {
    if (one === null) return [];
    const path = freeName(one.name, names);
    names.add(path);
    return [{ path, one }];
  });
  const found: ChosenFile[] = [];
  let left = MAX_ENTRIES;
  for (let depth = 0; depth < MAX_DEPTH && open.length > 0; depth++) {
    const below: typeof open = [];
    for (const { path, one } of open) {
      if (left-- === 0) return found;
      if (one.children !== null) {
        const children = await one.children();
        below.push(...children.map((child) => ({ path: `${path}/${child.name}`, one: child })));
      } else if (/\.(?:safetensors|json)$/.test(one.name) || FOREIGN_FILE.test(one.name)) {
        found.push({ path, file: await one.file() });
      }
    }
    open = below;
  }
  return found;
}
