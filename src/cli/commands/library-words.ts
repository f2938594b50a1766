/** Translates messages of the library: `maxShardSize` is `--max-shard-size` here, and some advice is for programs alone. */

import type { CommandOptions } from './command.js';

/** Advice of the library, as the command line gives it. */
interface Advice {
  readonly said: string | RegExp;
  /** Without an option that does the same, and for commands that lack it. */
  readonly elsewhere: string;
  /** The option that does the same, and the advice of commands that have it. */
  readonly here?: readonly [option: string, advice: string];
}

const ADVICE: readonly Advice[] = [
  {
    said: "with unknownGlobals: 'placeholder' they stay in extra() as data",
    here: ['unknown-globals', '--unknown-globals placeholder reads the tensors without them'],
    elsewhere: '`convert --unknown-globals placeholder` reads the tensors without them',
  },
  {
    said: "with unknownGlobals: 'placeholder' its tensors are read as state_dict() lists them",
    here: [
      'unknown-globals',
      '--unknown-globals placeholder reads its tensors as state_dict() lists them',
    ],
    elsewhere:
      '`convert --unknown-globals placeholder` reads its tensors as state_dict() lists them',
  },
  {
    said: 'pass the keys of one as root, or [] for all',
    here: ['root', 'pass the keys of one as --root, or [] for all'],
    elsewhere: '`convert --root` takes the keys of one, or [] for all',
  },
  {
    said: 'pass voidDtype for bfloat16',
    here: ['void-dtype', 'pass --void-dtype for bfloat16'],
    elsewhere: '`convert` has --void-dtype for bfloat16',
  },
  {
    said: 'leave `inPlace` out, or save with `reserve` to leave room',
    elsewhere: 'without --in-place the file is written anew',
  },
  {
    said: 'pass overwrite: true to replace them',
    here: ['force', 'pass --force to replace them'],
    elsewhere: 'choose another target',
  },
  { said: ', or wait longer with `lockTimeout`', elsewhere: '' },
  {
    said: 'the file system cannot sync files: pass { durable: false }',
    elsewhere: 'the file system cannot sync files: write to another one',
  },
  { said: ", or open the file with { storage: 'read' }", elsewhere: '' },
  { said: 'which open() reads by its path', elsewhere: 'which `convert` converts' },
  {
    said: 'but files that open() reads by their paths',
    elsewhere: 'but files that `convert` takes by their paths',
  },
  {
    said: 'open() reads its index',
    elsewhere: '`convert` takes its index',
  },
  {
    said: '; open() reads remote checkpoints, download() fetches files',
    elsewhere: '; `download` fetches remote files',
  },
  { said: ', which safeOpen opens', elsewhere: '' },
  {
    said: 'safeOpen opens local paths, new URL(text, base) completes an address',
    elsewhere: 'an address begins with https:// or hf://',
  },
  { said: ', or an object with byteLength and read', elsewhere: '' },
  {
    said: '; `files` of download takes any files',
    here: ['files', '; --files takes any files'],
    elsewhere: '',
  },
  { said: 'pass a token or headers', elsewhere: 'set HF_TOKEN' },
  { said: 'pass a token', elsewhere: 'set HF_TOKEN' },
  // The calls that open the models of a pipeline.
  {
    said: /(?:safeOpen|open)\(("(?:[^"\\]|\\.)*")(?:, \{ variant: "[^"]*" \})?\)/g,
    elsewhere: '$1',
  },
];

/** All that the library says of its functions, for a test that it still does. */
export const SAID: readonly (string | RegExp)[] = ADVICE.map(({ said }) => said);

/** `copy-other-files` of `copyOtherFiles`. */
export function optionOfFunction(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** `copyOtherFiles` of `copy-other-files`. */
export function functionOptionOf(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * Replaces the functions and options in a message of the library with those of the command: in advice, where the
 * message begins with an option, and where it gives it a value.
 */
export function inWordsOf(command: CommandOptions, message: string): string {
  let text = message;
  for (const { said, here: [option = '', advice = ''] = [], elsewhere } of ADVICE) {
    text = text.replaceAll(said, command[option] === undefined ? elsewhere : advice);
  }
  const words = Object.keys(command).map((name) => [functionOptionOf(name), `--${name}`] as const);
  if (command['filter'] !== undefined) words.push(['names', '--filter and --exclude']);
  for (const [name, shown] of words) {
    text = text
      .replace(RegExp(`^${name}(?= must | left )`), shown)
      .replace(RegExp(`\\b${name}: '([\\w-]+)'`, 'g'), `${shown} $1`);
  }
  return text;
}
