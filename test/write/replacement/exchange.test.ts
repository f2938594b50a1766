/** A file replaces one particular file, even if others interfere at the last moment. */
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Addon } from '../../../src/platform/addon/binding.js';
import { identityOf } from '../../../src/platform/io/file-calls.js';
import { replaceCheckedFile } from '../../../src/write/replacement/exchange.js';
import { temporaryPath } from '../../support/make-file.js';

/** What happens right before each exchange, in turn. */
const { before } = vi.hoisted(() => ({ before: [] as (() => void)[] }));

vi.mock(import('../../../src/platform/addon/addon.js'), async (importOriginal) => {
  const { addon: load } = await importOriginal();
  const addon = (): Addon | undefined => {
    const native = load();
    if (native === undefined) return native;
    const exchangeFiles: Addon['exchangeFiles'] = (path, other) => {
      before.shift()?.();
      native.exchangeFiles(path, other);
    };
    return { ...native, exchangeFiles };
  };
  return { addon };
});

let path: string;
let old: string;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
  writeFileSync(path, 'old');
  old = identityOf(statSync(path, { bigint: true }));
});

afterEach(() => {
  before.length = 0;
});

/** Another process puts a file in the place. */
function save(content: string): void {
  writeFileSync(temporaryPath('other'), content);
  renameSync(temporaryPath('other'), path);
}

const isGone = new Error('not the old file');

function replace(letGo = (): void => {}): void {
  writeFileSync(temporaryPath('temporary'), 'new');
  const [temporary, target] = [temporaryPath('temporary'), path].map((each) => Buffer.from(each));
  const check = (at: Buffer): void => {
    const stats = statSync(at, { bigint: true, throwIfNoEntry: false });
    if (stats === undefined || identityOf(stats) !== old) throw isGone;
  };
  replaceCheckedFile(temporary as Buffer, target as Buffer, check, letGo);
}

function expectOnly(content: string): void {
  expect(readFileSync(path, 'utf8')).toBe(content);
  expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
}

const cannot = (): never => {
  throw Object.assign(new Error('EINVAL'), { code: 'EINVAL', errno: -22 });
};

describe.each([
  ['exchanged', undefined],
  ['renamed, where names cannot be exchanged', cannot],
])('%s', (_, hook) => {
  beforeEach(() => {
    if (hook !== undefined) before.push(hook);
  });

  test('the old file is replaced', () => {
    replace();
    expectOnly('new');
  });

  test('a file that was saved before stays', () => {
    save('saved');
    expect(replace).toThrow(isGone);
    expectOnly('saved');
  });

  test('a file that was deleted stays away', () => {
    rmSync(path);
    expect(replace).toThrow(isGone);
    expect(readdirSync(dirname(path))).toEqual([]);
  });
});

describe('what the caller has open of the old file', () => {
  const { platform } = process;
  afterEach(() => {
    Object.defineProperty(process, 'platform', { value: platform });
  });

  test('is closed before a rename on Windows', () => {
    Object.defineProperty(process, 'platform', { value: 'win32' });
    before.push(cannot);
    const found: string[] = [];
    replace(() => found.push(readFileSync(path, 'utf8')));
    expect(found).toEqual(['old']);
    expectOnly('new');
  });

  test('stays open until then, and elsewhere', () => {
    Object.defineProperty(process, 'platform', { value: 'linux' });
    const letGo = vi.fn();
    save('saved');
    expect(() => replace(letGo)).toThrow(isGone);
    old = identityOf(statSync(path, { bigint: true }));
    before.push(cannot);
    replace(letGo);
    expect(letGo).not.toHaveBeenCalled();
  });
});

describe.runIf(process.platform === 'linux')('at the very last moment', () => {
  test('a save is put back', () => {
    before.push(() => save('saved'));
    expect(replace).toThrow(isGone);
    expectOnly('saved');
  });

  test.each([1, 2, 3])(
    'of several saves, of which %i come while it is put back, the last stays',
    (count) => {
      before.push(() => save('saved 0'));
      for (let i = 1; i <= count; i++) before.push(() => save(`saved ${i}`));
      expect(replace).toThrow(isGone);
      expectOnly(`saved ${count}`);
    },
  );

  test('a save is put back by a rename when it cannot be exchanged again', () => {
    before.push(() => save('saved'), cannot);
    expect(replace).toThrow(isGone);
    expectOnly('saved');
  });

  test('a save survives when the place is empty by then', () => {
    before.push(
      () => save('saved'),
      () => rmSync(path),
    );
    expect(replace).toThrow(isGone);
    expectOnly('saved');
  });
});
