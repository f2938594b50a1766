/** Edits a file's metadata and reports the changes. */

import { statSync } from 'node:fs';
import {
  type EditMetadataOptions,
  editMetadata,
  type MetadataEdit,
  safeOpen,
} from '../../index.js';
import { plural } from '../../inspect/format.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { infoLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, SHOWN_VALUE_LENGTH, visible } from '../output/visible.js';
import { cutLines } from '../output/width.js';
import { isRemote, localPath } from '../sources/open-source.js';
import {
  type CommandContext,
  type OptionValues,
  type Outcome,
  printResult,
  UsageError,
} from './command.js';
import { REPOSITORY } from './repository-options.js';
import { isDryRun } from './written.js';

/** Hashes of the tensors that an edit computes and sets. */
type HashesToSet = Pick<EditMetadataOptions, 'digests' | 'modelspecHash'>;

/** The result of an edit, as `--json` prints it. */
interface EditResult {
  readonly path: string;
  /** Whether and how the file was written; `dryRun` with `--dry-run`. */
  readonly method: MetadataEdit['method'] | 'dryRun';
  /** New values of keys. */
  readonly set: Readonly<Record<string, string>>;
  /** The old values of removed keys. */
  readonly removed: Readonly<Record<string, string>>;
  /** Missing keys among those to remove. */
  readonly missing: readonly string[];
}

/** The path of a local file. Throws a UsageError for a remote one. */
export function requireLocal(source: string): string {
  if (!isRemote(source)) return localPath(source);
  throw new UsageError('expected a local file to change');
}

/** Throws a UsageError for options of edits, which an action that only reads has no use for. */
export function requireNoEditOptions(action: string, options: OptionValues): void {
  for (const name of ['in-place', 'dry-run']) {
    if (options[name] === undefined) continue;
    throw new UsageError(`--${name} is for changes, and ${action} only reads the metadata`);
  }
}

/** Throws a UsageError for `--variant` and `--revision` with an action that changes a file. */
export function requireNoChoice(action: string, options: OptionValues): void {
  for (const name of Object.keys(REPOSITORY)) {
    if (options[name] === undefined) continue;
    throw new UsageError(`--${name} chooses in a folder or repository, and ${action} takes a file`);
  }
}

/** The metadata of a file; empty when it has none. */
export function fileMetadata(path: string): ReadonlyMap<string, string> {
  // `safeOpen` would name functions of the package.
  if (statSync(path).isDirectory()) {
    throw new UsageError(`${path}: expected a file, found a folder: name one of its files`);
  }
  const file = safeOpen(path, { storage: 'read' });
  try {
    return file.metadata ?? new Map();
  } finally {
    file.close();
  }
}

/** The edit of one file. */
interface FileEdit {
  readonly path: string;
  readonly changes: ReadonlyMap<string, string | null>;
  readonly hashes: HashesToSet;
  /** Its place among several files, for the progress; empty for one file. */
  readonly place: string;
}

/**
 * Makes the changes, except with `--dry-run`, and prints them.
 *
 * @returns whether all keys to remove existed
 */
export async function editFile(
  context: CommandContext,
  options: OptionValues,
  path: string,
  changes: ReadonlyMap<string, string | null>,
  hashes: HashesToSet = {},
): Promise<Outcome> {
  const result = await editedFile(context, options, { path, changes, hashes, place: '' });
  printResult(context, options, result, editLines);
  return result.missing.length === 0 ? 'done' : 'no';
}

/** The edited files of a model, as `--json` prints them. */
interface FilesResult {
  readonly source: string;
  readonly files: readonly EditResult[];
  /** Number of the model's files; greater than that of the edited files after a failure or an interrupt. */
  readonly fileCount: number;
  /** The file that could not be edited, with which the work ended; absent if there is none. */
  readonly failed?: string;
}

/**
 * Sets the hashes in each file, one after the other, and prints the edited files, also after a failure or an interrupt.
 * The same holds for `--dry-run`, which writes nothing.
 *
 * @throws The error of the first file that cannot be edited
 */
export async function setHashes(
  context: CommandContext,
  options: OptionValues,
  source: string,
  paths: readonly string[],
  hashes: HashesToSet,
): Promise<void> {
  const files: EditResult[] = [];
  const changes = new Map<string, null>();
  try {
    for (const path of paths) {
      const place = ` file ${files.length + 1} of ${paths.length}`;
      files.push(await editedFile(context, options, { path, changes, hashes, place }));
    }
  } finally {
    // An interrupt is no failure of the file.
    const failed = context.signal.aborted ? undefined : paths[files.length];
    const fileCount = paths.length;
    const result = { source, files, fileCount, ...(failed === undefined ? {} : { failed }) };
    printResult<FilesResult>(context, options, result, filesLines);
  }
}

/** Makes the changes in one file, except with `--dry-run`. */
async function editedFile(
  context: CommandContext,
  options: OptionValues,
  file: FileEdit,
): Promise<EditResult> {
  const { path, changes } = file;
  const before = fileMetadata(path);
  const done = await edit(context, options, file);
  const after = done.metadata ?? new Map<string, string>();
  // As they were asked for; then the hashes.
  const keys = new Set([...changes.keys(), ...after.keys()]);
  const set = [...keys].flatMap((key) => {
    const value = after.get(key);
    return value === undefined || before.get(key) === value ? [] : [[key, value] as const];
  });
  const removed = [...before].filter(([key]) => !after.has(key));
  const missing = [...changes.keys()].filter((key) => !after.has(key) && !before.has(key));
  const method = isDryRun(options) ? 'dryRun' : done.method;
  return {
    ...{ path, method },
    set: Object.fromEntries(set),
    removed: Object.fromEntries(removed),
    missing,
  };
}

async function edit(
  { stderr, signal }: CommandContext,
  options: OptionValues,
  { path, changes, hashes, place }: FileEdit,
): Promise<MetadataEdit> {
  const inPlace = options['in-place'] === true;
  const dryRun = isDryRun(options);
  const isHashed = Object.keys(hashes).length > 0;
  const progress = progressOn(stderr, `${isHashed ? 'hashing and copying' : 'copying'}${place}`);
  try {
    const { onProgress } = progress;
    const how = { inPlace, dryRun, signal, onProgress, ...hashes };
    return await editMetadata(path, changes, how);
  } finally {
    progress.end();
  }
}

const DONE_BY: Readonly<Record<EditResult['method'], string>> = {
  none: 'nothing to change',
  rewritten: 'replaced by a new file',
  inPlace: 'header overwritten in place',
  dryRun: 'nothing written (--dry-run)',
};

function editLines(
  { path, method, set, removed, missing }: EditResult,
  style: Style,
  width: number | null,
): readonly string[] {
  const facts = (
    values: Readonly<Record<string, string>>,
    mark: string,
  ): (readonly [string, string])[] =>
    Object.entries(values).map(([key, value]) => [
      `${mark} ${visible(key, SHOWN_NAME_LENGTH)}`,
      visible(value, SHOWN_VALUE_LENGTH),
    ]);
  const changed = [...facts(set, '+'), ...facts(removed, '-')];
  const lines = changed.length === 0 ? [] : infoLines(changed, (text) => text);
  return [
    doneLine({ path, method, set, removed }, style),
    ...cutLines(lines, width),
    ...missing.map((key) => style.warning(`no key ${visible(key, SHOWN_NAME_LENGTH)}`)),
    ...hashLines(method, 'file', style),
  ];
}

/** The outcome, with the numbers of changed keys. */
function doneLine(
  { path, method, set, removed }: Omit<EditResult, 'missing'>,
  style: Style,
): string {
  const [added, gone] = [set, removed].map((keys) => Object.keys(keys).length) as [number, number];
  const counts = `; ${plural(added, 'key')} set, ${plural(gone, 'key')} removed`;
  return `${style.bold(visible(path))}: ${DONE_BY[method]}${added + gone === 0 ? '' : counts}`;
}

/** Reminds of the hashes that a written edit changes. */
function hashLines(method: EditResult['method'], of: 'file' | 'files', style: Style): string[] {
  if (method !== 'rewritten' && method !== 'inPlace') return [];
  const changed = `the hashes of the ${of} have changed (SHA-256, AutoV2, CRC32)`;
  return [style.dim(`${changed}; those of the tensors have not`)];
}

function filesLines({ files, fileCount, failed }: FilesResult, style: Style): readonly string[] {
  const written = files.find(({ method }) => method === 'rewritten');
  return [
    ...files.map((file) => doneLine(file, style)),
    ...(failed === undefined ? [] : [`${style.bold(visible(failed))}: ${style.error('failed')}`]),
    ...(files.length === fileCount
      ? []
      : [style.warning(`stopped after ${files.length} of ${plural(fileCount, 'file')}`)]),
    ...(written === undefined ? [] : hashLines(written.method, 'files', style)),
  ];
}
