/** What keeps a new file from taking its place at the last moment. */
import { fstatSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { Replacement } from '../../src/replacement/replacement.js';
import { temporaryPath } from '../support/make-file.js';

// Looks like an error of the system, but is the caller's.
const reason = Object.assign(new Error('enough'), { code: 'ECONNRESET', errno: -104 });

let path: string;
let replacement: Replacement;

beforeEach(async () => {
  path = temporaryPath('model.safetensors');
  writeFileSync(path, 'old');
  replacement = await Replacement.open(path, 'label', { byteLength: 3, durable: true });
  writeSync(replacement.fd, 'new', 0);
});

function expectOld(): void {
  expect(readFileSync(path, 'utf8')).toBe('old');
  expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
  expect(() => fstatSync(replacement.fd)).toThrow('EBADF');
}

test('an abort, whose reason comes as it is', async () => {
  const controller = new AbortController();
  const committing = replacement.commit(controller.signal);
  controller.abort(reason);
  await expect(committing).rejects.toBe(reason);
  expectOld();
});

test('a check that throws', async () => {
  const check = (): never => {
    throw reason;
  };
  await expect(replacement.commit(undefined, check)).rejects.toBe(reason);
  expectOld();
});

test('of two with a check of what is there only the first takes its place', async () => {
  const second = await Replacement.open(path, 'label', { byteLength: 3, durable: true });
  writeSync(second.fd, 'two', 0);
  const check = (): void => {
    if (readFileSync(path, 'utf8') !== 'old') throw reason;
  };
  const results = await Promise.allSettled(
    [replacement, second].map((each) => each.commit(undefined, check)),
  );
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  const isFirst = results[0]?.status === 'fulfilled';
  expect(readFileSync(path, 'utf8')).toBe(isFirst ? 'new' : 'two');
  expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
});
