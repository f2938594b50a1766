/** Options of the command line have the names of the functions' options; its errors name command-line options. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { COMMANDS } from '../../../src/cli/command-table.js';
import { flagOf, messageFor, WORDED } from '../../../src/cli/commands/advice.js';
import { foreignChoices, formatRoot } from '../../../src/cli/commands/foreign-options.js';
import { convert, download, editMetadata } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { call } from '../call.js';

const TORCH = join(root, 'test/fixtures/torch');

/** `--filter` takes a glob, `names` a list; no function takes several sources, as `--duplicates` is for. */
const OWN = ['filter', 'exclude', 'duplicates', 'force', 'output'];
/** Functions that read this machine take a revision in the id, as `hf://org/name@revision`. */
const OWN_OF_LOCAL = [...OWN, 'revision'];

/** The options of a function, from its error for an unknown one. */
async function optionsOf(call: (options: object) => Promise<unknown>): Promise<string[]> {
  const { message } = await call({ 'zzzz zzzz': 1 }).then(
    () => expect.unreachable(),
    (error: Error) => error,
  );
  return (/the options are (.+)$/.exec(message)?.[1] ?? '').split(', ');
}

test.each<[command: string, (options: object) => Promise<unknown>, own: readonly string[]]>([
  ['convert', (options) => convert('x', 'y', options), OWN_OF_LOCAL],
  ['split', (options) => convert('x', 'y', options), OWN_OF_LOCAL],
  ['join', (options) => convert('x', 'y', options), OWN_OF_LOCAL],
  ['download', (options) => download('x', 'y', options), OWN],
])('%s has options of its function', async (name, work, own) => {
  const options = Object.keys(COMMANDS[name]?.options ?? {}).filter((one) => !own.includes(one));
  expect(options.length).toBeGreaterThan(2);
  expect((await optionsOf(work)).map(flagOf)).toEqual(expect.arrayContaining(options));
});

test('metadata overwrites in place as editMetadata does', async () => {
  const known = await optionsOf((options) => editMetadata('x', {}, options));
  expect(known.map(flagOf)).toContain('in-place');
  expect(Object.keys(COMMANDS['metadata']?.options ?? {})).toContain('in-place');
});

/** An error of the library with advice that is a part of its message. */
function errorWith(message: string, facts: object): Error {
  return Object.assign(new Error(message), facts);
}

it.each<[string, object, shown: string]>([
  [
    'maxShardSize must be a number',
    { argument: 'maxShardSize' },
    '--max-shard-size must be a number',
  ],
  [
    'names left out every tensor',
    { argument: 'names' },
    '--filter and --exclude left out every tensor',
  ],
  ['source must be an address', { argument: 'source' }, 'source must be an address'],
  ['root must be: found none', {}, 'root must be: found none'],
  [
    'nothing was run; with x they stay',
    { advice: [{ option: 'unknownGlobals', text: 'with x they stay' }] },
    'nothing was run; --unknown-globals placeholder reads the tensors without them',
  ],
  ['wait, or pass y', { advice: [{ option: 'lockTimeout', text: 'or pass y' }] }, 'wait'],
  ['use x; pass y', { advice: [{ option: 'storage', text: 'pass y' }] }, 'use x'],
  ['call y', { advice: [{ option: 'open', value: 'a/b', text: 'call y' }] }, '"a/b"'],
  [
    'pass y to x, which z opens',
    {
      advice: [
        { option: 'token', text: 'pass y' },
        { option: 'safeOpen', text: 'which z opens' },
      ],
    },
    'set HF_TOKEN to x',
  ],
])('%s', (message, facts, shown) => {
  const { options = {} } = COMMANDS['convert'] ?? {};
  expect(messageFor(options, errorWith(message, facts))).toBe(shown);
});

it.each<[string[], RegExp]>([
  [['convert', 'zip-namespace.pt', 'OUT'], /; --unknown-globals placeholder reads/],
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

it.each([
  ['convert', /blocks of gguf-q4_k: pass --dequantize F16, BF16 or F32/],
  ['split', /blocks of gguf-q4_k: pass --dequantize F16, BF16 or F32/],
])('%s of GGUF names the flag that writes its blocks as numbers', async (command, message) => {
  const source = join(root, 'test/fixtures/gguf/q4_k/model.gguf');
  const { code, stderr } = await call([command, source, temporaryPath('out.safetensors')]);
  expect(code).toBeGreaterThan(0);
  expect(stderr).toMatch(message);
});

test('the command line has words for every advice of the library, and no others', () => {
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.startsWith('cli'))
    .map((path) => readFileSync(join(root, 'src', path), 'utf8'));
  const named = sources.flatMap((text) =>
    [...text.matchAll(/: Advice = \{\s+option: '(\w+)'/g)].map(([, option]) => option),
  );
  expect(new Set(named)).toEqual(WORDED);
});

/** Calls of every command that opens a file, over files that torch would not open as they are. */
const OPENING = [
  'inspect SOURCE',
  'show SOURCE a',
  'diff SOURCE SOURCE',
  'verify SOURCE',
  'hash SOURCE',
  'header SOURCE',
  'scan SOURCE',
  'metadata get SOURCE',
  'convert SOURCE OUT',
  'split SOURCE OUT',
  'join SOURCE -o OUT',
];
const SOURCES = ['zip-namespace.pt', 'zip-two-roots.pth', 'np-bf16-void.npy'];

describe.each(OPENING)('%s', (line) => {
  it.each(SOURCES)('of %s speaks of the command line', async (source) => {
    const words: Readonly<Record<string, string>> = {
      SOURCE: join(TORCH, source),
      OUT: temporaryPath('out.safetensors'),
    };
    const { stdout, stderr } = await call(line.split(' ').map((word) => words[word] ?? word));
    const said = (stdout + stderr).replaceAll(TORCH, '');
    expect(said).not.toMatch(/safetensors-mmap\/|\w\(\)|\b(?:unknownGlobals|voidDtype|limits)\b/);
    expect(said).not.toMatch(/\b(?!names\b)[a-z]+: '|as root\b/);
  });
});

it.each([
  ['inspect zip-two-roots.pth --root ema', /^tensors {5}1$/m],
  ['show zip-two-roots.pth w --root ema', /^w {2}F32/],
  ['diff zip-two-roots.pth zip-two-roots.pth --root ema', /^no difference; 1 tensor$/m],
  ['verify zip-two-roots.pth --root ema', /^no problems/],
  ['verify zip-namespace.pt --unknown-globals placeholder', /^no problems/],
])('%s opens it', async (line, shown) => {
  const args = line.split(' ').map((word) => (/\.pth?$/.test(word) ? join(TORCH, word) : word));
  const { code, stdout, stderr } = await call(args);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(shown);
});

it.each(['inspect', 'verify', 'convert'])('%s refuses options of another format', async (name) => {
  for (const [option, value, source, found] of [
    ['--void-dtype', 'BF16', 'zip-state-dict.pt', 'a torch file'],
    ['--root', 'a', 'np-f4.npy', 'a NumPy file'],
    ['--unknown-globals', 'placeholder', 'np-f4.npy', 'a NumPy file'],
  ] as const) {
    const targets = name === 'convert' ? [temporaryPath('out.safetensors')] : [];
    const { code, stderr } = await call([name, join(TORCH, source), ...targets, option, value]);
    expect(code).toBeGreaterThan(0);
    expect(stderr).toContain(`${option} must be left out for ${found}`);
  }
});

it.each([
  ['root', ['a.b'], '["a.b"]'],
  ['root', ['1'], '1'],
  ['root', [1], '[1]'],
  ['root', ['model', 'ema'], 'model.ema'],
] as const)('--%s %j is written as %s', (_, keys, text) => {
  expect(formatRoot(keys)).toBe(text);
  expect(foreignChoices({ root: text }).root).toEqual(text.startsWith('[') ? keys : text);
});
