/** The bundle as a module of a `vm` context, with other globals than Node's own modules have. */
import { expect, test } from 'vitest';
import { measureInChild } from '../support/run-child.js';

test('everything works in a vm context, with values of both realms', async () => {
  const options = { flags: ['--experimental-vm-modules'] };
  const failures = await measureInChild('package/children/vm-context.mjs', [], options);
  expect(failures).toEqual({});
});
