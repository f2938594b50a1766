// Builds the preloaded libraries, and controls the one that fails calls.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { constants } from 'node:os';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** Kinds of calls, in the order of `enum Kind` in judge.h. */
export const KINDS = [
  'open',
  'close',
  'stat',
  'access',
  'read',
  'write',
  'copy_file_range',
  'sendfile',
  'fallocate',
  'ftruncate',
  'fsync',
  'mmap',
  'madvise',
  'mincore',
  'dup',
  'flock',
  'rename',
  'renameat2',
  'link',
  'symlink',
  'unlink',
  'mkdir',
  'rmdir',
  'readdir',
  'realpath',
  'readlink',
  'fchmod',
  'fchown',
  'xattr',
  'statfs',
  'ioctl',
];

const BUILD = fileURLToPath(new URL('../../build/faults/', import.meta.url));

/** Compiles a library to be preloaded, `interposer` or `recorder`, unless that was done before; returns its path. */
export function buildLibrary(name) {
  const [source, ...headers] = [`${name}.c`, 'judge.h', 'preload.h'].map((file) =>
    fileURLToPath(new URL(file, import.meta.url)),
  );
  const hash = createHash('sha256');
  for (const file of [source, ...headers]) hash.update(readFileSync(file));
  const path = `${BUILD}${name}-${hash.digest('hex').slice(0, 16)}.so`;
  if (existsSync(path)) return path;
  mkdirSync(BUILD, { recursive: true });
  // Another process may be compiling it at this moment.
  const temporary = `${path}.${process.pid}`;
  const flags = ['-shared', '-fPIC', '-O2', '-Wall', '-Wextra', '-Werror'];
  execFileSync(process.env.CC ?? 'cc', [...flags, '-o', temporary, source], { stdio: 'inherit' });
  renameSync(temporary, path);
  return path;
}

// `struct Control`.
const IS_ON = 0;
const KIND = 4;
const ORDINAL = 8;
const FAULT = 12;
const IS_LASTING = 16;
const HITS = 20;
const COUNTS = 24;
const ROOT = COUNTS + 64 * 4;
const HIT = ROOT + 512;
const LENGTH = HIT + 512;

/** Results of a call instead of an errno. */
export const SHORT = 'short';

function numberOf(fault) {
  return fault === SHORT ? 0 : constants.errno[fault];
}

/** The file of the library's instructions. */
export class Control {
  #fd;

  /** Makes a new file for calls on paths below `root`, or opens the existing one. */
  constructor(path, root) {
    this.#fd = openSync(path, root === undefined ? 'r+' : 'w+');
    if (root === undefined) return;
    const block = Buffer.alloc(LENGTH);
    block.write(root, ROOT);
    writeSync(this.#fd, block, 0, LENGTH, 0);
  }

  /**
   * From now on calls are counted from zero, and the `ordinal`-th of the kind gets the fault; with `isLasting` all
   * later ones do. Without a kind no call gets it.
   */
  on({ kind, ordinal = 0, fault = 'EIO', isLasting = false } = {}) {
    const block = Buffer.alloc(ROOT);
    block.writeUInt32LE(kind === undefined ? KINDS.length : KINDS.indexOf(kind), KIND);
    block.writeUInt32LE(ordinal, ORDINAL);
    block.writeInt32LE(numberOf(fault), FAULT);
    block.writeUInt32LE(Number(isLasting), IS_LASTING);
    writeSync(this.#fd, block, 0, ROOT, 0);
    this.#write(IS_ON, 1);
  }

  /** Passes all calls on; returns the counts, and the call that got the fault. */
  off() {
    this.#write(IS_ON, 0);
    const block = Buffer.alloc(LENGTH);
    readSync(this.#fd, block, 0, LENGTH, 0);
    const counts = {};
    for (const [i, kind] of KINDS.entries()) {
      const count = block.readUInt32LE(COUNTS + 4 * i);
      if (count > 0) counts[kind] = count;
    }
    const hit = block.subarray(HIT, block.indexOf(0, HIT)).toString();
    return { counts, hits: block.readUInt32LE(HITS), hit };
  }

  /** The pending fault as one text; undefined while all calls are passed on. */
  current() {
    const block = Buffer.alloc(HITS);
    readSync(this.#fd, block, 0, HITS, 0);
    if (block.readUInt32LE(IS_ON) === 0) return undefined;
    const kind = KINDS[block.readUInt32LE(KIND)] ?? 'no call';
    return `errno ${block.readInt32LE(FAULT)} at ${kind} ${block.readUInt32LE(ORDINAL)}`;
  }

  close() {
    closeSync(this.#fd);
  }

  #write(at, value) {
    const word = Buffer.alloc(4);
    word.writeUInt32LE(value);
    writeSync(this.#fd, word, 0, 4, at);
  }
}
