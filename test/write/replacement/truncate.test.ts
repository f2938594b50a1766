/** A temporary file that is cut short. */
import { fstatSync, writeSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Replacement } from '../../../src/write/replacement/replacement.js';
import { temporaryPath } from '../../support/make-file.js';

test('an error of cutting short names the target', async () => {
  const options = { byteLength: 0, durable: false };
  const replacement = await Replacement.open(temporaryPath('file'), 'label', options);
  writeSync(replacement.fd, 'new', 0);
  replacement.truncate(1);
  expect(fstatSync(replacement.fd).size).toBe(1);
  replacement.discard();
  expect(() => replacement.truncate(0)).toThrow(
    expect.objectContaining({ code: 'EBADF', path: 'label' }),
  );
});
