/** The program as processes see it. */
import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type Entry, writeSparse, writeTemporary } from '../support/make-file.js';
import { root } from '../support/source-tree.js';
import { printed } from './call.js';
import { LAYERED } from './models.js';

const PROGRAM = join(root, 'lib/cli.js');

const MANY: readonly Entry[] = Array.from({ length: 20_000 }, (_, i) => ({
  name: `model.layers.${i}.weight`,
  dtype: 'U8',
  shape: [1],
}));

function runProgram(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    env: { ...process.env, ...env },
  });
  return { code: status, stdout, stderr };
}

describe('the program', () => {
  it('prints to a pipe what it prints to no terminal, all of it', async () => {
    const path = writeTemporary(MANY);
    const stdout = await printed(['inspect', path]);
    expect(runProgram(['inspect', path])).toEqual({ code: 0, stdout, stderr: '' });
  });

  it('has the exit codes 1 and 2', () => {
    const { code, stdout, stderr } = runProgram(['inspect', `${root}missing.safetensors`]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^safetensors-mmap: ENOENT: .*\n$/);
    expect(runProgram(['inspekt']).code).toBe(2);
  });

  it('ends quietly when nobody reads on', async () => {
    const path = writeTemporary(MANY);
    const child = spawn(process.execPath, [PROGRAM, 'inspect', path, '--all']);
    const code = new Promise((resolve) => child.on('close', resolve));
    const stderr = text(child.stderr);
    child.stdout.once('data', () => child.stdout.destroy());
    expect(await stderr).toBe('');
    expect(await code).toBe(141);
  });
});

describe('convert SOURCE -', () => {
  it('writes the bytes of a file to a pipe', () => {
    const path = writeTemporary(MANY);
    const target = join(dirname(path), 'converted.safetensors');
    expect(runProgram(['convert', path, target]).code).toBe(0);
    const args = [PROGRAM, 'convert', path, '-'];
    const { status, stdout } = spawnSync(process.execPath, args, { maxBuffer: 1 << 26 });
    expect(status).toBe(0);
    expect(Buffer.compare(stdout, readFileSync(target))).toBe(0);
  });

  it('ends quietly when nobody reads on', async () => {
    const path = writeSparse(256 * 2 ** 20);
    const child = spawn(process.execPath, [PROGRAM, 'convert', path, '-']);
    const code = new Promise((resolve) => child.on('close', resolve));
    const stderr = text(child.stderr);
    child.stdout.once('data', () => child.stdout.destroy());
    expect(await stderr).toBe('');
    expect(await code).toBe(141);
  });

  it.skipIf(process.platform === 'win32')('hears SIGINT while nobody reads', async () => {
    const path = writeSparse(256 * 2 ** 20);
    const child = spawn(process.execPath, [PROGRAM, 'convert', path, '-']);
    const code = new Promise((resolve) => child.on('close', resolve));
    child.stdout.once('readable', () => {
      child.kill('SIGINT');
      child.stdout.resume();
    });
    expect(await code).toBe(130);
  });

  it.runIf(process.platform === 'linux')('says that the disk is full', () => {
    const path = writeTemporary(MANY);
    const full = openSync('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, [PROGRAM, 'convert', path, '-'], {
      encoding: 'utf8',
      stdio: ['ignore', full, 'pipe'],
    });
    closeSync(full);
    expect([status, stderr]).toEqual([1, expect.stringMatching(/ENOSPC/)]);
  });
});

/** The first bytes of a file, which may be too long to be read. */
function startOf(path: string): Buffer {
  const fd = openSync(path, 'r');
  const bytes = Buffer.alloc(64);
  readSync(fd, bytes);
  closeSync(fd);
  return bytes;
}

// A process of Windows cannot be sent SIGINT.
describe.skipIf(process.platform === 'win32')('SIGINT', () => {
  it.each([
    ['convert', ['TARGET', '--force']],
    ['metadata set', ['a=b']],
  ])('ends %s, which leaves the old file and no other', async (command, args) => {
    const source = writeSparse(4 * 2 ** 30);
    const target = join(dirname(source), 'target.safetensors');
    writeFileSync(target, 'old');
    const before = readdirSync(dirname(source)).toSorted();
    const changed = command === 'convert' ? target : source;
    const start = startOf(changed);
    const child = spawn(process.execPath, [
      ...[PROGRAM, ...command.split(' '), source],
      ...args.map((arg) => (arg === 'TARGET' ? target : arg)),
    ]);
    const code = new Promise((resolve) => child.on('close', resolve));
    while (child.exitCode === null && readdirSync(dirname(source)).length === before.length) {
      await delay(1);
    }
    child.kill('SIGINT');
    expect(await code).toBe(130);
    expect(readdirSync(dirname(source)).toSorted()).toEqual(before);
    expect(startOf(changed)).toEqual(start);
  });
});

/** util-linux has `script`, which gives a command a terminal. */
const hasScript = process.platform === 'linux' && existsSync('/usr/bin/script');

describe.runIf(hasScript)('on a terminal', () => {
  function onTerminal(columns: number, args: readonly string[], env: NodeJS.ProcessEnv): string {
    const command = `stty cols ${columns}; exec "$NODE" "$PROGRAM" ${args.join(' ')}`;
    const { stdout } = spawnSync('script', ['-qec', command, '/dev/null'], {
      encoding: 'utf8',
      env: {
        // Without the test runner's variables about colours.
        ...{ PATH: process.env['PATH'], TERM: 'xterm-256color' },
        ...{ NODE: process.execPath, PROGRAM },
        ...env,
      },
    });
    return stdout.replaceAll('\r\n', '\n');
  }

  it.each([60, 120])('it has colours and fits %i columns', async (columns) => {
    const path = writeTemporary(LAYERED);
    const text = onTerminal(columns, ['inspect', path], {});
    expect(text).toBe(await printed(['inspect', path], { columns, hasColors: true }));
  });

  it('it shows progress, and SIGINT ends it', async () => {
    const path = writeSparse(6 * 2 ** 30);
    const child = spawn('script', ['-qec', 'exec "$NODE" "$PROGRAM" hash "$FILE"', '/dev/null'], {
      env: {
        ...{ PATH: process.env['PATH'], TERM: 'xterm-256color' },
        ...{ NODE: process.execPath, PROGRAM, FILE: path },
      },
    });
    const code = new Promise((resolve) => child.on('close', resolve));
    let text = '';
    let isInterrupted = false;
    child.stdout.setEncoding('utf8').on('data', (more: string) => {
      text += more;
      if (isInterrupted || !text.includes(' left')) return;
      isInterrupted = true;
      // Ctrl+C, which the terminal turns into SIGINT.
      child.stdin.write('\x03');
    });
    expect(await code).toBe(130);
    expect(text).toMatch(/hashing {2}\S* +\d+\.?\d* [MG]B of 6\.44 GB, \S+ [MG]B\/s, .* left/);
    expect(text).not.toContain('SHA-256');
  });

  it.each([
    ['diff', 'comparing'],
    ['diff --values', 'comparing'],
    ['show', 'reading'],
  ])('%s shows progress, and SIGINT ends it', async (line, label) => {
    const path = writeSparse(6 * 2 ** 30);
    const [command = '', ...options] = line.split(' ');
    const args = command === 'diff' ? [path, path, ...options] : [path, 't', '--stats'];
    const child = spawn(
      'script',
      ['-qec', `exec "$NODE" "$PROGRAM" ${command} ${args.join(' ')}`, '/dev/null'],
      {
        env: { PATH: process.env['PATH'], TERM: 'xterm-256color', NODE: process.execPath, PROGRAM },
      },
    );
    const code = new Promise((resolve) => child.on('close', resolve));
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (more: string) => {
      if (!text.includes(' left') && more.includes(' left')) child.stdin.write('\x03');
      text += more;
    });
    expect(await code).toBe(130);
    expect(text).toMatch(
      new RegExp(`${label} {2}\\S* +\\d+\\.?\\d* [MG]B of 6\\.44 GB, \\S+ [MG]B/s`),
    );
  });

  it('it has no colours with NO_COLOR, nor with TERM=dumb', async () => {
    const path = writeTemporary(LAYERED);
    const plain = await printed(['inspect', path], { columns: 80 });
    expect(onTerminal(80, ['inspect', path], { NO_COLOR: '1' })).toBe(plain);
    expect(onTerminal(80, ['inspect', path], { TERM: 'dumb' })).toBe(plain);
    expect(onTerminal(80, ['inspect', path, '--no-color'], {})).toBe(plain);
  });
});
