/** Collects what a watcher reports, and writes versions for it. */
import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { type Checkpoint, type Watcher, type WatchOptions, watch } from '../../support/api.js';
import { type Entry, fileBytes } from '../../support/make-file.js';

/** Errors are reported after 10 times that, replaced shards of an unchanged index after 100 times. */
export const SETTLE = 10;

/** A version whose only tensor `t` has this value. */
export function entryOf(value: number, name = 't'): Entry {
  return { name, dtype: 'U8', shape: [1], bytes: Uint8Array.of(value) };
}

/** Replaces a file in one step. */
export function replace(path: string, content: string | Uint8Array): void {
  writeFileSync(`${path}.new`, content);
  renameSync(`${path}.new`, path);
}

/** Replaces a file by a version. */
export function publish(path: string, value: number): void {
  replace(path, fileBytes([entryOf(value)]));
}

/** The values of all tensors. */
export function valuesOf(checkpoint: Checkpoint): number[] {
  return Array.from(checkpoint, ([, { bytes }]) => bytes[0] as number);
}

/** A watcher and its reports; closed at the end of the test, as are the checkpoints. */
export class Reports {
  readonly watcher: Watcher;
  readonly all: (Checkpoint | Error)[] = [];
  #read = 0;
  #wake = (): void => {};

  constructor(path: string, options: WatchOptions = {}) {
    const report = (error: Error | null, next: Checkpoint | null): void => {
      this.all.push((error ?? next) as Checkpoint | Error);
      this.#wake();
    };
    this.watcher = watch(path, report, { settle: SETTLE, ...options });
    onTestFinished(() => {
      this.watcher.close();
      for (const one of this.all) if (!(one instanceof Error)) one.close();
    });
  }

  async #next(): Promise<Checkpoint | Error> {
    while (this.all.length === this.#read) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.all[this.#read++] as Checkpoint | Error;
  }

  /** The next report, which must be a version. */
  async version(): Promise<Checkpoint> {
    const next = await this.#next();
    if (next instanceof Error) throw next;
    return next;
  }

  /** The next report, which must be an error; its code. */
  async code(): Promise<string> {
    const next = await this.#next();
    expect(next).toBeInstanceOf(Error);
    return (next as NodeJS.ErrnoException).code ?? '';
  }

  /** Waits, and expects no report in that time. */
  async nothing(milliseconds: number): Promise<void> {
    await delay(milliseconds);
    expect(this.all.length).toBe(this.#read);
  }
}
