/** A checkpoint that was cut short is called incomplete, wherever it was cut. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openNumpy } from '../../../src/foreign/numpy/open-numpy.js';
import { nightly } from '../../support/nightly.js';
import { Random } from '../../support/random.js';
import { writeArchive } from '../generated-archive.js';
import { unicode } from '../pickle/pickle-bytes.js';
import { fixturePath } from './fixtures.js';
import { dict, legacyFile, tensor } from './legacy-file.js';
import { refusal } from './rejection.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-incomplete-'));
afterAll(() => rmSync(folder, { recursive: true }));

const path = join(folder, 'cut.pt');

/** The error of opening the first bytes of a file. */
function saidOf(bytes: Buffer, length: number, open = (): unknown => refusal(path)): string {
  writeFileSync(path, bytes.subarray(0, length));
  const { code, message } = open() as { readonly code: string; readonly message: string };
  return `${code} ${message}`;
}

const INCOMPLETE = /^SAFETENSORS_INCOMPLETE_FILE .*cut\.pt: the file is incomplete: /;

/** Bytes from one cut to the next. */
const STEP = nightly(1, 3);

/** The shortest starts from which the kind of a file is known. */
const KNOWN_BYTE_LENGTH = 4;

describe('a file that was cut short is incomplete', () => {
  it.each(['zip-state-dict.pt', 'legacy-state-dict.pt', 'legacy-proto4.pt', 'zip-deflated.pt'])(
    '%s',
    (name) => {
      const bytes = readFileSync(fixturePath(name));
      const wrong: string[] = [];
      for (let length = bytes.length - 1; length >= KNOWN_BYTE_LENGTH; length -= STEP) {
        const said = saidOf(bytes, length);
        if (!INCOMPLETE.test(said)) wrong.push(`${length} of ${bytes.length} bytes: ${said}`);
      }
      expect(wrong).toEqual([]);
    },
  );

  it('a long stream, in the pickles or behind them', () => {
    const entries = Array.from({ length: 30_000 }, (_, i) => {
      return [unicode(`a name that takes its place, number ${i}`), 'N'] as const;
    });
    const bytes = readFileSync(
      legacyFile(dict(...entries, [unicode('w'), tensor('0', [2])]), { 0: 2 }),
    );
    expect(bytes.length).toBeGreaterThan(2 ** 20);
    for (const length of [2 ** 19, 2 ** 20 + 1, bytes.length - 100, bytes.length - 1]) {
      expect(saidOf(bytes, length)).toMatch(INCOMPLETE);
    }
  });

  it('an archive of NumPy', () => {
    const data = readFileSync(fixturePath('np-f4.npy'));
    const bytes = writeArchive([{ name: 'a.npy', data, isDeflated: false }], new Random(1, 0));
    const open = (): unknown => {
      try {
        openNumpy(path).close();
      } catch (error) {
        return error;
      }
      return expect.unreachable();
    };
    for (const length of [30, 100, bytes.length - 1]) {
      expect(saidOf(bytes, length, open)).toMatch(INCOMPLETE);
    }
  });
});

it('a pickle that ends early within a whole archive is a damaged one', () => {
  const files = [
    { name: 'm/data.pkl', data: Buffer.from('\x80\x02}X', 'latin1'), isDeflated: false },
    { name: 'm/version', data: Buffer.from('3\n'), isDeflated: false },
  ];
  const bytes = writeArchive(files, new Random(1, 0));
  expect(saidOf(bytes, bytes.length)).toMatch(/^SAFETENSORS_INVALID_PICKLE /);
});
