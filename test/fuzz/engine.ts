/** Runs a target: makes inputs, keeps those that reach new code, checks each, and minimises finds. */
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setImmediate as yieldNow } from 'node:timers/promises';
import { Random } from '../support/random.js';
import { peakGrowth, within } from './budget.js';
import type { Coverage } from './coverage.js';
import { keep, mendedInputs, signatureOf } from './finds.js';
import { minimise } from './minimise.js';
import type { Asked, Oracle } from './oracle.js';
import type { Corpus, Place, Target } from './target.js';

/** The limits of a run: the first one reached ends it. */
export interface RunOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly inputs: number;
  /** The seeds, and nothing else. */
  readonly isAlone: boolean;
}

/** The result of a run. */
export interface RunResult {
  readonly inputs: number;
  readonly asked: number;
  readonly corpus: number;
  readonly outcomes: ReadonlyMap<string, number>;
  readonly finds: readonly Find[];
}

/** A failure, with the smallest input found for it. */
export interface Find {
  readonly about: string;
  readonly error: Error;
  readonly path: string;
}

/** Questions that Python gets together. */
const ASKED_TOGETHER = 500;

/** A run ends when so many different things were found. */
const MAX_FINDS = 20;

/** A run of so many inputs must reach every result that the target requires. */
const INPUTS_OF_A_RUN = 1000;

/** Finds the newest inputs more often: they are near code that is not reached yet. */
class KeptInputs implements Corpus {
  readonly #inputs: Buffer[];

  constructor(seeds: readonly Buffer[]) {
    this.#inputs = [...seeds];
  }

  get length(): number {
    return this.#inputs.length;
  }

  add(input: Buffer): void {
    this.#inputs.push(input);
  }

  pick(random: Random): Buffer {
    const { length } = this.#inputs;
    const at = random.chance(0.3) ? length - 1 - random.below(Math.ceil(length / 8)) : undefined;
    return this.#inputs[at ?? random.below(length)] as Buffer;
  }
}

/** The input that is checked now, for the parent process, in case this one ends or hangs. */
class BlackBox {
  readonly #descriptor: number | undefined;
  readonly #name: Buffer;
  #count = 0;

  constructor(path: string | undefined, target: string) {
    this.#descriptor = path === undefined ? undefined : openSync(path, 'r+');
    this.#name = Buffer.from(target);
  }

  /** Its count, lengths of both, the name of the target, the input. A count of 0: no input. */
  write(input: Buffer | undefined): void {
    if (this.#descriptor === undefined) return;
    const head = Buffer.alloc(12);
    if (input !== undefined) head.writeUInt32LE(++this.#count >>> 0 || 1);
    head.writeUInt32LE(this.#name.length, 4);
    head.writeUInt32LE(input?.length ?? 0, 8);
    writeSync(
      this.#descriptor,
      Buffer.concat([head, this.#name, input ?? Buffer.alloc(0)]),
      0,
      undefined,
      0,
    );
  }

  close(): void {
    this.write(undefined);
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
  }
}

/** One run of a target. */
export class Run {
  readonly #target: Target;
  readonly #oracle: Oracle | undefined;
  readonly #coverage: Coverage;
  readonly #folder: string;
  readonly #corpus: KeptInputs;
  readonly #box: BlackBox;
  readonly #outcomes = new Map<string, number>();
  readonly #finds = new Map<string, Find>();
  #queue: Asked[] = [];
  #asked = 0;
  #inputs = 0;

  constructor(target: Target, oracle: Oracle | undefined, coverage: Coverage, folder: string) {
    this.#target = target;
    this.#oracle = target.asksPythonOf > 0 && oracle?.missing === undefined ? oracle : undefined;
    this.#coverage = coverage;
    this.#folder = folder;
    this.#corpus = new KeptInputs(target.seeds());
    this.#box = new BlackBox(process.env['SAFETENSORS_FUZZ_BOX'], target.name);
  }

  /** Inputs that once went wrong, and the seeds; then as many others as the options say. */
  async go({ seed, seconds, inputs, isAlone }: RunOptions): Promise<RunResult> {
    const began = performance.now();
    await this.#target.begin?.(this.#placeFor(Buffer.alloc(0), undefined));
    peakGrowth();
    const count = isAlone ? 0 : inputs;
    const mended = isAlone ? [] : mendedInputs(this.#target.name);
    for (const [name, input] of mended) await this.#one(input, name, true);
    for (const [i, input] of this.#target.seeds().entries())
      await this.#one(input, `seed ${i}`, true);
    this.#coverage.takeSeeds();
    for (let number = 0; number < count && this.#finds.size < MAX_FINDS; ) {
      if (performance.now() - began > 1000 * seconds) break;
      // The first inputs reach most of the code: their batches are short.
      const length = Math.min(this.#target.batchLength, count - number, 10 + (number >> 2));
      const batch = Array.from({ length }, (_, i) =>
        this.#target.make(new Random(seed, number + i), this.#corpus),
      );
      peakGrowth();
      for (const [i, input] of batch.entries()) {
        await this.#one(input, `seed ${seed}, input ${number + i}`);
      }
      number += length;
      if (this.#coverage.takeBatch()) await this.#keepNew(batch);
      await yieldNow();
    }
    await this.#flush();
    this.#checkOutcomes();
    await this.#target.end?.();
    this.#box.close();
    return {
      inputs: this.#inputs,
      asked: this.#asked,
      corpus: this.#corpus.length,
      outcomes: this.#outcomes,
      finds: [...this.#finds.values()],
    };
  }

  async #one(input: Buffer, about: string, isAsked = false): Promise<void> {
    this.#inputs++;
    try {
      const isInTurn = this.#inputs % this.#target.asksPythonOf === 0;
      const outcome = await this.#check(input, this.#queue, isAsked || isInTurn);
      this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1);
    } catch (error) {
      await this.#found(input, about, error as Error);
    }
    if (this.#queue.length >= ASKED_TOGETHER) await this.#flush();
  }

  async #check(input: Buffer, queue: Asked[] | undefined, isAsked: boolean): Promise<string> {
    this.#box.write(input);
    const asked: Asked[] = [];
    const outcome = await within(this.#target.budget, () => {
      asked.length = 0;
      return this.#target.check(input, this.#placeFor(input, asked));
    });
    queue?.push(...asked.filter(({ isTelling }) => isAsked || isTelling));
    return outcome;
  }

  /** Of a batch that reached new code: keeps the inputs that did, found by halves. */
  async #keepNew(batch: readonly Buffer[]): Promise<void> {
    for (const input of batch) await this.#check(input, undefined, false).catch(() => {});
    const [first] = batch;
    if (batch.length === 1 && first !== undefined) {
      if (this.#coverage.takeInput()) this.#corpus.add(first);
    } else if (this.#coverage.takePart()) {
      await this.#keepNew(batch.slice(0, batch.length >> 1));
      await this.#keepNew(batch.slice(batch.length >> 1));
    }
  }

  #placeFor(input: Buffer, queue: Asked[] | undefined): Place {
    const path = join(this.#folder, 'input');
    return {
      folder: this.#folder,
      file: (bytes) => {
        writeFileSync(path, bytes);
        return path;
      },
      ask: (reader, judge, isTelling = false) => {
        if (this.#oracle === undefined) return;
        queue?.push({ input, reader, judge: judge as Asked['judge'], isTelling });
      },
    };
  }

  async #flush(): Promise<void> {
    const queue = this.#queue;
    if (this.#oracle === undefined || queue.length === 0) return;
    this.#queue = [];
    this.#asked += queue.length;
    this.#box.write(undefined);
    for (const [{ input }, error] of await this.#oracle.judge(queue)) {
      await this.#found(input, 'with Python', error);
    }
  }

  /** The error of an input when it is alone, its questions answered. */
  async #errorOf(input: Buffer): Promise<Error | undefined> {
    const queue: Asked[] = [];
    try {
      await this.#check(input, queue, true);
      this.#box.write(undefined);
      return (await this.#oracle?.judge(queue))?.[0]?.[1];
    } catch (error) {
      return error as Error;
    }
  }

  async #found(input: Buffer, about: string, error: Error): Promise<void> {
    const signature = signatureOf(error);
    if (this.#finds.has(signature)) return;
    const isSame = async (smaller: Buffer): Promise<boolean> => {
      const other = await this.#errorOf(smaller);
      return other !== undefined && signatureOf(other) === signature;
    };
    const smallest = await minimise(input, this.#target.form, isSame);
    const path = keep(this.#target.name, smallest, signature);
    this.#finds.set(signature, { about, error: (await this.#errorOf(smallest)) ?? error, path });
  }

  #checkOutcomes(): void {
    if (this.#inputs < INPUTS_OF_A_RUN) return;
    for (const outcome of this.#target.outcomes) {
      if (this.#outcomes.has(outcome)) continue;
      const error = new Error(`of ${this.#inputs} inputs came no '${outcome}'`);
      this.#finds.set(error.message, { about: 'all inputs', error, path: '' });
    }
  }
}
