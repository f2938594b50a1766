/** An example as a user has it: its folder, with the packed package and what else it depends on installed. */
import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { inject, onTestFinished } from 'vitest';
import { install } from '../support/installed-package.js';
import { root } from '../support/source-tree.js';
import { APPS, DEPENDENCIES } from './setup.js';

/** Node 24, for what only newer versions have. */
export const NODE_24: string = join(DEPENDENCIES, 'node_modules/node-24/bin/node');

/** What a program printed, and its exit code: null where a signal ended it. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a program of an example is started. */
export interface StartOptions {
  readonly node?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** A program that runs, and the lines that it prints. */
export class Running {
  readonly child: ChildProcess;
  /** Its exit code, once it has ended. */
  readonly ended: Promise<number | null>;
  readonly #lines: string[] = [];
  #stderr = '';
  #wake: () => void = () => {};

  constructor(child: ChildProcess) {
    this.child = child;
    onTestFinished(() => void child.kill('SIGKILL'));
    if (child.stdout === null || child.stderr === null) throw new Error('needs pipes');
    createInterface(child.stdout).on('line', (line) => {
      this.#lines.push(line);
      this.#wake();
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      this.#stderr += text;
    });
    this.ended = once(child, 'close').then(([code]) => {
      this.#wake();
      return code as number | null;
    });
  }

  /** The first line that matches, printed before or yet to come; throws when the program ends without it. */
  async line(pattern: RegExp): Promise<RegExpExecArray> {
    for (let i = 0; ; ) {
      for (; i < this.#lines.length; i++) {
        const found = pattern.exec(this.#lines[i] ?? '');
        if (found !== null) return found;
      }
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        throw new Error(`no line ${pattern} in\n${this.#lines.join('\n')}\n${this.#stderr}`);
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Sends a signal and waits for the end. */
  async end(signal: NodeJS.Signals): Promise<Ended> {
    this.child.kill(signal);
    const code = await this.ended;
    return { code, stdout: this.#lines.join('\n'), stderr: this.#stderr };
  }
}

/** The example of a folder of `examples/`, installed for one test. */
export class Example {
  readonly folder: string;

  constructor(name: string) {
    const machine = mkdtempSync(join(APPS, 'example-'));
    onTestFinished(() => rmSync(machine, { recursive: true, force: true }));
    this.folder = install(machine, name, inject('tarball'));
    cpSync(join(root, 'examples', name), this.folder, { recursive: true });
  }

  /** A path in the folder. */
  path(...parts: readonly string[]): string {
    return join(this.folder, ...parts);
  }

  /** Runs a program to its end. */
  run(args: readonly string[], { node = process.execPath, env = {} }: StartOptions = {}): Ended {
    const options = { ...this.#options(env), encoding: 'utf8', maxBuffer: 1 << 26 } as const;
    const { status, error, stdout, stderr } = spawnSync(node, args, options);
    if (error !== undefined) throw error;
    return { code: status, stdout, stderr };
  }

  /** Runs a program to its end and returns its lines; throws unless it succeeded and warned of nothing. */
  lines(args: readonly string[], options?: StartOptions): string[] {
    const { code, stdout, stderr } = this.run(args, options);
    if (code !== 0 || stderr !== '') throw new Error(`exit ${code}\n${stdout}${stderr}`);
    return stdout.trimEnd().split('\n');
  }

  /** Starts a program that goes on. */
  start(
    args: readonly string[],
    { node = process.execPath, env = {} }: StartOptions = {},
  ): Running {
    const stdio = ['ignore', 'pipe', 'pipe'] as const;
    const options: SpawnOptions = { ...this.#options(env), stdio: [...stdio] };
    return new Running(spawn(node, args, options));
  }

  #options(env: NodeJS.ProcessEnv): { cwd: string; env: NodeJS.ProcessEnv } {
    const { PATH } = process.env;
    return { cwd: this.folder, env: { PATH, HOME: this.folder, ...env } };
  }
}

/** A port of this machine that nobody uses. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
