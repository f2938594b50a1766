/** `scan`: the code that a file with pickles would run. */

import { type ScanReport, scanPickle } from '../../index.js';
import { groupedText, plural } from '../../inspect/number-texts.js';
import type { Style } from '../output/style.js';
import { visible } from '../output/visible.js';
import { isRemote, localPath } from '../sources/open-source.js';
import { type Command, printResult, UsageError } from './command.js';
import { inWordsOf } from './library-words.js';

const SHOWN_FINDING_LENGTH = 300;

/** Most shown lines of a kind. */
const SHOWN_LINES = 50;

interface ScanResult extends ScanReport {
  readonly source: string;
}

function limited(lines: readonly string[]): string[] {
  const more = lines.length - SHOWN_LINES;
  if (more <= 0) return [...lines];
  return [...lines.slice(0, SHOWN_LINES), `and ${groupedText(more)} more, which --json lists`];
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

export const scanCommand: Command = {
  summary: 'finds code that a file with pickles would run',
  usage: 'scan FILE',
  description:
    'Lists the classes and functions that the pickles of a torch checkpoint, or of a NumPy array or archive, ' +
    'name, and unknown contents of the file. Runs nothing. Exit code 1 unless the verdict is safe or no-pickle.',
  options: {},
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    if (isRemote(source))
      throw new UsageError('expected a local file: download it first, which runs nothing');
    const report = await scanPickle(localPath(source));
    const advice = report.advice && inWordsOf({}, report.advice);
    const result: ScanResult = { source, ...report, ...(advice === undefined ? {} : { advice }) };
    printResult(context, options, result, scanLines);
    return isHarmless(result.verdict) ? 'done' : 'no';
  },
};
