/** Checkpoints of very many tensors, opened and written into fewer files; the model written to a new file. */
import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openCheckpoint } from 'safetensors-mmap';
import { contender, NUMPY, ours, TORCH } from '../contenders.mjs';
import { formatByteSize, formatDuration, formatGrowth, formatRatio } from '../figures.mjs';
import { tableOf } from '../measure.mjs';
import { writeExpertCheckpoint, writeModel } from '../models.mjs';
import { NotMeasuredError, runChild, startChild } from '../processes.mjs';
import { targetsOf } from '../targets.mjs';

/** As of a large mixture of experts; in a try a hundredth. */
export const expertSizes = (size) => ({ tensors: size(92_000, 920), shards: size(163, 5) });

const OURS = 'safetensors-mmap';
const REFERENCE = 'Python json.load, safe_open';
const pair = (method) => [
  ours(OURS, 'work.mjs', method),
  contender(REFERENCE, 'open_checkpoint.py', method, NUMPY),
];
const OPEN = ours(OURS, 'work.mjs', 'open');
const ONE_TENSOR = pair('tensor');
const VERIFY = pair('verify');

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
        contenders: [OPEN, ...ONE_TENSOR, ...VERIFY],
        path: index,
        args: [scales],
        rounds,
        run,
      },
    };
  },
  report: ({ open }, { size }) => {
    const { tensors, shards } = expertSizes(size);
    const [index, one, theirOne, ours, theirs] = [OPEN, ...ONE_TENSOR, ...VERIFY].map((contender) =>
      open.median(contender, 'elapsed'),
    );
    const line = (what, mine, reference) => [
      what,
      formatDuration(mine),
      formatDuration(reference),
      formatRatio(reference / mine),
    ];
    return {
      title: `A checkpoint of ${shards} shards and ${tensors} tensors, opened in a fresh process`,
      rows: [
        ['what', OURS, REFERENCE, 'ratio'],
        line('index only', index, Number.NaN),
        line('index, one tensor of 4 kB', one, theirOne),
        line('every header checked', ours, theirs),
      ],
      notes: [
        ...open.reasons,
        'sparse files: nothing but headers is read, and those are in the page cache',
      ],
      targets: targetsOf(
        { ours, theirs },
        `
        ${shards} shards, ${tensors} tensors, open and verify | at most 80 ms | ours | ${REFERENCE} = theirs
        ${shards} shards, open and verify: faster than Python | at least 3 × | theirs / ours`,
      ),
    };
  },
};

const TARGET_SHARDS = 8;
/** All tensors are as long as the scales of a matrix. */
const SMALL_MATRIX = [64, 64];
const SMALL_BYTES = 4096;

const PLAIN = ours('reshard, durable: false', 'work.mjs', 'reshard');
const PLAIN_COPY = contender('cp', 'work.mjs', 'cp-folder');
const DURABLE = ours('reshard', 'work.mjs', 'reshard-durable');
const DURABLE_COPY = contender('cp and sync', 'work.mjs', 'cp-folder-durable');
/** What each is compared with. */
const COPIES = new Map([
  [PLAIN, PLAIN_COPY],
  [PLAIN_COPY, PLAIN_COPY],
  [DURABLE, DURABLE_COPY],
  [DURABLE_COPY, DURABLE_COPY],
]);

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
    return { reshard: { contenders: [...COPIES.keys()], path: index, args, rounds, run } };
  },
  report: ({ reshard }, { size }) => {
    const { tensors, shards } = expertSizes(size);
    const time = (contender) => reshard.median(contender, 'elapsed');
    const ratio = (contender) => formatRatio(time(contender) / time(COPIES.get(contender)));
    const [plain, cp, durable, synced] = Array.from(COPIES.keys(), time);
    const what = `${tensors} tensors of 4 kB`;
    return {
      title: `${tensors} tensors of 4 kB in ${shards} shards, written into ${TARGET_SHARDS}`,
      rows: tableOf(
        'writer | time | of the copy',
        [...COPIES.keys()],
        reshard.show('elapsed'),
        ratio,
      ),
      notes: [
        ...reshard.reasons,
        'cp copies the shards as they are; all of them are in the page cache',
      ],
      targets: targetsOf(
        { plain, cp, durable, synced },
        `
        ${what}, reshard, durable: false against cp | at most 2 × | plain / cp | ours = plain & cp = cp
        ${what}, reshard against cp and sync | at most 1.5 × | durable / synced | ours = durable & cp and sync = synced`,
      ),
    };
  },
};

const NUMPY_SAVE = 'save_file, Python with numpy';
const SAVE = ours('saveFile, durable: false', 'save.mjs', 'memory');
const SAVE_DURABLE = ours('saveFile', 'save.mjs', 'memory-durable');
const SAVE_FILE = contender(NUMPY_SAVE, 'save.py', 'memory', NUMPY);
const BARE_COPY = contender('limit: copy_file_range, C', 'write_limit', 'copy');
const COPY = ours('open file: saveFile, durable: false', 'save.mjs', 'file');
const COPY_DURABLE = ours('open file: saveFile', 'save.mjs', 'file-durable');

/** All writers in the order of the table; the first six have the tensors in memory. */
const WRITERS = [
  contender('limit: write, C', 'write_limit', 'write'),
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
  prepare: async ({ path }) => ({ byteLength: (await stat(path)).size }),
  legs: ({ equipment, folder, path, rounds, signal }, { byteLength }) => {
    const target = join(folder, 'saved.safetensors');
    const held = String(Math.round(byteLength * HELD_PER_BYTE));
    const hold = { file: join(equipment.programs, 'write_limit'), args: ['hold', held] };
    const run = (command) => runWriter(command, hold, path, target, signal);
    return { save: { contenders: WRITERS, args: [target], cache: 'warm', rounds, run } };
  },
  report: ({ save }, _, { byteLength }) => {
    const time = (contender) => save.median(contender, 'elapsed');
    const extraMemory = (contender) => {
      const grown = save.every(contender, 'extraMemory');
      return grown.length === 0 ? Number.NaN : Math.max(...grown);
    };
    const perSecond = (contender) => formatByteSize((1e3 * byteLength) / time(contender));
    const [saved, theirs, copied, bare] = [SAVE, SAVE_FILE, COPY, BARE_COPY].map(time);
    const extra = Math.max(...[SAVE, SAVE_DURABLE, COPY, COPY_DURABLE].map(extraMemory));
    return {
      title: `Saving ${formatByteSize(byteLength)} to a new file`,
      rows: tableOf(
        'writer | time | per second | extra memory',
        WRITERS,
        save.show('elapsed'),
        perSecond,
        (writer) => formatGrowth(extraMemory(writer)),
      ),
      notes: [
        ...save.reasons,
        'extra memory is the highest VmHWM of any round above what was resident before; what torch maps is part of it',
        `fsync included costs ${(time(SAVE_DURABLE) / time(SAVE)).toFixed(2)} × the time here`,
      ],
      targets: targetsOf(
        { saved, theirs, copied, bare, extra },
        `
        saving from memory, durable: false: faster than save_file of the reference | at least 1 × | theirs / saved
        saving from an open file, durable: false, against a bare copy_file_range | at most 1.1 × | copied / bare
        saving: extra memory | at most 64 MB | extra`,
      ),
    };
  },
};
