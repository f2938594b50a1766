import { expect, it } from 'vitest';
import { Credentials } from '../../src/remote/credentials.js';
import { measured } from '../support/processor-cost.mjs';

it.each([
  ['http://', 'http://'],
  ['hf_pass"… (', '"… ('],
])('messages lose secrets in a time that grows with %s', (text, shown) => {
  const credentials = new Credentials(new URL('https://huggingface.co'), { token: 'hf_passed' });
  const cost = measured(() => credentials.redact(text.repeat(300_000)));
  expect(cost.result === shown.repeat(300_000)).toBe(true);
  // Looking from each of them to the end takes minutes.
  expect(cost.milliseconds).toBeLessThan(5000);
});
