/** `verify`: everything that is wrong with a checkpoint. */

import {
  type Checkpoint,
  type CheckpointProblem,
  ForeignFormatError,
  SafetensorsError,
  VerificationError,
  verifyCheckpoint,
} from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';
import { plural } from '../output/numbers.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { visible } from '../output/visible.js';
import {
  closeSource,
  foreignSource,
  isRemote,
  isTorchIndex,
  localPath,
  type OpenedSource,
  openSource,
} from '../sources/open-source.js';
import { type Command, type CommandContext, printResult } from './command.js';

const SHOWN_FILE_LENGTH = 300;
/** Of a message, which may have two hashes and a path. */
const SHOWN_MESSAGE_LENGTH = 1000;

/** As `--json` has it. */
interface VerifyResult {
  readonly source: string;
  readonly ok: boolean;
  /** What was looked at: `headers`, `index`, `hashes`, `checksums`. */
  readonly checks: readonly string[];
  readonly problems: readonly CheckpointProblem[];
}

type Verified = Pick<VerifyResult, 'checks' | 'problems'>;

/** A source that cannot be opened has problems, too; one of this machine all that there are. */
async function verifySource(
  source: string,
  isQuick: boolean,
  context: CommandContext,
): Promise<Verified> {
  let opened: OpenedSource;
  try {
    opened = await openSource(source, { signal: context.signal, storage: 'read' });
  } catch (error) {
    const isOfFile = error instanceof SafetensorsError && error.code !== 'SAFETENSORS_NOT_IN_CACHE';
    if (!isOfFile) throw error;
    const isOther = error instanceof ForeignFormatError || isTorchIndex(source);
    if (!isRemote(source) && !isOther) return await verifyLocal(source, isQuick, context);
    return { checks: ['headers'], problems: problemsOf(error) };
  }
  try {
    if (opened.kind === 'remote') return await verifyRemote(opened.checkpoint, context);
    if (opened.kind === 'torch' || opened.kind === 'numpy') {
      return await verifyForeign(opened.checkpoint, context);
    }
    if (opened.kind === 'gguf') throw foreignSource(opened, 'a file that can be verified');
  } finally {
    closeSource(opened);
  }
  return await verifyLocal(source, isQuick, context);
}

async function verifyLocal(
  source: string,
  isQuick: boolean,
  { stderr, signal }: CommandContext,
): Promise<Verified> {
  const progress = progressOn(stderr, 'hashing');
  const { onProgress } = progress;
  const path = source.startsWith('hf://') ? source : localPath(source);
  try {
    return await verifyCheckpoint(path, { hashes: !isQuick, signal, onProgress });
  } finally {
    progress.end();
  }
}

async function verifyRemote(
  checkpoint: RemoteCheckpoint,
  { signal }: CommandContext,
): Promise<Verified> {
  const problems = await checkpoint.verify({ signal }).then(() => [], problemsOf);
  return {
    checks: checkpoint.path.endsWith('.json') ? ['headers', 'index'] : ['headers'],
    problems,
  };
}

async function verifyForeign(
  checkpoint: Checkpoint,
  { stderr, signal }: CommandContext,
): Promise<Verified> {
  const progress = progressOn(stderr, 'verifying');
  const { onProgress } = progress;
  const verifying = checkpoint.verify({ signal, onProgress }).finally(() => progress.end());
  const problems = await verifying.then(() => [], problemsOf);
  return { checks: ['headers', 'checksums'], problems };
}

/** The problems that an error holds, or is; throws what is no error of a file. */
function problemsOf(error: unknown): readonly CheckpointProblem[] {
  if (error instanceof VerificationError) return error.problems;
  if (!(error instanceof SafetensorsError)) throw error;
  const { path = '', tensor = null, code, message } = error;
  return [{ file: path, tensor, code, message: message.replace(`${path}: `, '') }];
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
  summary: 'everything that is wrong with a file or checkpoint',
  usage: 'verify SOURCE [--quick]',
  description:
    'Checks the headers of all files, the index against them, and the hashes that metadata and the cache of the ' +
    'Hub claim; of archives of torch and NumPy the checksums. It lists every problem; exit code 1 when there is one.',
  options: { quick: { type: 'boolean', help: 'only headers and index: reads no tensors' } },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const { checks, problems } = await verifySource(source, options['quick'] === true, context);
    const ok = problems.length === 0;
    printResult<VerifyResult>(context, options, { source, ok, checks, problems }, verifyLines);
    return ok ? 'done' : 'no';
  },
};
