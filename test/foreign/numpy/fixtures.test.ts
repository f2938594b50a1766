/** Every recorded array gives its tensors or is refused; nothing of it runs. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { type OpenNumpyOptions, openNumpy } from '../../../src/foreign/numpy/open-numpy.js';
import { FIXTURES, type Fixture, pathOf } from '../torch-fixtures.js';

const fixtures = FIXTURES.filter(({ family }) => family === 'numpy');

/** The file opens, and its bytes are wrong. */
class Damaged extends Error {}

/** All tensors: name, dtype, shape and hash of the bytes. */
async function contentOf(fixture: Fixture, options: OpenNumpyOptions = {}): Promise<unknown[]> {
  using file = openNumpy(pathOf(fixture), options);
  const { problems } = await file.verify();
  if (problems.length > 0) throw new Damaged(problems[0]?.message);
  return file.keys().map((name) => {
    const { dtype, shape, bytes } = file.getTensor(name);
    return { name, dtype, shape, sha256: createHash('sha256').update(bytes).digest('hex') };
  });
}

function expectedOf({ tensors = [] }: Fixture): unknown[] {
  return tensors
    .map(({ path, dtype, shape, sha256 }) => ({ name: path.join('.'), dtype, shape, sha256 }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

describe.each([{ storage: 'mmap' }, { storage: 'read' }] as const)('%j', (options) => {
  test.each(fixtures.filter((fixture) => fixture.expect === 'tensors'))('$id', async (fixture) => {
    expect(await contentOf(fixture, options)).toEqual(expectedOf(fixture));
  });
});

/** An archive with an array of objects and another one. */
const LEFT_OUT = 'np-x-npz-object';

test('an array of objects in an archive is left out', () => {
  using file = openNumpy(pathOf(fixtures.find(({ id }) => id === LEFT_OUT) as Fixture));
  expect([file.keys(), file.problems.map(({ tensor }) => tensor)]).toEqual([['ok'], ['bad']]);
});

test.each(fixtures.filter(({ expect: outcome, id }) => outcome === 'refuse' && id !== LEFT_OUT))(
  '$id is refused: $error',
  async (fixture) => {
    const isOpened = fixture.error === 'ZIP_CRC_MISMATCH';
    const Rejection = isOpened ? Damaged : FormatError;
    await expect(contentOf(fixture)).rejects.toThrow(Rejection);
    expect(existsSync('PWNED')).toBe(false);
  },
);

test('bfloat16 without its name is refused, and read when the caller knows it', async () => {
  const fixture = fixtures.find(({ id }) => id === 'np-bf16-void') as Fixture;
  await expect(contentOf(fixture)).rejects.toThrow('voidDtype');
  expect(await contentOf(fixture, { voidDtype: 'BF16' })).toEqual(expectedOf(fixture));
  await expect(contentOf(fixture, { voidDtype: 'F8_E5M2' })).rejects.toThrow(FormatError);
});
