/** No secret of an address is in a message, whichever function it was given to by mistake. */
import { expect, it, test } from 'vitest';
import { withoutQuery, withoutUsers } from '../../src/errors/urls.js';
import * as main from '../../src/index.js';
import { download } from '../support/api.js';

it.each([
  ['https://h.example/a?b=c', 'https://h.example/a'],
  ['"s3://bucket/key#part', '"s3://bucket/key'],
  ['a?b=c', 'a?b=c'],
  [`${'http://'.repeat(10_000)}a`, `${'http://'.repeat(10_000)}a`],
])('%.40s loses its query', (word, shown) => {
  expect(withoutQuery(word)).toBe(shown);
});

test('names and passwords go, other signs stay', () => {
  expect(withoutUsers('from https://me:p@ss@h.example/a@b to hf://org/name@main')).toBe(
    'from https://h.example/a@b to hf://org/name@main',
  );
});

const ADDRESS = 'https://me:hidden@h.example/m.safetensors?signature=hidden#hidden';
const tensors = { a: { dtype: 'U8', shape: [1], data: new Uint8Array(1) } } as const;
const elsewhere = 'no-such-file';

it('convert and open reject the same addresses, without credentials', async () => {
  const [converting, opening] = await Promise.all(
    [main.convert(ADDRESS, elsewhere), main.open(ADDRESS)].map(
      async (call) =>
        await call.then(
          () => expect.unreachable(),
          (reason: Error) => reason,
        ),
    ),
  );
  expect(converting).toEqual(opening);
  expect(converting).toMatchObject({ code: 'SAFETENSORS_UNSAFE_URL' });
  expect(`${converting?.stack} ${JSON.stringify(converting)}`).not.toContain('hidden');
});

it.each<[string, () => unknown]>([
  ['safeOpen', () => main.safeOpen(ADDRESS)],
  ['safeOpen of a URL', () => main.safeOpen(new URL(ADDRESS))],
  ['safeOpenAsync', () => main.safeOpenAsync(ADDRESS)],
  ['loadFile', () => main.loadFile(ADDRESS)],
  ['verify', () => main.verify(ADDRESS)],
  ['saveFile', () => main.saveFile(ADDRESS, tensors)],
  ['saveCheckpoint', () => main.saveCheckpoint(ADDRESS, tensors)],
  ['editMetadata', () => main.editMetadata(ADDRESS, { a: 'b' })],
  ['createWriter', () => main.createWriter(ADDRESS, [])],
  ['open without requests', () => main.open(ADDRESS, { remote: false })],
  ['scanPickle', () => main.scanPickle(ADDRESS)],
  ['convert to', () => main.convert(elsewhere, ADDRESS)],
  ['download to', () => download(ADDRESS, ADDRESS)],
])('%s', async (_, call) => {
  const error = await (async () => call())().then(
    () => expect.unreachable(),
    (reason: Error) => reason,
  );
  expect(error).toMatchObject({ code: 'ERR_INVALID_URL_SCHEME' });
  expect(error.message).toContain('"https://h.example/m.safetensors"');
  expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain('hidden');
});
