/** Checkpoints of very many tensors, opened and written into fewer files; the model written to a new file. */
import { statSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openCheckpoint } from 'safetensors-mmap';
import { CONTENDERS, pick } from '../contenders.mjs';
import { formatByteSize, max } from '../figures.mjs';
import { writeExpertCheckpoint, writeModel } from '../models.mjs';
import { NotMeasuredError, runChild, startChild } from '../processes.mjs';

/** As of a large mixture of experts; in a try a hundredth. */
export const expertSizes = (size) => ({ tensors: size(92_000, 920), shards: size(163, 5) });

/** A checkpoint of very many tensors: its index read, one tensor taken, every header checked. */
export const checkpoint = {
  name: 'checkpoint',
  prepare: ({ folder, size }) => writeExpertCheckpoint(join(folder, 'experts'), expertSizes(size)),
  legs: ({ rounds, signal, size }, { index, scales }) => {
    const { tensors } = expertSizes(size);
    const run = async (command) => {
      const line = await runChild(command, signal);
      if (line.tensors === tensors) return line;
      throw new NotMeasuredError(`saw ${line.tensors} of ${tensors} tensors`);
    };
    return {
      open: {
        contenders: pick('index oneTensor verify pythonTensor pythonVerify'),
        path: index,
        args: [scales],
        rounds,
        run,
      },
    };
  },
  rows: (read) => {
    const row = (ours, theirs) => {
      const [{ name }] = pick(ours);
      const compared = theirs && [`${theirs}.elapsed`, `${theirs}.elapsed / ${ours}.elapsed ×`];
      const rest = compared?.map((text) => read(text).text) ?? ['–', '–'];
      return [name, read(`${ours}.elapsed`).text, ...rest];
    };
    const head = ['what', 'safetensors-mmap', CONTENDERS.pythonVerify.name, 'ratio'];
    return [head, row('index'), row('oneTensor', 'pythonTensor'), row('verify', 'pythonVerify')];
  },
  values: (_, { size }) => expertSizes(size),
  page: `
    ## A checkpoint of {shards} shards and {tensors} tensors, opened in a fresh process
    - {reasons}
    - sparse files: nothing but headers is read, and those are in the page cache
    > {shards} shards, {tensors} tensors, open and verify | at most 80 ms | verify.elapsed | ${CONTENDERS.pythonVerify.name} = pythonVerify.elapsed
    > {shards} shards, open and verify: faster than Python | at least 3 × | pythonVerify.elapsed / verify.elapsed`,
};

const TARGET_SHARDS = 8;
/** All tensors are as long as the scales of a matrix. */
const SMALL_MATRIX = [64, 64];
const SMALL_BYTES = 4096;

/** Such a checkpoint of small tensors written into fewer files, beside a copy of its files. */
export const reshard = {
  name: 'reshard',
  prepare: ({ folder, signal, size }) =>
    writeExpertCheckpoint(join(folder, 'small'), expertSizes(size), SMALL_MATRIX, (path, tensors) =>
      writeModel(path, tensors, signal),
    ),
  legs: ({ folder, rounds, signal, size }, { index }) => {
    const { tensors } = expertSizes(size);
    const target = join(folder, 'resharded');
    const run = async (command) => {
      try {
        const line = await runChild(command, signal);
        const checkpoint = openCheckpoint(target);
        await checkpoint.verify();
        const written = checkpoint.size;
        checkpoint.close();
        if (written === tensors) return line;
        throw new NotMeasuredError(`wrote ${written} tensors`);
      } finally {
        await rm(target, { recursive: true, force: true });
      }
    };
    const args = [target, `${Math.ceil(tensors / TARGET_SHARDS) * SMALL_BYTES}`];
    return {
      reshard: {
        contenders: pick('reshard copyFolder reshardDurable copyFolderDurable'),
        path: index,
        args,
        rounds,
        run,
      },
    };
  },
  values: ({ reshard }, { size }) => {
    const { copyFolder, copyFolderDurable } = CONTENDERS;
    const copy = ({ method }) => (method.endsWith('durable') ? copyFolderDurable : copyFolder);
    return { ...expertSizes(size), copy: (writer) => reshard.median(copy(writer), 'elapsed') };
  },
  page: `
    ## {tensors} tensors of 4 kB in {shards} shards, written into ${TARGET_SHARDS}
    | writer | time = elapsed | of the copy = elapsed / $copy × |
    - {reasons}
    - cp copies the shards as they are; all of them are in the page cache
    > {tensors} tensors of 4 kB, reshard, durable: false against cp | at most 2 × | reshard.elapsed / copyFolder.elapsed | ours = reshard.elapsed & cp = copyFolder.elapsed
    > {tensors} tensors of 4 kB, reshard against cp and sync | at most 1.5 × | reshardDurable.elapsed / copyFolderDurable.elapsed | ours = reshardDurable.elapsed & cp and sync = copyFolderDurable.elapsed`,
};

/** The first six have the tensors in memory. */
const WRITERS = pick(
  'write writeFile save numpySave saveDurable numpySaveDurable copyRange saveOpen saveOpenDurable torchSave',
);

/** Memory that is kept ready, per byte written. */
const HELD_PER_BYTE = 1.25;
const BLOCK_BYTES = 4 * 2 ** 20;

/** Whether two files have the same bytes. */
export async function haveSameBytes(...paths) {
  const [first, second] = await Promise.all(paths.map((path) => open(path)));
  try {
    const [a, b] = [Buffer.alloc(BLOCK_BYTES), Buffer.alloc(BLOCK_BYTES)];
    const { size } = await first.stat();
    if ((await second.stat()).size !== size) return false;
    for (let at = 0; at < size; ) {
      const { bytesRead } = await first.read(a, 0, BLOCK_BYTES, at);
      await second.read(b, 0, bytesRead, at);
      if (bytesRead === 0 || a.compare(b, 0, bytesRead, 0, bytesRead) !== 0) return false;
      at += bytesRead;
    }
    return true;
  } finally {
    await Promise.all([first.close(), second.close()]);
  }
}

/**
 * Runs a writer to its end; what it has written must be the source. The process of the command `hold` has memory
 * until the writer is ready, and gives it back right before the clock starts. A virtual machine gets memory from
 * its host when it is first touched, and gives it back seconds after it was freed; both are slower than writing.
 * This way every writer finds memory that is there.
 */
export async function runWriter(command, hold, source, target, signal) {
  const holder = await startChild(hold, signal);
  try {
    const writer = await startChild(command, signal);
    await holder.end();
    await writer.end();
    if (!(await haveSameBytes(source, target))) throw new NotMeasuredError('wrote other bytes');
    return writer.line();
  } finally {
    await holder.end();
    await rm(target, { force: true });
  }
}

/** The model written to a new file: from memory, and from the file where it is. */
export const save = {
  name: 'save',
  legs: ({ equipment, folder, path, rounds, signal }) => {
    const target = join(folder, 'saved.safetensors');
    const held = String(Math.round(statSync(path).size * HELD_PER_BYTE));
    const hold = { file: join(equipment.programs, 'limits'), args: ['hold', held] };
    const run = (command) => runWriter(command, hold, path, target, signal);
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
    > saving from an open file, durable: false, against a bare copy_file_range | at most 1.1 × | saveOpen.elapsed / copyRange.elapsed
    > saving: extra memory | at most 64 MB | $extra`,
};
