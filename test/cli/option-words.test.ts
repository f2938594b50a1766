/** Options of the command line have the names of the functions' options; its errors name command-line options. */
import { join } from 'node:path';
import { expect, it, test } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.js';
import { functionOptionOf, inOptionsOf } from '../../src/cli/option-words.js';
import { convert } from '../../src/convert.js';
import { editMetadata, reshard } from '../../src/index.js';
import { download } from '../../src/remote.js';
import { temporaryPath } from '../support/make-file.js';
import { root } from '../support/source-tree.js';
import { call } from './call.js';

const TORCH = join(root, 'test/fixtures/torch');

/** `--filter` takes a glob, `names` a list. */
const GLOBS = ['filter', 'exclude'];

/** The options of a function, from its error for an unknown one. */
async function optionsOf(call: (options: object) => Promise<unknown>): Promise<string[]> {
  const { message } = await call({ 'zzzz zzzz': 1 }).then(
    () => expect.unreachable(),
    (error: Error) => error,
  );
  return (/the options are (.+)$/.exec(message)?.[1] ?? '').split(', ');
}

test.each<[command: string, (options: object) => Promise<unknown>]>([
  ['convert', (options) => convert('x', 'y', options)],
  ['split', (options) => reshard('x', 'y', options)],
  ['merge', (options) => reshard('x', 'y', options)],
  ['download', (options) => download('x', 'y', options)],
])('%s has options of its function', async (name, work) => {
  const options = Object.keys(COMMANDS[name]?.options ?? {}).filter((one) => !GLOBS.includes(one));
  expect(options.length).toBeGreaterThan(2);
  expect(await optionsOf(work)).toEqual(expect.arrayContaining(options.map(functionOptionOf)));
});

test('metadata overwrites in place as editMetadata does', async () => {
  const known = await optionsOf((options) => editMetadata('x', {}, options));
  expect(known).toContain(functionOptionOf('in-place'));
  expect(Object.keys(COMMANDS['metadata']?.options ?? {})).toContain('in-place');
});

it.each([
  ['maxShardSize must be a number', '--max-shard-size must be a number'],
  ['names left out every tensor', '--filter and --exclude left out every tensor'],
  [
    "a.pt: with unknownGlobals: 'placeholder' they stay",
    'a.pt: with --unknown-globals placeholder they stay',
  ],
  ['pass the keys of one as root, or [] for all', 'pass the keys of one as --root, or [] for all'],
  ['tensor "root must be": found none', 'tensor "root must be": found none'],
])('%s', (message, shown) => {
  expect(inOptionsOf(COMMANDS['convert']?.options ?? {}, message)).toBe(shown);
});

it.each<[string[], RegExp]>([
  [['convert', 'zip-namespace.pt', 'OUT'], /with --unknown-globals placeholder they stay/],
  [['convert', 'zip-two-roots.pth', 'OUT'], /pass the keys of one as --root, or \[\] for all/],
  [['convert', 'zip-state-dict.pt', 'OUT', '--root', '["a", 1.5]'], /--root must be/],
  [
    ['convert', 'zip-state-dict.pt', 'OUT', '--copy-other-files'],
    /--copy-other-files must be left out/,
  ],
  [
    ['convert', 'zip-state-dict.pt', 'OUT', '--max-shard-size', '5 cows'],
    /--max-shard-size must be/,
  ],
])('%j', async ([command = '', source = '', target = '', ...options], message) => {
  const out = target === 'OUT' ? temporaryPath('out.safetensors') : target;
  const { code, stderr } = await call([command, join(TORCH, source), out, ...options]);
  expect(code).toBeGreaterThan(0);
  expect(stderr).toMatch(message);
  expect(stderr).not.toMatch(/unknownGlobals|maxShardSize|copyOtherFiles/);
});
