/** Every irregularity is an error of one class; an archive that is read has one reading. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { inspectArchive, readArchive } from '../../../src/foreign/zip/read-archive.js';
import { nightly } from '../../support/nightly.js';
import type { Random } from '../../support/random.js';
import { writeArchive } from '../generated-archive.js';
import { bytesOf, FIXTURES } from '../torch-fixtures.js';
import { filesOf, readerOf } from './archives.js';

/** Files, or the code of the error; anything else fails the test. */
function outcome(bytes: Uint8Array): string | [string, string][] {
  try {
    return filesOf(bytes);
  } catch (error) {
    if (error instanceof FormatError) return error.code;
    throw error;
  }
}

const archives = FIXTURES.filter((fixture) => bytesOf(fixture).readUInt32LE(0) === 0x04034b50);
const named = (id: string): Buffer =>
  bytesOf(FIXTURES.find((fixture) => fixture.id === id) ?? expect.fail(id));

describe('fixtures', () => {
  test.each(archives.filter(({ expect }) => expect === 'tensors'))('$id is read', (fixture) => {
    const bytes = bytesOf(fixture);
    expect(filesOf(bytes).length).toBeGreaterThan(0);
    expect(inspectArchive(readerOf(bytes)).irregularities).toEqual([]);
  });

  /** Only the directory and the headers; the pickle in the archive does not matter. */
  const aboutPickle = ['zip-x-bomb-pkl'];
  const hostile = FIXTURES.filter(
    ({ id, family, expect }) =>
      family === 'hostile-zip' && expect === 'refuse' && !aboutPickle.includes(id),
  );
  test.each(hostile)('$id is refused: $note', (fixture) => {
    expect(outcome(bytesOf(fixture))).toEqual(expect.stringContaining('SAFETENSORS_'));
  });

  test.each([
    ['zip-x-name-0', 'name'],
    ['zip-x-name-latin1', 'name'],
    ['zip-x-dup-storage', 'duplicate-name'],
    ['zip-x-local-name', 'local-header'],
    ['zip-x-flag-encrypted', 'encrypted'],
    ['zip-x-descriptor-wrong', 'descriptor'],
    ['zip-x-method-aes', 'method'],
    ['zip-x-overlap-nested', 'overlap'],
    ['zip-x-eocd-count-high', 'end-record'],
    ['zip-x-two-archives', 'surroundings'],
    ['zip-x-suffix', 'surroundings'],
    ['zip-x-prefix', 'surroundings'],
    ['zip-x-hidden-entry', 'gap'],
    ['zip-x-symlink', 'link'],
    ['zip-x-zip64-short-extra', 'directory'],
    ['zip-x-zip64-eocd-count', 'limit'],
    ['zip-x-magic-7z', 'cut-short'],
  ])('%s shows the irregularity %s', (id, kind) => {
    const { irregularities } = inspectArchive(readerOf(named(id)));
    expect(irregularities.map((found) => found.kind)).toContain(kind);
  });

  test('a file whose attributes call it a folder is irregular: torch reads nothing of it', () => {
    const bytes = Buffer.from(named('zip-rezipped'));
    const entry = bytes.indexOf(Uint8Array.of(0x50, 0x4b, 1, 2));
    bytes[entry + 38] = 0xff;
    const { irregularities } = inspectArchive(readerOf(bytes));
    expect(irregularities.map(({ kind, position }) => [kind, position])).toEqual([
      ['directory', entry],
    ]);
    expect(outcome(bytes)).toBe('SAFETENSORS_INVALID_ARCHIVE');
  });

  test('deflated bytes that are far longer than what they become are irregular', () => {
    const random = { pick: () => 'python', chance: () => false } as unknown as Random;
    const file = { name: 'a', data: Buffer.alloc(1031), isDeflated: false };
    const bytes = writeArchive([file], random);
    const entry = bytes.indexOf(Uint8Array.of(0x50, 0x4b, 1, 2));
    const kinds = (byteLength: number): string[] => {
      for (const at of [8, entry + 10]) bytes.writeUInt16LE(8, at);
      for (const at of [22, entry + 24]) bytes.writeUInt32LE(byteLength, at);
      return inspectArchive(readerOf(bytes)).irregularities.map(({ kind }) => kind);
    };
    expect(kinds(4)).toEqual([]);
    expect(kinds(3)).toEqual(['directory']);
  });

  test('what can be read of an irregular archive is listed beside what is wrong', () => {
    const { entries, irregularities } = inspectArchive(readerOf(named('zip-x-dup-storage')));
    expect(entries.map(({ name }) => name).filter((name) => name.endsWith('/data/0'))).toHaveLength(
      2,
    );
    expect(irregularities).toEqual([
      {
        kind: 'duplicate-name',
        message: expect.any(String),
        position: 355,
        entry: 'archive/data/0',
      },
    ]);
  });
});

describe('small archives', () => {
  const ids = [
    'zip-rezipped',
    'zip-deflated',
    'zip-torch-zip64',
    'zip-rezipped-zip64',
    'zip-parameter-state',
  ];

  test.each(ids)('%s is refused when it is cut short anywhere', (id) => {
    const bytes = named(id);
    for (let length = 0; length < bytes.length; length++) {
      expect(outcome(bytes.subarray(0, length)), `${length}`).toBe('SAFETENSORS_INCOMPLETE_FILE');
    }
  });

  test.each(ids)('%s with any byte changed is refused or gives the same files', (id) => {
    const bytes = Buffer.from(named(id));
    const files = outcome(bytes);
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at] as number;
      for (const changed of [byte ^ 1, byte ^ 0x80, 0, 0xff]) {
        bytes[at] = changed;
        const found = outcome(bytes);
        if (typeof found !== 'string') expect(found, `${changed} at ${at}`).toEqual(files);
      }
      bytes[at] = byte;
    }
  });

  test('any bytes are read or refused', () => {
    const parts = ids.map(named);
    const pieces = fc.array(
      fc.oneof(
        fc.uint8Array({ maxLength: 8 }),
        fc.tuple(fc.constantFrom(...parts), fc.nat(), fc.nat(120)).map(([bytes, at, length]) => {
          const begin = at % bytes.length;
          return new Uint8Array(bytes.subarray(begin, begin + length));
        }),
        fc.constantFrom(...parts).map((bytes) => new Uint8Array(bytes.subarray(-98))),
      ),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(pieces, (chosen) => {
        const bytes = Buffer.concat(chosen);
        outcome(bytes);
        inspectArchive(readerOf(bytes));
      }),
      { numRuns: nightly(2000, 500) },
    );
  });
});

describe('limits', () => {
  test.each([
    [{ maxEntries: 3 }, 'maxEntries'],
    [{ maxDirectoryByteLength: 100 }, 'maxDirectoryByteLength'],
  ])('%j refuses more, and the message names the option', (limits, option) => {
    const read = (): unknown =>
      readArchive(readerOf(named('zip-parameter-state')), { path: 'a.pt' }, limits);
    expect(read).toThrow(FormatError);
    expect(read).toThrow(option);
    expect(read).toThrow('a.pt: ');
  });
});

test('a marker of an end record within the comment is not taken for an end', () => {
  const bytes = readFileSync(new URL('../../fixtures/torch/zip-rezipped.pt', import.meta.url));
  const comment = Buffer.alloc(40);
  comment.write('PK\x05\x06', 4, 'latin1');
  const withComment = Buffer.concat([bytes, comment]);
  withComment.writeUInt16LE(comment.length, bytes.length - 2);
  expect(outcome(withComment)).toBe('SAFETENSORS_INVALID_ARCHIVE');
  comment.fill(0x20);
  withComment.set(comment, bytes.length);
  expect(outcome(withComment)).toEqual(outcome(bytes));
});
