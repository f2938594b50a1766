/** The headers on which this package and the reference disagree: those of a table in docs/internals/design-notes.md. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse, SafetensorsError } from '../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';
import { fileOf } from './header-files.js';

const tensor = (rest: string): string =>
  `{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]${rest}}}`;
const description = tensor('').slice(1, -1);

/** Headers of files with one byte of data, and how the row of the table begins. */
const HEADERS = [
  ['white space before the `{`', ` ${tensor('')}`],
  ["a tensor's name twice", `{${description},${description}}`],
  ['a key of the metadata twice', `{"__metadata__":{"k":"","k":""},${description}}`],
  ['an unknown key of a description twice', tensor(',"x":1,"x":2')],
  ['a description as an array, `["U8",[1],[0,1]]`', '{"t":["U8",[1],[0,1]]}'],
  ['a dtype as an object, `{"U8":null}`', tensor('').replace('"U8"', '{"U8":null}')],
  [
    'a dimension above 2^53 − 1, of an empty tensor',
    `{"e":{"dtype":"U8","shape":[0,9007199254740993],"data_offsets":[0,0]},${description}}`,
  ],
  [
    'a number next to the largest double in an unknown key, `1.7976931348623158e308`',
    tensor(',"x":1.7976931348623158e308'),
  ],
] as const;

const python = findPython('safetensors');

/** The rows of the table: header, the reference's verdict, this package's verdict. */
const rows = readFileSync(new URL('../../docs/internals/design-notes.md', import.meta.url), 'utf8')
  .split('## Differences from the reference')[1]
  ?.split('\n## ')[0]
  ?.split('\n')
  .filter((line) => line.startsWith('| '))
  .slice(2)
  .map((line) => line.slice(2, -2).split(' | '));

/** `'accepted'`, or the code of the error. */
function verdict(header: string): string {
  try {
    parse(fileOf(header, new Uint8Array(1)));
    return 'accepted';
  } catch (error) {
    return error instanceof SafetensorsError ? error.code : String(error);
  }
}

test('the table has these headers and says what this package does', () => {
  expect(rows?.map(([header]) => header)).toEqual(HEADERS.map(([title]) => title));
  for (const [i, [title, header]] of HEADERS.entries()) {
    const said = rows?.[i]?.[2] ?? '';
    const expected = said.startsWith('accepts') ? 'accepted' : /^`(\w+)`/.exec(said)?.[1];
    expect(verdict(header), title).toBe(expected);
  }
  expect(verdict(tensor(',"x":1.7976931348623159e308'))).toBe(
    'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
  );
});

test.skipIf(isSkipped(python))(titleWith(python, 'the reference does what it says'), () => {
  const files = HEADERS.map(([, header]) => fileOf(header, new Uint8Array(1)));
  const program = `
import json, sys, safetensors
def accepts(text):
    try:
        return safetensors.deserialize(bytes.fromhex(text)) is not None
    except safetensors.SafetensorError:
        return False
print(json.dumps([accepts(text) for text in sys.argv[1:]]))`;
  const hex = files.map((bytes) => Buffer.from(bytes).toString('hex'));
  const accepted = JSON.parse(runPython(python, ['-c', program, ...hex]));
  expect(accepted).toEqual(rows?.map(([, does]) => !does?.startsWith('rejects')));
});
