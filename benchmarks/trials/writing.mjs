/** Checkpoints of very many tensors, opened and written into fewer files; the model written to a new file. */
import { statSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openCheckpoint } from 'safetensors-mmap';
import { contender, NUMPY, ours, TORCH } from '../contenders.mjs';
import { formatByteSize, max } from '../figures.mjs';
import { writeExpertCheckpoint, writeModel } from '../models.mjs';
import { NotMeasuredError, runChild, startChild } from '../processes.mjs';

/** As of a large mixture of experts; in a try a hundredth. */
export const expertSizes = (size) => ({ tensors: size(92_000, 920), shards: size(163, 5) });

const REFERENCE = 'Python json.load, safe_open';
const names = {
  index: ours('index only', 'work.mjs', 'open'),
  tensor: ours('index, one tensor of 4 kB', 'work.mjs', 'tensor'),
  verify: ours('every header checked', 'work.mjs', 'verify'),
  theirTensor: contender(REFERENCE, 'reference.py', 'tensor', NUMPY),
  theirVerify: contender(REFERENCE, 'reference.py', 'verify', NUMPY),
};

/** A checkpoint of very many tensors: its index read, one tensor taken, every header checked. */
export const checkpoint = {
  name: 'checkpoint',
  names,
  prepare: ({ folder, size }) => writeExpertCheckpoint(join(folder, 'experts'), expertSizes(size)),
  legs: ({ rounds, signal, size }, { index, scales }) => {
    const { tensors } = expertSizes(size);
    const run = async (command) => {
      const line = await runChild(command, signal);
      if (line.tensors === tensors) return line;
      throw new NotMeasuredError(`saw ${line.tensors} of ${tensors} tensors`);
    };
    return { open: { contenders: Object.values(names), path: index, args: [scales], rounds, run } };
  },
  rows: (read) => {
    const row = ({ name }, mine, theirs) => {
      const compared = theirs && [`${theirs}.elapsed`, `${theirs}.elapsed / ${mine}.elapsed ×`];
      return [
        name,
        read(`${mine}.elapsed`).text,
        ...(compared?.map((text) => read(text).text) ?? ['–', '–']),
      ];
    };
    return [
      ['what', 'safetensors-mmap', REFERENCE, 'ratio'],
      row(names.index, 'index'),
      row(names.tensor, 'tensor', 'theirTensor'),
      row(names.verify, 'verify', 'theirVerify'),
    ];
  },
  values: (_, { size }) => expertSizes(size),
  page: `
    ## A checkpoint of {shards} shards and {tensors} tensors, opened in a fresh process
    - {reasons}
    - sparse files: nothing but headers is read, and those are in the page cache
    > {shards} shards, {tensors} tensors, open and verify | at most 80 ms | verify.elapsed | ${REFERENCE} = theirVerify.elapsed
    > {shards} shards, open and verify: faster than Python | at least 3 × | theirVerify.elapsed / verify.elapsed`,
};

const TARGET_SHARDS = 8;
/** All tensors are as long as the scales of a matrix. */
const SMALL_MATRIX = [64, 64];
const SMALL_BYTES = 4096;

const writers = {
  plain: ours('reshard, durable: false', 'work.mjs', 'reshard'),
  cp: contender('cp', 'work.mjs', 'cp-folder'),
  durable: ours('reshard', 'work.mjs', 'reshard-durable'),
  synced: contender('cp and sync', 'work.mjs', 'cp-folder-durable'),
};

/** Such a checkpoint of small tensors written into fewer files, beside a copy of its files. */
export const reshard = {
  name: 'reshard',
  names: writers,
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
    return { reshard: { contenders: Object.values(writers), path: index, args, rounds, run } };
  },
  values: ({ reshard }, { size }) => {
    const copy = ({ method }) => (method.endsWith('durable') ? writers.synced : writers.cp);
    return { ...expertSizes(size), copy: (writer) => reshard.median(copy(writer), 'elapsed') };
  },
  page: `
    ## {tensors} tensors of 4 kB in {shards} shards, written into ${TARGET_SHARDS}
    | writer | time = elapsed | of the copy = elapsed / $copy × |
    - {reasons}
    - cp copies the shards as they are; all of them are in the page cache
    > {tensors} tensors of 4 kB, reshard, durable: false against cp | at most 2 × | plain.elapsed / cp.elapsed | ours = plain.elapsed & cp = cp.elapsed
    > {tensors} tensors of 4 kB, reshard against cp and sync | at most 1.5 × | durable.elapsed / synced.elapsed | ours = durable.elapsed & cp and sync = synced.elapsed`,
};

const NUMPY_SAVE = 'save_file, Python with numpy';
const SAVE = ours('saveFile, durable: false', 'save.mjs', 'memory');
const SAVE_DURABLE = ours('saveFile', 'save.mjs', 'memory-durable');
const SAVE_FILE = contender(NUMPY_SAVE, 'save.py', 'memory', NUMPY);
const BARE_COPY = contender('limit: copy_file_range, C', 'limits', 'copy');
const COPY = ours('open file: saveFile, durable: false', 'save.mjs', 'file');
const COPY_DURABLE = ours('open file: saveFile', 'save.mjs', 'file-durable');

/** All writers in the order of the table; the first six have the tensors in memory. */
const WRITERS = [
  contender('limit: write, C', 'limits', 'write'),
  contender('fs.writeFile of one buffer', 'save.mjs', 'writeFile'),
  SAVE,
  SAVE_FILE,
  SAVE_DURABLE,
  contender(`${NUMPY_SAVE}, fsync`, 'save.py', 'memory-durable', NUMPY),
  BARE_COPY,
  COPY,
  COPY_DURABLE,
  contender('load_file and save_file, Python with torch', 'save.py', 'torch', TORCH),
];

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
  names: { saved: SAVE, durable: SAVE_DURABLE, theirs: SAVE_FILE, copied: COPY, bare: BARE_COPY },
  legs: ({ equipment, folder, path, rounds, signal }) => {
    const target = join(folder, 'saved.safetensors');
    const held = String(Math.round(statSync(path).size * HELD_PER_BYTE));
    const hold = { file: join(equipment.programs, 'limits'), args: ['hold', held] };
    const run = (command) => runWriter(command, hold, path, target, signal);
    return { save: { contenders: WRITERS, args: [target], cache: 'warm', rounds, run } };
  },
  values: ({ save }, { path }) => {
    const { size } = statSync(path);
    const extra = [SAVE, SAVE_DURABLE, COPY, COPY_DURABLE].map((one) =>
      max(save.every(one, 'extraMemory')),
    );
    return { size: formatByteSize(size), bytesPerSecond: size * 1e3, extra: Math.max(...extra) };
  },
  page: `
    ## Saving {size} to a new file
    | writer | time = elapsed | per second = $bytesPerSecond / elapsed MB | extra memory = max(extraMemory) +MB |
    - {reasons}
    - extra memory is the highest VmHWM of any round above what was resident before; what torch maps is part of it
    - fsync included costs {= durable.elapsed / saved.elapsed ×} the time here
    > saving from memory, durable: false: faster than save_file of the reference | at least 1 × | theirs.elapsed / saved.elapsed
    > saving from an open file, durable: false, against a bare copy_file_range | at most 1.1 × | copied.elapsed / bare.elapsed
    > saving: extra memory | at most 64 MB | $extra`,
};
