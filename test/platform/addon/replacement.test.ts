/** The addon's locks and its exchange of names, called directly. */
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { type Addon, loadAddon } from '../../../src/platform/addon/load.js';
import { temporaryPath } from '../../support/make-file.js';

const load = loadAddon();

describe.runIf('addon' in load && process.platform === 'linux')('the addon', () => {
  const { addon } = load as { addon: Addon };

  test('lockFile locks for a descriptor', () => {
    writeFileSync(temporaryPath('file'), '');
    const [first, second] = [0, 1].map(() => openSync(temporaryPath('file'), 'r')) as [
      number,
      number,
    ];
    addon.lockFile(first);
    addon.lockFile(first);
    const taken = expect.objectContaining({ code: 'EAGAIN', syscall: 'flock' });
    expect(() => addon.lockFile(second)).toThrow(taken);
    closeSync(first);
    addon.lockFile(second);
    closeSync(second);
    expect(() => addon.lockFile(second)).toThrow(expect.objectContaining({ code: 'EBADF' }));
    expect(() => addon.lockFile(-1)).toThrow('a file descriptor');
  });

  test('exchangeFiles exchanges two names', () => {
    const [one, two] = [temporaryPath('one'), temporaryPath('zwö')];
    writeFileSync(one, '1');
    writeFileSync(two, '2');
    addon.exchangeFiles(Buffer.from(one), Buffer.from(two));
    expect([readFileSync(one, 'utf8'), readFileSync(two, 'utf8')]).toEqual(['2', '1']);
    const missing = Buffer.from(temporaryPath('missing'));
    const error = { code: 'ENOENT', syscall: 'renameat2' };
    expect(() => addon.exchangeFiles(missing, Buffer.from(two))).toThrow(
      expect.objectContaining(error),
    );
  });

  test.each([
    ['empty', Buffer.alloc(0)],
    ['too long', Buffer.alloc(4096, 'x')],
    ['with a zero byte', Buffer.from('a\0b')],
    ['no bytes', 'a' as never],
  ])('exchangeFiles refuses paths that are %s', (_, path) => {
    expect(() => addon.exchangeFiles(path, Buffer.from('b'))).toThrow('a path in bytes');
    expect(() => addon.exchangeFiles(Buffer.from('b'), path)).toThrow('a path in bytes');
  });
});
