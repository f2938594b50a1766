/** Calls the command line in this process, as a terminal or as a pipe. */
import type { CommandContext } from '../../src/cli/commands/command.js';
import type { Output } from '../../src/cli/output/output.js';
import { run } from '../../src/cli/run.js';

/** Where the output goes: a terminal of so many columns, with colours or without; a pipe unless given. */
export interface Terminal {
  readonly columns: number;
  readonly hasColors?: boolean;
}

/** The result of a call. */
export interface Called {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Bytes that are not text, on the standard output, if any. */
  readonly bytes?: Buffer;
}

class Collected implements Output {
  text = '';
  readonly isTerminal: boolean;
  readonly columns: number | null;
  readonly hasColors: boolean;

  constructor(terminal: Terminal | undefined) {
    this.isTerminal = terminal !== undefined;
    this.columns = terminal?.columns ?? null;
    this.hasColors = terminal?.hasColors === true;
  }

  write(text: string): void {
    this.text += text;
  }
}

/** Runs `safetensors-mmap` with these arguments. */
export async function call(
  args: readonly string[],
  terminal?: Terminal,
  signal: AbortSignal = new AbortController().signal,
): Promise<Called> {
  const stdout = new Collected(terminal);
  const stderr = new Collected(terminal);
  const pieces: Uint8Array[] = [];
  const writeBytes = async (bytes: Uint8Array): Promise<void> => void pieces.push(bytes.slice());
  const context: CommandContext = { stdout, stderr, writeBytes, signal };
  const code = await run(args, context);
  const texts = { code, stdout: stdout.text, stderr: stderr.text };
  return pieces.length === 0 ? texts : { ...texts, bytes: Buffer.concat(pieces) };
}

/** The output of a call, which must succeed. */
export async function printed(args: readonly string[], terminal?: Terminal): Promise<string> {
  const { code, stdout, stderr } = await call(args, terminal);
  if (code !== 0 || stderr !== '') throw new Error(`exit code ${code}: ${stderr}`);
  return stdout;
}

/** Path of a golden file: the reviewed output of a call. */
export function golden(name: string): string {
  return `../../fixtures/cli/${name}.txt`;
}

/** The arguments for the target of a command that writes: an option of `join`, which takes any number of sources. */
export function toTarget(command: string, target: string): string[] {
  return command === 'join' ? ['-o', target] : [target];
}
