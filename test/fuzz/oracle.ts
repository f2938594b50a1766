/** Asks Python about inputs, in batches; one process serves a whole run. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PythonAnswer, PythonReader, type Question } from '../foreign/python-reader.js';
import { findPython } from '../support/python.js';

export { CRASH, type PythonAnswer } from '../foreign/python-reader.js';

const SCRIPT = fileURLToPath(new URL('oracle.py', import.meta.url));

/** A question about an input, and the judge of its answer. */
export interface Asked {
  readonly input: Buffer;
  readonly reader: string;
  readonly judge: (answer: PythonAnswer<unknown>) => void;
  /** Whether it is put to Python out of turn. */
  readonly isTelling: boolean;
}

/** Python, if it is there. */
export class Oracle {
  /** The reason for its absence. */
  readonly missing: string | undefined;
  readonly #folder: string;
  readonly #python: PythonReader;

  constructor(folder: string) {
    const python = findPython('torch', 'numpy', 'safetensors', 'ml_dtypes');
    this.missing = python.missing;
    this.#folder = join(folder, 'asked');
    this.#python = new PythonReader(python, SCRIPT);
    mkdirSync(this.#folder);
  }

  /** Inputs judged wrong, each with its judge's error. */
  async judge(asked: readonly Asked[]): Promise<(readonly [Asked, Error])[]> {
    const paths = new Map<Buffer, string>();
    const questions = asked.map(({ input, reader }): Question => {
      const path = paths.get(input) ?? join(this.#folder, `${paths.size}`);
      if (!paths.has(input)) writeFileSync(path, input);
      paths.set(input, path);
      return { reader, path };
    });
    const answers = await this.#python.answer<unknown>(questions);
    return asked.flatMap((one, i) => {
      try {
        one.judge(answers[i] as PythonAnswer<unknown>);
        return [];
      } catch (error) {
        return [[one, error as Error] as const];
      }
    });
  }

  async close(): Promise<void> {
    await this.#python.close();
  }
}
