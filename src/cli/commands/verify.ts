/** `verify`: all problems of a checkpoint. */

import { isDdufName } from '../../file/shards/file-names.js';
import { isOfFile } from '../../file/shards/verification-error.js';
import { type VerifiableSource, type VerificationReport, verifyCheckpoint } from '../../index.js';
import { plural } from '../../inspect/number-texts.js';
import type { SourceChoice } from '../../remote.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { visible } from '../output/visible.js';
import {
  type ForeignChoices,
  type FoundAt,
  foreignSource,
  formatAt,
  openAddress,
  openArchive,
  pathOf,
} from '../sources/open-source.js';
import { type Command, type CommandContext, printResult } from './command.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { inWordsOf } from './library-words.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

const SHOWN_FILE_LENGTH = 300;
/** Most characters of a message, which may have two hashes and a path. */
const SHOWN_MESSAGE_LENGTH = 1000;

/** The report for `--json`. */
interface VerifyResult extends VerificationReport {
  readonly source: string;
}

/** What to verify, and how. */
interface Choices {
  readonly hashes: boolean;
  readonly foreign: ForeignChoices;
  readonly choice: SourceChoice;
}

async function verifySource(
  source: string,
  { hashes, foreign, choice }: Choices,
  { stderr, signal }: CommandContext,
): Promise<VerificationReport> {
  const path = pathOf(source);
  if (path === null) {
    const opening = { signal, toVerify: true, ...choice };
    return await verifyCheckpoint(() => openAddress(source, opening, foreign), { signal });
  }
  if (isDdufName(path)) {
    const opening = { storage: 'read', foreign, choice, toVerify: true } as const;
    const progress = progressOn(stderr, 'verifying');
    const { onProgress } = progress;
    const verifying = { hashes, signal, onProgress };
    return await verifyCheckpoint(() => openArchive(path, opening), verifying).finally(() =>
      progress.end(),
    );
  }
  const found = await formatAt(path, foreign, choice).catch((error: unknown): FoundAt => {
    // An unreadable file explains all its missing contents: the report lists the file alone.
    if (isOfFile(error)) return { kind: 'safetensors', path: Object(error).path ?? path };
    throw error;
  });
  if (found.kind === 'gguf') throw foreignSource(found, 'a file that can be verified');
  const isOther = found.kind !== 'safetensors';
  const progress = progressOn(stderr, isOther ? 'verifying' : 'hashing');
  const { onProgress } = progress;
  const what = isOther ? () => openToVerify(found, foreign) : found.path;
  const verifying = { hashes, signal, onProgress, ...choice };
  return await verifyCheckpoint(what, verifying).finally(() => progress.end());
}

/** Opens a torch or NumPy file. */
async function openToVerify(
  { kind, path }: Extract<FoundAt, { readonly kind: 'torch' | 'numpy' }>,
  { voidDtype, ...torch }: ForeignChoices,
): Promise<VerifiableSource> {
  const { openNumpy, openTorchCheckpoint } = await import('../../convert.js');
  return kind === 'torch'
    ? openTorchCheckpoint(path, { ...torch, toVerify: true })
    : openNumpy(path, { voidDtype });
}

function verifyLines({ ok, checks, problems }: VerifyResult, style: Style): readonly string[] {
  const lines = problems.map(({ file, code, message }) => {
    const where = file === '' ? '' : `${visible(file, SHOWN_FILE_LENGTH)}: `;
    return `${where}${style.error(code)}: ${visible(message, SHOWN_MESSAGE_LENGTH)}`;
  });
  const found = ok ? 'no problems' : plural(problems.length, 'problem');
  return [...lines, `${found}; checked: ${checks.join(', ')}`];
}

export const verifyCommand: Command = {
  summary: 'finds all problems of a file or checkpoint',
  usage: 'verify SOURCE [--no-hashes]',
  description:
    'Checks the headers of all files, the index against them, and the hashes that metadata and the cache of the ' +
    'Hub claim; for archives of torch, NumPy and DDUF the checksums. Lists every problem; exit code 1 if there is one.',
  options: {
    'no-hashes': {
      type: 'boolean',
      help: 'checks only headers and index, without reading tensors',
    },
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
  },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const choices = {
      hashes: options['no-hashes'] !== true,
      foreign: foreignChoices(options),
      choice: repositoryChoice(options),
    };
    const { ok, checks, problems: found } = await verifySource(source, choices, context);
    const problems = found.map((problem) => {
      return { ...problem, message: inWordsOf(FOREIGN_OPTIONS, problem.message) };
    });
    printResult<VerifyResult>(context, options, { source, ok, checks, problems }, verifyLines);
    return ok ? 'done' : 'no';
  },
};
