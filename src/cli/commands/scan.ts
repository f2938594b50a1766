/** `scan`: the code that files with pickles would run. */

import { statSync } from 'node:fs';
import { isOfFile } from '../../file/shards/file-problems.js';
import { type ScanReport, scanPickle } from '../../index.js';
import { formatInteger, plural } from '../../inspect/format.js';
import type { Style } from '../output/style.js';
import { visible } from '../output/visible.js';
import { isRemote, localPath } from '../sources/open-source.js';
import { type SkippedPath, type WalkedFile, walkFolder } from '../sources/walk-folder.js';
import { advised } from './advice.js';
import { type Command, printResult, UsageError } from './command.js';
import { skippedLines } from './skipped-lines.js';

const SHOWN_FINDING_LENGTH = 300;

/** Most shown lines of a kind. */
const SHOWN_LINES = 50;

interface ScanResult extends ScanReport {
  readonly source: string;
}

function limited(lines: readonly string[]): string[] {
  const more = lines.length - SHOWN_LINES;
  if (more <= 0) return [...lines];
  return [...lines.slice(0, SHOWN_LINES), `and ${formatInteger(more)} more, which --json lists`];
}

function where(entry: string | undefined, position: number): string {
  return entry === undefined
    ? `byte ${position}`
    : `${visible(entry, SHOWN_FINDING_LENGTH)}, byte ${position}`;
}

/** Whether the file cannot run code. */
function isHarmless(verdict: ScanReport['verdict']): boolean {
  return verdict === 'safe' || verdict === 'no-pickle';
}

function scanLines(result: ScanResult, style: Style): readonly string[] {
  const { source, verdict, format, pickleCount, globals, findings, problems, advice } = result;
  const mark = isHarmless(verdict)
    ? style.bold
    : verdict === 'needs-code'
      ? style.warning
      : style.error;
  const bad = globals.filter(({ kind }) => kind !== 'allowed');
  const allowed = globals.length - bad.length;
  return [
    `${style.bold(visible(source))}: ${mark(verdict)}; ${visible(format)}, ${plural(pickleCount, 'pickle')}`,
    ...limited(
      bad.map(({ module, name, kind, entry, position }) => {
        const global = visible(`${module}.${name}`, SHOWN_FINDING_LENGTH);
        const shown = kind === 'hostile' ? style.error(kind) : style.warning(kind);
        return `${shown}  ${global}  (${where(entry, position)})`;
      }),
    ),
    ...limited(
      findings.map(({ kind, message, entry, position }) => {
        return `${style.warning(kind)}  ${visible(message, SHOWN_FINDING_LENGTH)}  (${where(entry, position)})`;
      }),
    ),
    ...limited(problems.map((text) => style.error(visible(text, SHOWN_FINDING_LENGTH)))),
    ...(allowed === 0 ? [] : [style.dim(`${plural(allowed, 'global')} of torch's own list`)]),
    ...(advice === undefined ? [] : [visible(advice, SHOWN_FINDING_LENGTH)]),
  ];
}

/** Names of files that programs read as pickles, whatever they contain. */
const PICKLE_NAME = /\.(?:bin|ckpt|dill|joblib|mar|nemo|np[yz]|pickle|pkl|pt2?|pth|tar|zip)$/i;

/** Findings of any file whose format is unknown. */
const OF_UNKNOWN_FORMATS: readonly string[] = ['unread-bytes', 'limit'];

/** A scanned file of a folder, for `--json`. */
interface ScannedFile extends ScanReport {
  readonly path: string;
}

/** The scan of a folder, for `--json`. */
interface FolderResult {
  readonly source: string;
  readonly files: readonly ScannedFile[];
  /** Number of files in which no pickle was found, and whose names do not suggest one. */
  readonly otherFiles: number;
  readonly skipped: readonly SkippedPath[];
}

function folderLines(result: FolderResult, style: Style): readonly string[] {
  const { source, files, otherFiles, skipped } = result;
  const counts = new Map<string, number>();
  for (const { verdict } of files) counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  const verdicts = Array.from(counts, ([verdict, count]) => `${formatInteger(count)} ${verdict}`);
  const total = `${plural(files.length, 'file')} with pickles or names of pickles`;
  const others = `${plural(otherFiles, 'other file')} without`;
  return [
    ...files.flatMap((file) => scanLines({ source: file.path, ...file }, style)),
    ...skippedLines(skipped, style),
    `${style.bold(visible(source))}: ${[total, ...verdicts, others].join(', ')}`,
  ];
}

/** Whether a report is of a file that a program may load as a pickle. */
function mayHoldPickles(name: string, { pickleCount, findings }: ScanReport): boolean {
  const isKnown = findings.every(({ kind }) => OF_UNKNOWN_FORMATS.includes(kind));
  return pickleCount > 0 || !isKnown || PICKLE_NAME.test(name);
}

/** Scans every file of a folder once, by the name of pickles if it has several names. */
async function scanFolder(source: string, signal: AbortSignal): Promise<FolderResult> {
  const path = localPath(source);
  const { folders, skipped } = await walkFolder(path, signal);
  const byPlace = new Map<string, WalkedFile>();
  for (const file of folders.flatMap((folder) => folder.files)) {
    const before = byPlace.get(file.realPath);
    const isBetter = PICKLE_NAME.test(file.name) && !PICKLE_NAME.test(before?.name ?? '');
    if (before === undefined || isBetter) byPlace.set(file.realPath, file);
  }
  const files: ScannedFile[] = [];
  const unread: SkippedPath[] = [];
  let otherFiles = 0;
  for (const { name, path } of byPlace.values()) {
    signal.throwIfAborted();
    try {
      const report = withAdvice(await scanPickle(path));
      if (mayHoldPickles(name, report)) files.push({ path, ...report });
      else otherFiles++;
    } catch (error) {
      if (!isOfFile(error)) throw error;
      unread.push({ path, reason: error.message });
    }
  }
  return { source, files, otherFiles, skipped: [...skipped, ...unread] };
}

/** The report with advice in the words of the command line. */
function withAdvice({ optionAdvice, ...report }: ScanReport): ScanReport {
  const { advice } = report;
  return advice === undefined ? report : { ...report, advice: advised({}, advice, optionAdvice) };
}

function isFolder(source: string): boolean {
  return statSync(localPath(source), { throwIfNoEntry: false })?.isDirectory() === true;
}

export const scanCommand: Command = {
  summary: 'Find code that pickles would run',
  usage: 'scan FILE|FOLDER',
  description:
    'List the classes and functions named by the pickles in PyTorch checkpoints and NumPy arrays, and unknown ' +
    'contents of the file; for a folder, scan all files in it and its subfolders. Nothing is run. Exit code 1 unless ' +
    'each verdict is safe or no-pickle, and nothing was skipped.',
  example: 'scan downloads',
  options: {},
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    if (isRemote(source)) {
      throw new UsageError(
        'expected a local file or folder: download it first, which runs nothing',
      );
    }
    if (isFolder(source)) {
      const result = await scanFolder(source, context.signal);
      printResult(context, options, result, folderLines);
      const isSafe = result.files.every(({ verdict }) => isHarmless(verdict));
      return isSafe && result.skipped.length === 0 ? 'done' : 'no';
    }
    const result: ScanResult = { source, ...withAdvice(await scanPickle(localPath(source))) };
    printResult(context, options, result, scanLines);
    return isHarmless(result.verdict) ? 'done' : 'no';
  },
};
