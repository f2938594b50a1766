/** The model written to a new file. */
import { statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pick } from '../contenders.mjs';
import { formatByteSize, max } from '../figures.mjs';
import { NotMeasuredError, startChild } from '../processes.mjs';

/** The first four have the tensors in memory. */
const WRITERS = pick(
  'save numpySave saveDurable numpySaveDurable saveOpen saveOpenDurable torchSave',
);

/** Memory that is kept ready, per byte written. */
export const HELD_PER_BYTE = 1.25;

/** Fails when a written file has the wrong bytes. */
export async function requireSameBytes(expected, written, signal) {
  try {
    await (await startChild({ file: 'cmp', args: [expected, written] }, signal)).end();
  } catch (error) {
    signal.throwIfAborted();
    throw new NotMeasuredError(`wrote other bytes: ${error.message}`);
  }
}

/**
 * Runs a writer to its end; what it has written must be as expected. The process of the command `hold`, if given,
 * has memory until the writer is ready, and gives it back right before the clock starts. A virtual machine gets memory
 * from its host when it is first touched, and gives it back seconds after it was freed; both are slower than writing.
 * This way every writer finds memory that the host has already granted.
 */
export async function runWriter(command, expected, target, signal, hold) {
  const holder = hold && (await startChild(hold, signal));
  try {
    const writer = await startChild(command, signal);
    await holder?.end();
    await writer.end();
    await requireSameBytes(expected, target, signal);
    return writer.line();
  } finally {
    await holder?.end();
    await rm(target, { force: true });
  }
}

/** The model written to a new file: from memory, and from a mapped file. */
export const save = {
  name: 'save',
  legs: ({ equipment, folder, path, rounds, signal }) => {
    const target = join(folder, 'saved.safetensors');
    const held = String(Math.round(statSync(path).size * HELD_PER_BYTE));
    const hold = { file: join(equipment.programs, 'limits'), args: ['hold', held] };
    const run = (command) => runWriter(command, path, target, signal, hold);
    return { save: { contenders: WRITERS, args: [target], cache: 'warm', rounds, run } };
  },
  values: ({ save }, { path }) => {
    const { size } = statSync(path);
    const extra = pick('save saveDurable saveOpen saveOpenDurable').map((one) =>
      max(save.every(one, 'extraMemory')),
    );
    return { size: formatByteSize(size), bytesPerSecond: size * 1e3, extra: Math.max(...extra) };
  },
  page: `
    ## Saving {size} to a new file
    | writer | time = elapsed | per second = $bytesPerSecond / elapsed MB | extra memory = max(extraMemory) +MB |
    - {reasons}
    - extra memory is the highest VmHWM of any round above what was resident before; what torch maps is part of it
    - fsync included costs {= saveDurable.elapsed / save.elapsed ×} the time here
    > saving from memory, durable: false: faster than save_file of the reference | at least 1 × | numpySave.elapsed / save.elapsed
    > saving: extra memory | at most 64 MB | $extra`,
};
