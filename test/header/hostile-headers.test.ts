/** Hostile headers in short; `hostile-headers.measured.test.ts` measures what long ones cost. */
import { expect, test } from 'vitest';
import { parseHeader } from '../../src/header/header.js';
import { hashString } from '../../src/header/json/key-hash.js';
import { JsonReader } from '../../src/header/json/reader.js';
import { thrownBy } from './header-files.js';
import { ATTACKS, type Hasher, OUTCOMES } from './hostile-headers.mjs';

const BYTE_LENGTH = 200_000;

const hasher: Hasher = (quoted) => {
  const reader = new JsonReader(quoted);
  return () => {
    reader.at = 0;
    return hashString(reader, reader.readString(), [0, 0]);
  };
};

test('every attack has an outcome', () => {
  expect(Object.keys(OUTCOMES)).toEqual(Object.keys(ATTACKS));
});

test.each(Object.entries(ATTACKS))('%s', (attack, build) => {
  const { json, dataByteLength } = build(BYTE_LENGTH, hasher);
  const read = () => parseHeader(json, 8 + json.length + dataByteLength);
  const outcome = OUTCOMES[attack];
  if (outcome?.endsWith(' tensors')) {
    const { __metadata__: metadata, ...tensors } = JSON.parse(new TextDecoder().decode(json));
    const header = read();
    expect(header.size).toBe(Object.keys(tensors).length);
    expect(header.sortedNames()).toEqual(Object.keys(tensors).sort());
    expect(header.metadata).toEqual(
      metadata === undefined ? null : new Map(Object.entries(metadata)),
    );
  } else {
    expect(thrownBy(read)).toMatchObject({ code: outcome });
  }
});
