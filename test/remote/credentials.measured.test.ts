import { expect, it } from 'vitest';
import { Credentials } from '../../src/remote/credentials.js';
import { processorMilliseconds } from '../support/processor-time.js';

it.each([
  ['http://', 'http://'],
  ['hf_pass"… (', '"… ('],
])('messages lose secrets in a time that grows with %s', async (text, shown) => {
  const credentials = new Credentials(new URL('https://huggingface.co'), { token: 'hf_passed' });
  const taken = await processorMilliseconds(() => {
    expect(credentials.redact(text.repeat(300_000)) === shown.repeat(300_000)).toBe(true);
  });
  // Looking from each of them to the end takes minutes.
  expect(taken).toBeLessThan(5000);
});
