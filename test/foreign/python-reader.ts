/** A Python process that reads PyTorch and NumPy files, and describes their contents. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type Python, pythonCommand } from '../support/python.js';

/** A tensor: name, dtype of safetensors, shape, SHA-256 of its bytes; null when Python is not sure of them. */
export type TensorFact = readonly [
  name: string,
  dtype: string,
  shape: readonly number[],
  sha256: string | null,
];

/** Python's description of a file, or the reason why it refused the file. */
export type PythonAnswer<Found> =
  | { readonly found: Found; readonly error?: undefined }
  | { readonly error: string; readonly found?: undefined };

/** The error of a file that ended the process. */
export const CRASH = 'the process ended';

/** A file, and which of Python's readers is asked. */
export interface Question {
  readonly reader: string;
  readonly path: string;
}

const READERS = fileURLToPath(new URL('read_foreign.py', import.meta.url));

/** Answers question after question; a new process takes the place of one that a file has crashed. */
export class PythonReader {
  readonly #python: Python;
  readonly #script: string;
  #child: ChildProcessByStdio<Writable, Readable, null> | undefined;
  #lines: AsyncIterator<string> | undefined;

  /** Starts nothing yet. Another script has readers of its own. */
  constructor(python: Python, script: string = READERS) {
    this.#python = python;
    this.#script = script;
  }

  async answer<Found>(questions: readonly Question[]): Promise<PythonAnswer<Found>[]> {
    const answers: PythonAnswer<Found>[] = [];
    while (answers.length < questions.length) {
      const child = this.#start();
      const asked = questions.slice(answers.length);
      child.stdin.write(asked.map(({ reader, path }) => `${reader}\t${path}\n`).join(''));
      while (answers.length < questions.length) {
        const { value, done } = (await this.#lines?.next()) ?? { value: undefined, done: true };
        if (done === true || value === undefined) {
          answers.push({ error: CRASH });
          this.#child = undefined;
          break;
        }
        answers.push(JSON.parse(value) as PythonAnswer<Found>);
      }
    }
    return answers;
  }

  async close(): Promise<void> {
    if (this.#child === undefined) return;
    const closed = once(this.#child, 'close');
    this.#child.stdin.end();
    await closed;
  }

  #start(): ChildProcessByStdio<Writable, Readable, null> {
    if (this.#child !== undefined) return this.#child;
    const { executable, args, env } = pythonCommand(this.#python, [this.#script]);
    const child = spawn(executable, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    // Lines that a dead process was to read are asked again.
    child.stdin.on('error', () => {});
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.#child = child;
    return child;
  }
}
