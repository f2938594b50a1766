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
  /** By their paths in the folder of the checkpoint. */
  readonly files: ReadonlyMap<string, File>;
  readonly byteLength: number;
}

const WEIGHTS = /\.safetensors$/;
const INDEX = /\.safetensors\.index(?:\.[\w-]+)?\.json$/;
/** What tells how quantized weights are stored. */
const CONFIG =
  /(?:^|\/)(?:adapter_config|hf_quant_config|quantize_config|quant_config|config)\.json$/;

/** A longer index is not read for the names of its shards, which are then told by their own names. */
const MAX_INDEX_BYTE_LENGTH = 2 ** 26;

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1);
}

/** `folder/model` of `folder/model-00001-of-00002.safetensors`; the path of a file that is no shard. */
function stemOf(path: string): string {
  const parts = parseSafetensorsShardFilename(path.slice(folderOf(path).length));
  return parts === null ? path : folderOf(path) + parts.basePrefix;
}

/** The paths that an index names; none when it cannot be read, which opening it reports. */
async function namedBy({ path, file }: ChosenFile): Promise<Set<string>> {
  if (file.size > MAX_INDEX_BYTE_LENGTH) return new Set();
  try {
    const { weight_map: files } = JSON.parse(await file.text()) as { weight_map?: unknown };
    return new Set(Object.values(Object(files)).map((name) => folderOf(path) + String(name)));
  } catch {
    return new Set();
  }
}

/** Sorts chosen files into checkpoints: an index with its shards, shards of one name, single files. */
export async function groupFiles(chosen: readonly ChosenFile[]): Promise<FileGroup[]> {
  const weights = chosen.filter(({ path }) => WEIGHTS.test(path));
  const configs = chosen.filter(({ path }) => CONFIG.test(path));
  const groups: ChosenFile[][] = [];
  const taken = new Set<ChosenFile>();
  for (const index of chosen.filter(({ path }) => INDEX.test(path))) {
    const named = await namedBy(index);
    const stem = index.path.replace(INDEX, '');
    const shards = weights.filter(({ path }) => named.has(path) || stemOf(path) === stem);
    if (shards.length > 0) groups.push([index, ...shards]);
    for (const shard of shards) taken.add(shard);
  }
  const byStem = new Map<string, ChosenFile[]>();
  for (const one of weights.filter((file) => !taken.has(file))) {
    const stem = stemOf(one.path);
    byStem.set(stem, [...(byStem.get(stem) ?? []), one]);
  }
  return [...groups, ...byStem.values()]
    .map((files) => {
      const [{ path: label }] = files as [ChosenFile];
      const folder = folderOf(label);
      const siblings = configs.filter(({ path }) => folderOf(path) === folder);
      return {
        label,
        files: new Map(
          [...files, ...siblings].map(({ path, file }) => [path.slice(folder.length), file]),
        ),
        byteLength: files.reduce((sum, { file }) => sum + file.size, 0),
      };
    })
    .sort((a, b) => (a.label < b.label ? -1 : 1));
}

/** The files of an element for choosing: a folder's have paths. */
export function filesOfInput({ files }: HTMLInputElement): ChosenFile[] {
  return Array.from(files ?? [], (file) => ({ path: file.webkitRelativePath || file.name, file }));
}
