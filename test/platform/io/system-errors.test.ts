import { closeSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import { expect, test } from 'vitest';
import { nodeErrno, systemErrorCode } from '../../../src/platform/addon/errno.js';
import { aboutFile, hasCode, systemError } from '../../../src/platform/io/system-errors.js';
import { foreign } from '../../support/other-realm.js';

test('codes, including those that Node has no name for', () => {
  expect(systemErrorCode(-constants.errno.ENOENT)).toBe('ENOENT');
  expect(systemErrorCode(-constants.errno.EDQUOT)).toBe('EDQUOT');
  expect(systemErrorCode(-100_000)).toBe('Unknown system error -100000');
});

test("Node's own number of a code, where it has one", () => {
  const { errno } = systemError('ENOENT', 'open', 'a') as NodeJS.ErrnoException;
  expect(nodeErrno(-constants.errno.ENOENT)).toBe(errno);
  expect(nodeErrno(-constants.errno.EDQUOT)).toBe(-constants.errno.EDQUOT);
});

function caught(action: () => void): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

test('an error names the file that the caller knows', () => {
  const original = caught(() => openSync('/nowhere/temporary', 'r'));
  const expected = { code: 'ENOENT', syscall: 'open', path: 'mine', cause: original };
  expect(aboutFile(original, 'mine')).toMatchObject({
    ...expected,
    errno: -constants.errno.ENOENT,
    message: "ENOENT: no such file or directory, open 'mine'",
  });
  expect(aboutFile(original, 'mine', 'rename')).toMatchObject({ ...expected, syscall: 'rename' });
});

test('other errors stay as they are', () => {
  for (const error of [new Error('x'), 'x', undefined, null, new TypeError('x')]) {
    expect(aboutFile(error, 'mine')).toBe(error);
  }
});

test('an error that Node has no name for gets its code', () => {
  const error = Object.assign(new Error('Unknown system error -122'), {
    errno: -constants.errno.EDQUOT,
    code: 'Unknown system error -122',
    syscall: 'write',
  });
  expect(aboutFile(error, 'mine')).toMatchObject({ code: 'EDQUOT', path: 'mine' });
});

test('an error made here looks like Node’s', () => {
  const made = systemError('EBADF', 'close', 'mine');
  const thrown = caught(() => closeSync(2 ** 31 - 1));
  expect(made).toMatchObject({ ...(thrown as object), path: 'mine' });
  expect(made.message).toBe(`${(thrown as Error).message} 'mine'`);
});

test('hasCode', () => {
  expect(hasCode(systemError('EIO', 'read', 'x'), ['ENOSPC', 'EIO'])).toBe(true);
  expect(hasCode(systemError('EIO', 'read', 'x'), ['ENOSPC'])).toBe(false);
  expect(hasCode({ code: 'EIO' }, ['EIO'])).toBe(false);
});

// Under Jest, all errors of `node:fs` are.
test('errors of another realm', () => {
  const error = foreign("Object.assign(new Error('x'), { errno: -2, code: 'ENOENT' })");
  expect(hasCode(error, ['ENOENT'])).toBe(true);
  expect(aboutFile(error, 'mine', 'open')).toMatchObject({ code: 'ENOENT', path: 'mine' });
});
