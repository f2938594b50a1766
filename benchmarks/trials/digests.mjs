/** Digests and checksums of a file in the page cache: compared, and written. */
import { join } from 'node:path';
import { safeOpen, saveFile } from 'safetensors-mmap';
import { pick } from '../contenders.mjs';
import { timeProcess } from '../processes.mjs';
import { runWriter } from './saving.mjs';

const COMPARED = pick('verifyDigests openssl');
const WRITERS = pick('saveNoDigests saveDigests');
const STREAMS = pick('streamNoDigests streamDigests');
const ARCHIVES = pick('verifyTorch scanTorch testzip');

/** Writes a copy of the model with digests. */
async function writeDigests(path, target) {
  const file = safeOpen(path);
  const { metadata } = file;
  await saveFile(target, file.getTensors(), { metadata, digests: true, durable: false });
  file.close();
  return { digested: target };
}

export const digests = {
  name: 'digests',
  prepare: ({ path, folder }) => writeDigests(path, join(folder, 'digests.safetensors')),
  legs: ({ folder, path, rounds, signal }, { digested }) => {
    const target = join(folder, 'saved.safetensors');
    const leg = { cache: 'warm', rounds };
    const compare = async (command) => {
      const { elapsed, line } = await timeProcess(command, signal);
      // A program of another package prints no JSON, and is timed as a whole.
      return command.file === 'openssl' ? { elapsed } : line();
    };
    const save = (command) => {
      const isDigested = command.args.includes('save-digests');
      return runWriter(command, isDigested ? digested : path, target, signal);
    };
    return {
      verify: { ...leg, contenders: COMPARED, path: digested, run: compare },
      save: { ...leg, contenders: WRITERS, args: [target], run: save },
      stream: { ...leg, contenders: STREAMS },
      archive: { ...leg, contenders: ARCHIVES },
    };
  },
  page: `
    ## Digests and checksums of a file in the page cache
    | call | time = elapsed | VmHWM = peak MB | RssAnon = anonymous MB |
    - {reasons}
    - openssl is a separate process, and hashes the whole file
    - verify compares the SHA-256 of each of 147 tensors on two threads
    - nothing is synced; the streams are read by a loop that drops the pieces
    > verify with digests against openssl | at most 0.55 × | verifyDigests.elapsed / openssl.elapsed
    > saveFile with digests against one without | at most 1.5 × | saveDigests.elapsed / saveNoDigests.elapsed | with = saveDigests.elapsed & without = saveNoDigests.elapsed
    > serializeStream with digests against one without | at most 1.5 × | streamDigests.elapsed / streamNoDigests.elapsed | with = streamDigests.elapsed & without = streamNoDigests.elapsed
    > verify of a PyTorch checkpoint against zipfile.testzip | at most 1.4 × | verifyTorch.elapsed / testzip.elapsed
    > scanPickle with checksums against zipfile.testzip | at most 1.4 × | scanTorch.elapsed / testzip.elapsed`,
};
