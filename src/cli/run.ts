/** Runs a command: from arguments to an exit code. */

import { nearHint } from '../errors/near-names.js';
import { COMMON_OPTIONS, PROGRAM, parseArguments } from './arguments.js';
import { messageFor } from './commands/advice.js';
import {
  type Command,
  type CommandContext,
  CommandError,
  type CommandOptions,
  InterruptedError,
  UsageError,
} from './commands/command.js';
import { folderOfModelsHint } from './commands/folder-of-models.js';
import { commandNamed, loadCommands } from './load-command.js';
import type { Output } from './output/output.js';
import { type Style, styleOf } from './output/style.js';
import { visible, visibleJson } from './output/visible.js';

/** Most characters of an error: the system's errors name paths, and an index may name very long ones. */
const SHOWN_ERROR_LENGTH = 4000;

const EXIT_DONE = 0;
/** Exit code for the answer no, or a bad file. */
const FAILED = 1;
const WRONG_USE = 2;

/** Node's codes for invalid arguments, such as a malformed `hf://` id. */
const ARGUMENT_CODES: readonly unknown[] = [
  'ERR_INVALID_ARG_TYPE',
  'ERR_INVALID_ARG_VALUE',
  'ERR_OUT_OF_RANGE',
  'ERR_INVALID_URL',
  'ERR_INVALID_URL_SCHEME',
  'ERR_INVALID_FILE_URL_HOST',
  'ERR_INVALID_FILE_URL_PATH',
];

/**
 * Runs the command that the arguments name.
 *
 * @returns the exit code; 1 when the signal ended the call
 */
export async function run(args: readonly string[], given: CommandContext): Promise<number> {
  const context = args.includes('--no-color') ? withoutColors(given) : given;
  const [name = ''] = args;
  let command: Command | undefined;
  try {
    command = await commandNamed(name);
    return await dispatch(args, command, context);
  } catch (error) {
    if (context.signal.aborted && !(error instanceof InterruptedError)) return FAILED;
    const hint = await folderOfModelsHint(Object(error), context.signal);
    return report(error, hint, args, command && { name, options: command.options }, context);
  }
}

async function dispatch(
  [name, ...args]: readonly string[],
  command: Command | undefined,
  context: CommandContext,
): Promise<number> {
  const { stdout } = context;
  const topic = name === 'help' ? args.find((arg) => !arg.startsWith('-')) : undefined;
  if (topic !== undefined) {
    return await dispatch([topic, '--help'], await commandNamed(topic), context);
  }
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    const { programHelp } = await import('./help.js');
    const { hasColors, columns } = name === undefined ? context.stderr : stdout;
    const lines = programHelp(await loadCommands(), styleOf(hasColors), columns);
    (name === undefined ? context.stderr : stdout).write(`${lines.join('\n')}\n`);
    return name === undefined ? WRONG_USE : EXIT_DONE;
  }
  if (command === undefined) throw unknownCommand(name, Object.keys(await loadCommands()));
  const { positionals, options } = parseArguments(args, command);
  if (options['help'] === true) {
    const { commandHelp } = await import('./help.js');
    const { hasColors, columns } = stdout;
    stdout.write(`${commandHelp(command, styleOf(hasColors), columns).join('\n')}\n`);
    return EXIT_DONE;
  }
  return (await command.run(context, positionals, options)) === 'done' ? EXIT_DONE : FAILED;
}

function unknownCommand(name: string, names: readonly string[]): UsageError {
  const isOption = name.startsWith('-');
  const known = isOption ? [...Object.keys(COMMON_OPTIONS), 'version'] : names;
  const what = isOption ? 'the command comes first' : 'unknown command';
  const bare = name.replace(/^-+/, '');
  const hint = known.includes(bare) ? '' : nearHint(bare, known, isOption ? '--' : '');
  return new UsageError(`${what}: ${JSON.stringify(name)}${hint}`);
}

function withoutColors(context: CommandContext): CommandContext {
  const plain = (output: Output): Output => {
    const { isTerminal, columns } = output;
    return { write: (text) => output.write(text), isTerminal, columns, hasColors: false };
  };
  return { ...context, stdout: plain(context.stdout), stderr: plain(context.stderr) };
}

/** A message in one line; several problems get a line each. */
export function oneLine(message: string): string {
  return message.replace(':\n- ', ': ').replaceAll('\n- ', '; ');
}

/** An error as `--json` prints it. */
interface ErrorResult {
  /** The code of the library, of Node or of the command line; null for a bug. */
  readonly code: string | null;
  readonly message: string;
  readonly path?: string;
  readonly tensor?: string;
  /** With `--verbose`. */
  readonly stack?: readonly string[];
}

/** The command that failed. */
interface CalledCommand {
  readonly name: string;
  readonly options: CommandOptions;
}

/** Reports an error and a hint on stderr, in one line of text or of JSON. Returns the exit code. */
function report(
  error: unknown,
  hint: string,
  args: readonly string[],
  command: CalledCommand | undefined,
  { stderr }: CommandContext,
): number {
  const { code, path, tensor, stack } = Object(error) as Record<string, unknown>;
  const isUsage = error instanceof UsageError;
  const result: ErrorResult = {
    code: typeof code === 'string' ? code : null,
    message: messageOf(error, command?.options) + hint,
    ...(typeof path === 'string' ? { path } : {}),
    ...(typeof tensor === 'string' ? { tensor } : {}),
    ...(args.includes('--verbose') && !isUsage ? { stack: linesOf(stack) } : {}),
  };
  if (args.includes('--json')) stderr.write(`${visibleJson(JSON.stringify(result))}\n`);
  else stderr.write(errorText(result, error, command, styleOf(stderr.hasColors)));
  return isUsage || ARGUMENT_CODES.includes(code) ? WRONG_USE : FAILED;
}

/** The calls of a stack. */
function linesOf(stack: unknown): string[] {
  return String(stack).split('\n').slice(1);
}

/** The message in the words of the command. */
function messageOf(error: unknown, options: CommandOptions = {}): string {
  const line = oneLine(messageFor(options, error));
  return error instanceof UsageError ? line : line + adviceOn(error, options);
}

function errorText(
  { code, message, stack = [] }: ErrorResult,
  error: unknown,
  command: CalledCommand | undefined,
  style: Style,
): string {
  // Node's own messages begin with their code.
  const isNamed = code === null || error instanceof CommandError || message.startsWith(code);
  const text = isNamed ? message : `${code}: ${message}`;
  const hint = error instanceof UsageError ? ` (${PROGRAM} ${usageOf(command)} for details)` : '';
  const lines = [visible(text + hint, SHOWN_ERROR_LENGTH), ...stack.map((line) => visible(line))];
  return `${style.error(`${PROGRAM}:`)} ${lines.join('\n')}\n`;
}

/** Codes of errors that concern one tensor of a source, which can be left out. */
const TENSOR_CODES: ReadonlySet<unknown> = new Set([
  'SAFETENSORS_UNSUPPORTED_TENSOR',
  'SAFETENSORS_QUANTIZATION_UNSUPPORTED',
  'SAFETENSORS_QUANTIZATION_INVALID',
]);

/** Advice after an error: an option of the command. */
function adviceOn(error: unknown, options: CommandOptions): string {
  const { code, syscall, errors } = Object(error) as Record<string, unknown>;
  // A file occupies the place of a folder or of one of its parents.
  if (code === 'ENOTDIR' || (code === 'EEXIST' && syscall === 'mkdir')) {
    return '; expected a folder there, found a file';
  }
  const isLeavable = [error, errors].flat().some((one) => {
    const { code, tensor } = Object(one) as Record<string, unknown>;
    return tensor !== undefined && TENSOR_CODES.has(code);
  });
  return isLeavable && options['exclude'] !== undefined
    ? '; leave such tensors out: --exclude GLOB, several times for several patterns'
    : '';
}

function usageOf(command: CalledCommand | undefined): string {
  return command === undefined ? '--help' : `${command.name} --help`;
}
