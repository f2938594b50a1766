/** Messages of the library with the flags of a command in place of the library's options. */

import { type Advice, adviceOf } from '../../errors/advice.js';
import type { CommandOptions } from './command.js';

/** An option or a function of the library on the command line. */
interface Wording {
  /** The flag that does the same, and the advice of commands that have it. */
  readonly here?: readonly [flag: string, text: string];
  /** The advice of other commands; without it they give none. */
  readonly elsewhere?: string;
}

/** Advice for weights in the target, in errors and in previews. */
export const FORCE_ADVICE = 'pass --force to replace them';

const WORDINGS: Readonly<Record<string, Wording>> = {
  unknownGlobals: {
    here: ['unknown-globals', '--unknown-globals placeholder reads the tensors without them'],
    elsewhere: '`convert --unknown-globals placeholder` reads the tensors without them',
  },
  root: {
    here: ['root', 'pass the keys of one as --root, or [] for all'],
    elsewhere: '`convert --root` takes the keys of one, or [] for all',
  },
  voidDtype: {
    here: ['void-dtype', 'pass --void-dtype'],
    elsewhere: '`convert` has --void-dtype',
  },
  inPlace: { elsewhere: 'without --in-place the file is rewritten' },
  overwrite: {
    here: ['force', FORCE_ADVICE],
    elsewhere: 'choose another target',
  },
  duplicates: { here: ['duplicates', 'pass --duplicates first or --duplicates last'] },
  durable: { elsewhere: 'write to another one' },
  open: { elsewhere: '`convert` takes' },
  download: { elsewhere: '`download` fetches remote files' },
  URL: { elsewhere: 'an address begins with https:// or hf://' },
  against: { here: ['against', 'pass --against hf://org/name'] },
  files: { here: ['files', '--files takes any files'] },
  token: { elsewhere: 'set HF_TOKEN' },
  dequantize: {
    here: ['dequantize', 'pass --dequantize F16, BF16 or F32'],
    elsewhere: '`convert --dequantize BF16` writes a dequantized copy',
  },
  component: { here: ['component', 'pass --component, such as te2'] },
  unmatched: { here: ['unmatched', 'pass --unmatched skip to leave them out'] },
  assume: {},
  config: {},
  normalize: {},
  scales: {},
  nonFinite: {},
  values: { elsewhere: '`verify --values` lists them' },
  lockTimeout: {},
  storage: {},
  safeOpen: {},
  read: {},
};

/** Names of the library's options and functions that advice on the command line has words for. */
export const WORDED: ReadonlySet<string> = new Set(Object.keys(WORDINGS));

/** Functions whose advice is to call them with a source. */
const OPENERS: readonly string[] = ['open', 'safeOpen'];

/** The message of an error, as a command with these options prints it. */
export function messageFor(command: CommandOptions, error: unknown): string {
  const { message, argument } = Object(error) as Record<string, unknown>;
  const text = message === undefined ? String(error) : String(message);
  return advised(command, withFlag(command, text, argument), adviceOf(error));
}

/** A message with the advice in it as a command with these options gives it. */
export function advised(
  command: CommandOptions,
  message: string,
  advice: readonly Advice[] = [],
): string {
  let found = message;
  for (const one of advice) {
    const words = wordsOf(command, one);
    found =
      words === undefined
        ? found.replaceAll(`, ${one.text}`, '').replaceAll(`; ${one.text}`, '')
        : found.replaceAll(one.text, () => words);
  }
  return found;
}

/** Undefined for advice that is only for programs. */
function wordsOf(command: CommandOptions, { option, value }: Advice): string | undefined {
  if (OPENERS.includes(option) && value !== undefined) return JSON.stringify(value);
  const { here: [flag = '', text] = [], elsewhere } = WORDINGS[option] ?? {};
  return command[flag] === undefined ? elsewhere : text;
}

/** Begins a message about an argument with the flag that it comes from. */
function withFlag(command: CommandOptions, message: string, argument: unknown): string {
  if (typeof argument !== 'string' || !message.startsWith(`${argument} `)) return message;
  const rest = message.slice(argument.length);
  // Not the flag `--names` of `convert`, which is another option.
  if (argument === 'names' && command['filter'] !== undefined) {
    return `--filter and --exclude${rest}`;
  }
  // `--names hf` of `convert`.
  const flag = argument === 'naming' ? 'names' : flagOf(argument);
  return command[flag] === undefined ? message : `--${flag}${rest}`;
}

/** The flag of an option: `copy-other-files` of `copyOtherFiles`. */
export function flagOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
