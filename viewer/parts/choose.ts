/** Files that people drop or choose, and the checkpoints among them. */

import { parseSafetensorsShardFilename } from 'safetensors-mmap/hub';

/** A file, with its path inside what was dropped. */
export interface ChosenFile {
  readonly path: string;
  readonly file: File;
}

/** Files that are one checkpoint. */
export interface FileGroup {
  /** The path of its index or its only file, else of the first shard. */
  readonly label: string;
  readonly files: readonly File[];
}

/** Most entries of dropped folders to look at: a disk's root could be dropped. */
const MAX_ENTRIES = 20_000;

const MAX_DEPTH = 8;

const WEIGHTS = /\.safetensors$/;
const INDEX = /\.safetensors\.index(?:\.[\w-]+)?\.json$/;
/** What tells how quantized weights are stored. */
const CONFIG = /(?:^|\/)(?:hf_quant_config|quantize_config|quant_config|config)\.json$/;

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1);
}

/** Sorts chosen files into checkpoints: an index with the shards beside it, shards of one name, single files. */
export function groupFiles(chosen: readonly ChosenFile[]): FileGroup[] {
  const groups = new Map<string, ChosenFile[]>();
  const weights = chosen.filter(({ path }) => WEIGHTS.test(path));
  const indexes = chosen.filter(({ path }) => INDEX.test(path));
  const add = (key: string, one: ChosenFile) => groups.set(key, [...(groups.get(key) ?? []), one]);
  for (const one of indexes) add(stemOf(one.path), one);
  for (const one of weights) {
    const name = one.path.slice(folderOf(one.path).length);
    const parts = parseSafetensorsShardFilename(name);
    add(parts === null ? one.path : folderOf(one.path) + parts.basePrefix, one);
  }
  const configs = chosen.filter(({ path }) => CONFIG.test(path));
  return [...groups.values()]
    .filter((files) => files.some(({ path }) => WEIGHTS.test(path)))
    .map((files) => {
      const [first] = files as [ChosenFile];
      const beside = configs.filter(({ path }) => folderOf(path) === folderOf(first.path));
      return { label: first.path, files: [...files, ...beside].map(({ file }) => file) };
    })
    .sort((a, b) => (a.label < b.label ? -1 : 1));
}

/** `folder/model` of `folder/model.safetensors.index.fp16.json`. */
function stemOf(path: string): string {
  return path.replace(INDEX, '');
}

/** The files of an element for choosing: a folder's have paths. */
export function filesOfInput({ files }: HTMLInputElement): ChosenFile[] {
  return Array.from(files ?? [], (file) => ({ path: file.webkitRelativePath || file.name, file }));
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

/** The files that were dropped, those in folders too. */
export async function filesOfDrop(data: DataTransfer): Promise<ChosenFile[]> {
  // The list is empty after the event: everything is taken from it at once.
  let open = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const plain = [...data.files].map((file) => ({ path: file.name, file }));
  if (open.length === 0) return plain;
  const found: ChosenFile[] = [];
  let left = MAX_ENTRIES;
  for (let depth = 0; depth < MAX_DEPTH && open.length > 0; depth++) {
    const below: FileSystemEntry[] = [];
    for (const entry of open) {
      if (left-- === 0) return found;
      if (entry.isDirectory) below.push(...(await entriesIn(entry as FileSystemDirectoryEntry)));
      else if (/\.(?:safetensors|json)$/.test(entry.name)) found.push(await fileOf(entry));
    }
    open = below;
  }
  return found;
}

async function fileOf(entry: FileSystemEntry): Promise<ChosenFile> {
  const file = await new Promise<File>((resolve, reject) => {
    (entry as FileSystemFileEntry).file(resolve, reject);
  });
  return { path: entry.fullPath.replace(/^\//, ''), file };
}
