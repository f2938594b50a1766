/** A disk without room, and a limit on the size of files: known before the first byte is written. */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { temporaryPath } from '../../support/make-file.js';
import { childPath } from '../../support/run-child.js';

const MIB = 2 ** 20;

/** Runs a child after `preparation`, shell commands for which `$1` is its folder. */
function runAfter(
  preparation: string,
  byteLength: number,
  wrapper: string[] = [],
  script = 'write/save/children/full-disk.mjs',
): unknown {
  const folder = temporaryPath('folder');
  mkdirSync(folder);
  const commands = `${preparation} && exec "$2" "$3" "$1" "$4"`;
  const args = [folder, process.execPath, childPath(script), `${byteLength}`];
  const [command = '', ...rest] = [...wrapper, 'sh', '-ec', commands, 'sh', ...args];
  const child = spawnSync(command, rest, { encoding: 'utf8' });
  if (child.status !== 0) throw new Error(`${child.status} ${child.signal} ${child.stderr}`);
  return JSON.parse(child.stdout);
}

function ends(code: string, description: string): unknown {
  const end = (syscall: string): unknown => ({
    code,
    syscall,
    path: 'label',
    message: `${code}: ${description}, ${syscall} 'label'`,
    files: ['model'],
    old: 'old',
  });
  return {
    known: end('fallocate'),
    unknown: end('write'),
  };
}

/** Mounting takes rights that not everybody has. */
const mayMount =
  process.platform === 'linux' &&
  spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

describe.runIf(process.platform === 'linux')('the old file stays, nothing else does', () => {
  test.runIf(mayMount)('on a full disk', () => {
    const found = runAfter('mount -t tmpfs -o size=4m none "$1"', 20 * MIB, ['unshare', '-m']);
    expect(found).toEqual(ends('ENOSPC', 'no space left on device'));
  });

  test('above the limit of the process', () => {
    const found = runAfter('ulimit -f 4096', 20 * MIB);
    expect(found).toEqual(ends('EFBIG', 'file too large'));
  });

  // A stream that was never asked shows that nothing had been written.
  const endsOfSave = (code: string): unknown => {
    const end = { code, isTarget: true, files: ['model'], old: 'old', wasAsked: false };
    return { stream: end, memory: end };
  };

  test.runIf(mayMount)('when saveFile finds a full disk', () => {
    const mount = 'mount -t tmpfs -o size=4m none "$1"';
    const found = runAfter(
      mount,
      20 * MIB,
      ['unshare', '-m'],
      'write/save/children/save-full-disk.mjs',
    );
    expect(found).toEqual(endsOfSave('ENOSPC'));
  });

  test('when saveFile would pass the limit of the process', () => {
    const found = runAfter(
      'ulimit -f 4096',
      20 * MIB,
      [],
      'write/save/children/save-full-disk.mjs',
    );
    expect(found).toEqual(endsOfSave('EFBIG'));
  });

  const shard = expect.stringMatching(/^model-0000[123]-of-00003\.safetensors$/);

  test.runIf(mayMount)('when the last shards find a full disk', () => {
    const mount = 'mount -t tmpfs -o size=4m none "$1"';
    const found = runAfter(
      mount,
      6 * MIB,
      ['unshare', '-m'],
      'write/save/children/full-disk-checkpoint.mjs',
    );
    expect(found).toEqual({ code: 'ENOSPC', path: shard, isSame: true });
  });

  test('when shards would pass the limit of the process', () => {
    const found = runAfter(
      'ulimit -f 4096',
      20 * MIB,
      [],
      'write/save/children/full-disk-checkpoint.mjs',
    );
    expect(found).toEqual({ code: 'EFBIG', path: shard, isSame: true });
  });
});
