/** `verify`: all problems of a checkpoint. */

import {
  type CheckpointCheck,
  type HubComparison,
  type SourceChoice,
  type UnverifiedReason,
  type ValueFindings,
  type VerificationReport,
  type VerifiedFile,
  type VerifyBytesOptions,
  verify,
} from '../../index.js';
import { plural, unknownCompleteness } from '../../inspect/format.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { type ForeignChoices, openSource, pathOf } from '../sources/open-source.js';
import { advised } from './advice.js';
import { type Command, printResult, UsageError } from './command.js';
import { folderOfModelsHint } from './folder-of-models.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

const SHOWN_FILE_LENGTH = 300;
/** Most characters of a message, which may have two hashes and a path. */
const SHOWN_MESSAGE_LENGTH = 1000;

/** The report for `--json`. */
interface VerifyResult extends VerificationReport {
  readonly source: string;
}

/** Why data was not compared, for people; not if a problem or `--headers-only` explains it. */
const REASONS: Readonly<Record<Exclude<UnverifiedReason, 'skipped' | 'unreadable'>, string>> = {
  'no-digests': 'no digests (add them with `hash --write`)',
  'no-checksums': 'the file has no checksums',
  'invalid-digests': 'the digests are malformed',
  'partial-digests': 'the digests cover a part of the file',
  'not-read': 'remote tensors are not read (`hash` reads them)',
};

function verifyLines(result: VerifyResult, style: Style): string[] {
  const { ok, checks, problems, files, hub, values, ranksFound } = result;
  const lines = problems.map(({ file, code, message }) => {
    const where = file === '' ? '' : `${visible(file, SHOWN_FILE_LENGTH)}: `;
    return `${where}${style.error(code)}: ${visible(message, SHOWN_MESSAGE_LENGTH)}`;
  });
  const found = ok ? 'no problems' : plural(problems.length, 'problem');
  if (ranksFound !== undefined) {
    lines.push(style.warning(`warning: ${unknownCompleteness(ranksFound)}`));
  }
  if (values !== undefined) lines.push(...valueLines(values, style));
  if (hub !== undefined) return [...lines, ...hubLines(hub, style), `${found}; ${hubSummary(hub)}`];
  const checked = checks.map((check) => checkText(check, files)).join(', ');
  const unverified = files.flatMap((file) => {
    const { reason } = file;
    return reason === null || reason === 'skipped' || reason === 'unreadable'
      ? []
      : [{ ...file, text: `not verified: ${REASONS[reason]}` }];
  });
  const isCompared = files.some(({ comparedTensors }) => comparedTensors > 0);
  const [text = '', ...others] = new Set(unverified.map(({ text }) => text));
  if (text !== '' && others.length === 0 && !isCompared) {
    return [...lines, `${found}; checked: ${checked}; data ${text}`];
  }
  for (const file of unverified) lines.push(unverifiedLine(file, style));
  return [...lines, `${found}; checked: ${checked}`];
}

/** Tensors whose values are suspicious, but no problem. */
function valueLines({ constant, zero }: ValueFindings, style: Style): string[] {
  const line = (name: string, text: string): string =>
    `${visible(name, SHOWN_NAME_LENGTH)}: ${style.warning(text)}`;
  return [
    ...zero.map((name) => line(name, 'all zeros')),
    ...constant.map((name) => line(name, 'constant')),
  ];
}

/** Differences from the Hub that are no problems. */
function hubLines({ missing, extra, renamed, unhashed }: HubComparison, style: Style): string[] {
  const line = (file: string, text: string): string =>
    `${visible(file, SHOWN_FILE_LENGTH)}: ${style.warning(text)}`;
  return [
    ...missing
      .filter(({ required }) => !required)
      .map(({ file, hint }) => line(file, `missing${hint === null ? '' : `; ${visible(hint)}`}`)),
    ...extra.map((file) => line(file, 'extra, not in the repository')),
    ...renamed.map(({ file }) => line(file, 'the local name has another Unicode normalization')),
    ...unhashed.map((file) => line(file, 'bytes not compared: the Hub lists no hash')),
  ];
}

/** The numbers of files, the compared commit, and a newer one. */
function hubSummary({ source, newerCommit, ...lists }: HubComparison): string {
  const { checked, changed, missing, extra } = lists;
  const counts = [
    `checked: ${plural(checked, 'file')} against ${visible(source, SHOWN_FILE_LENGTH)}`,
    ...(changed.length > 0 ? [`${changed.length} changed`] : []),
    ...(missing.length > 0 ? [`${missing.length} missing`] : []),
    ...(extra.length > 0 ? [`${extra.length} extra`] : []),
    ...(newerCommit === null ? [] : [`main is at ${newerCommit}`]),
  ];
  return counts.join(', ');
}

/** A check; digests, and checksums of only some files, with the number of files that have some. */
function checkText(check: CheckpointCheck, files: readonly VerifiedFile[]): string {
  if (check !== 'digests' && check !== 'checksums') return check;
  const count = files.filter(({ checks }) => checks.includes(check)).length;
  if (check === 'checksums' && count === files.length) return check;
  return `${check} (${count} of ${plural(files.length, 'file')})`;
}

/** The tensors of a file that were not compared. */
function unverifiedLine(
  { file, tensors, comparedTensors, notCompared, text }: VerifiedFile & { readonly text: string },
  style: Style,
): string {
  const names = notCompared.map((name) => visible(name, SHOWN_NAME_LENGTH)).join(', ');
  const count = `${tensors - comparedTensors} of ${plural(tensors, 'tensor')}`;
  const where = comparedTensors === 0 ? 'data' : count;
  const list = names === '' ? '' : `: ${names}`;
  return `${visible(file, SHOWN_FILE_LENGTH)}: ${style.warning(`${where} ${text}`)}${list}`;
}

/** Opens a remote source and verifies it; models of a pipeline that cannot be opened are problems. */
async function verifyAddress(
  source: string,
  options: VerifyBytesOptions & { readonly signal: AbortSignal; readonly values: boolean },
  choice: SourceChoice,
  foreign: ForeignChoices,
): Promise<VerificationReport> {
  const { verifyOpened } = await import('../../open/verify-source.js');
  const opening = { signal: options.signal, skipFailed: true, choice, foreign };
  const { values, ...verifying } = options;
  return await verifyOpened(() => openSource(source, opening), verifying, values);
}

export const verifyCommand: Command = {
  summary: 'Find all problems of a file or checkpoint',
  usage: 'verify SOURCE [--headers-only | --values | --against ADDRESS]',
  description:
    'Check the headers of all files, the index against them, and the digests that metadata and the Hub cache ' +
    'declare; for PyTorch, NumPy and DDUF archives the checksums. List every problem, and data that was not ' +
    'verified because it has no digests. With --against, compare all files of a local copy with a repository on the ' +
    'Hub instead, and list changed, missing and extra files. Exit code 1 if there is a problem.',
  example: 'verify my-model --against origin',
  options: {
    against: {
      type: 'string',
      value: 'ADDRESS',
      help: 'hf://org/name[@revision], or origin: the repository and commit that download recorded',
    },
    values: {
      type: 'boolean',
      help: 'also read all values: fail on NaN and infinities, list constant and all-zero tensors',
    },
    'headers-only': {
      type: 'boolean',
      help: 'check only headers and index, without reading tensors',
    },
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
  },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const { signal, stderr } = context;
    const progress = progressOn(stderr, 'verifying');
    const { onProgress } = progress;
    const foreign = foreignChoices(options);
    const choice = repositoryChoice(options);
    const headersOnly = options['headers-only'] === true;
    const values = options['values'] === true;
    if (values && headersOnly)
      throw new UsageError('--values reads tensors: leave out --headers-only');
    const path = pathOf(source);
    const against = typeof options['against'] === 'string' ? options['against'] : undefined;
    if (path === null && against !== undefined) {
      throw new UsageError('--against compares local files: pass the path of a copy');
    }
    const verifying =
      path === null
        ? verifyAddress(source, { signal, headersOnly, values }, choice, foreign)
        : verify(path, { ...foreign, ...choice, against, values, headersOnly, signal, onProgress });
    const report = await verifying.finally(() => progress.end());
    const problems: VerifyResult['problems'][number][] = [];
    for (const { advice, ...problem } of report.problems) {
      const message = advised(verifyCommand.options, problem.message, advice);
      const hint = await folderOfModelsHint({ code: problem.code, path }, signal);
      problems.push({ ...problem, message: message + hint });
    }
    printResult<VerifyResult>(context, options, { source, ...report, problems }, verifyLines);
    return report.ok ? 'done' : 'no';
  },
};
