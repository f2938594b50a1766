/** A hundred thousand small tensors: written, dequantized and listed, and how long the event loop waits for it. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { safeOpen, saveFile } from 'safetensors-mmap';
import { pick } from '../contenders.mjs';
import { manySmallTensors, writeSparseModel } from '../models.mjs';
import { runChild } from '../processes.mjs';

const WAYS = pick(
  'manySerialize manySerializePython manySave manySavePython manySaveCheckpoint manyDequantize manyKeys manyTensors manyVerify',
);
const TENSORS = 100_000;
const ROUNDS = 9;

export const many = {
  name: 'many',
  prepare: async ({ folder, size }) => {
    const path = join(folder, 'many.safetensors');
    await writeSparseModel(path, manySmallTensors(size(TENSORS, TENSORS / 100)));
    const file = safeOpen(path);
    const verified = join(folder, 'digests.safetensors');
    await saveFile(verified, file, { digests: true, durable: false });
    file.close();
    return { path, verified };
  },
  legs: ({ many: roundsOf, folder, signal }, { path, verified }) => {
    const target = join(folder, 'target.safetensors');
    const run = async (command) => {
      try {
        return await runChild(command, signal);
      } finally {
        await rm(target, { force: true });
        await rm(`${target}.folder`, { recursive: true, force: true });
      }
    };
    const rounds = roundsOf(ROUNDS);
    const compared = ['elapsed', 'turn'];
    return {
      many: {
        contenders: WAYS,
        path,
        args: [target, verified],
        cache: 'warm',
        rounds,
        run,
        compared,
      },
    };
  },
  page: `
    ## 100 000 tensors of 512 bytes
    | what | time = elapsed | longest turn of the event loop = turn | extra memory = max(extraMemory) +MB |
    - the first call of a process, everything imported and young garbage collected; medians of ${ROUNDS}
    - saved from arrays in memory, not synced; the other calls get a file in the page cache, open except for verify()
    - the first turn of saveFile() and saveCheckpoint() reads names, dtypes and shapes: the caller may change them later
    - verify() compares the digests of all tensors; its second call, since the first one loads its code
    - {reasons}
    > serialize, 100 000 tensors | at most 750 ms | manySerialize.elapsed | Python = manySerializePython.elapsed
    > saveFile, 100 000 tensors | at most 750 ms | manySave.elapsed | Python = manySavePython.elapsed
    > dequantize, 100 000 tensors without codes | at most 250 ms | manyDequantize.elapsed
    > longest turn of saveFile, 100 000 tensors | at most 20 ms | manySave.turn
    > longest turn of saveCheckpoint, 100 000 tensors | at most 20 ms | manySaveCheckpoint.turn
    > longest turn of verify, 100 000 tensors | at most 10 ms | manyVerify.turn`,
};
