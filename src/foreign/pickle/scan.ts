/**
 * Walks over a pickle without building anything of it: which globals it names, and which opcodes no pickler
 * writes. Knows the opcodes of all protocols, also those that the machine refuses.
 */

import { type AllPickleLimits, DEFAULT_PICKLE_LIMITS, type PickleContext } from './limits.js';
import { PickleMemo } from './memo.js';
import * as op from './opcodes.js';
import { PickleReader } from './reader.js';

/** A class or function that a pickle names. */
export interface NamedGlobal {
  readonly module: string;
  readonly name: string;
  /** The byte of the opcode that names it. */
  readonly position: number;
}

/** An opcode that only attackers use. */
export interface OddOpcode {
  readonly name: string;
  readonly position: number;
}

/** What a walk over a pickle found. */
export interface ScannedPickle {
  readonly globals: readonly NamedGlobal[];
  readonly oddOpcodes: readonly OddOpcode[];
  /** Opcodes that were walked over. */
  readonly opcodeCount: number;
  /** The byte after the pickle, or that at which the walk had to end. */
  readonly end: number;
  /** Why the pickle is not well formed. */
  readonly problem?: string;
}

/** Most findings of a kind; with more the walk ends. */
const MAX_FINDINGS = 10_000;

/** Most values on the stack. */
const MAX_STACK_LENGTH = 2 ** 20;

/** Most memory for memoized values. */
const MAX_MEMO_BYTE_LENGTH = 64 * 2 ** 20;

/** Most opcodes that name a global: picklers name each once. */
const MAX_NAMINGS = 500_000;

/** Longest text that can be the name of a global. */
const MAX_NAME_LENGTH = 4096;

/** What the walk knows of a value: the text, or nothing. */
type Known = string | undefined;

/** Walks over the pickle that begins at `begin`. Never throws: what is wrong becomes the problem. */
export function scanOpcodes(
  bytes: Uint8Array,
  begin = 0,
  limits: AllPickleLimits = DEFAULT_PICKLE_LIMITS,
  context: PickleContext = {},
): ScannedPickle {
  const walk = new Walk(new PickleReader(bytes, begin, limits, context));
  let problem: string | undefined;
  try {
    walk.run(limits.maxOpcodes);
  } catch (error) {
    problem = (error as Error).message;
  }
  const found = {
    globals: [...walk.globals.values()],
    oddOpcodes: walk.oddOpcodes,
    opcodeCount: walk.opcodeCount,
    end: walk.reader.at,
  };
  return problem === undefined ? found : { ...found, problem };
}

class Walk {
  readonly reader: PickleReader;
  /** By module and name: each once, where it is named first. */
  readonly globals = new Map<string, NamedGlobal>();
  readonly oddOpcodes: OddOpcode[] = [];
  opcodeCount = 0;
  readonly #stack: Known[] = [];
  /** Lengths that the stack had at the marks that are open. */
  readonly #marks: number[] = [];
  readonly #memo = new PickleMemo<Known>();
  #memoByteLength = 0;
  #namingCount = 0;
  /** Where the opcode under way begins. */
  #at = 0;
  #protocol = 0;

  constructor(reader: PickleReader) {
    this.reader = reader;
  }

  run(maxOpcodes: number): void {
    const { reader } = this;
    for (this.opcodeCount = 1; this.opcodeCount < maxOpcodes; this.opcodeCount++) {
      this.#at = reader.at;
      const code = reader.byte();
      const opcode = op.OPCODES[code];
      if (opcode === undefined) this.#fail(`expected an opcode, found ${op.describeOpcode(code)}`);
      this.#noteOdd(opcode);
      this.#step(opcode);
      if (code === op.STOP) return;
    }
    throw reader.limitError('maxOpcodes', reader.at);
  }

  #step(opcode: op.Opcode): void {
    const argument = this.#readArgument(opcode);
    switch (opcode.code) {
      case op.PROTO:
        this.#protocol = argument as number;
        break;
      case op.MARK:
        this.#mark();
        break;
      case op.PUT:
      case op.BINPUT:
      case op.LONG_BINPUT:
        this.#memoize(argument as number);
        break;
      case op.MEMOIZE:
        this.#memoize(this.#memo.size);
        break;
      case op.GET:
      case op.BINGET:
      case op.LONG_BINGET:
        this.#push(this.#memo.get(argument as number));
        break;
      case op.DUP:
        this.#push(this.#top());
        break;
      case op.POP:
        // Python takes a mark where there is nothing else.
        this.#pop(this.#marks.at(-1) === this.#stack.length ? 'mark' : 1);
        break;
      case op.BINUNICODE:
      case op.SHORT_BINUNICODE:
      case op.BINUNICODE8:
        this.#push(argument as Known);
        break;
      case op.STACK_GLOBAL:
        this.#noteGlobal(this.#stack.at(-2), this.#stack.at(-1));
        this.#pop(2);
        this.#push(undefined);
        break;
      default:
        if (opcode.pops !== 0) this.#pop(opcode.pops);
        if (opcode.pushes !== 0) this.#push(undefined);
    }
  }

  /** Passes over what follows the opcode; returns what the walk has to know of it. */
  #readArgument({ code, argument }: op.Opcode): Known | number {
    const { reader } = this;
    switch (argument) {
      case 0:
        return undefined;
      case 1:
        return reader.byte();
      case 4:
        return reader.uint32();
      case 2:
      case 8:
        reader.skip(argument);
        return undefined;
      case 'line':
        if (code === op.GET || code === op.PUT) return Number(reader.line());
        reader.skipLine();
        return undefined;
      case 'lines':
        this.#noteGlobal(reader.line(), reader.line());
        return undefined;
      default: {
        const byteLength = this.#readLength(argument);
        // No name of a global is longer.
        if (isName(code) && byteLength <= MAX_NAME_LENGTH) return reader.text(byteLength);
        reader.skip(byteLength);
        return undefined;
      }
    }
  }

  #readLength(argument: 'text1' | 'text4' | 'text8'): number {
    if (argument === 'text1') return this.reader.byte();
    return argument === 'text4' ? this.reader.uint32() : this.reader.uint64();
  }

  #noteOdd({ name, oddity }: op.Opcode): void {
    if (oddity === undefined || (oddity === 'old' && this.#protocol < 2)) return;
    if (this.oddOpcodes.length >= MAX_FINDINGS) this.#fail('found too many odd opcodes');
    this.oddOpcodes.push({ name, position: this.#at });
  }

  #noteGlobal(module: Known, name: Known): void {
    if (module === undefined || name === undefined) {
      this.#fail('found a global whose names are no texts that stand in the pickle');
    }
    const key = `${module}\n${name}`;
    if (++this.#namingCount > MAX_NAMINGS) this.#fail('found too many opcodes that name globals');
    if (this.globals.has(key)) return;
    if (this.globals.size >= MAX_FINDINGS) this.#fail('found too many globals');
    this.globals.set(key, { module, name, position: this.#at });
  }

  #memoize(index: number): void {
    this.#memoByteLength += this.#memo.set(index, this.#top());
    if (this.#memoByteLength > MAX_MEMO_BYTE_LENGTH) this.#fail('found too many memoized values');
  }

  #mark(): void {
    if (this.#marks.length >= MAX_STACK_LENGTH) this.#fail('found too many marks');
    this.#marks.push(this.#stack.length);
  }

  #top(): Known {
    if (this.#stack.length <= (this.#marks.at(-1) ?? 0)) {
      this.#fail('expected a value on the stack, found none');
    }
    return this.#stack.at(-1);
  }

  #push(known: Known): void {
    if (this.#stack.length >= MAX_STACK_LENGTH) this.#fail('found too many values on the stack');
    this.#stack.push(known);
  }

  #pop(count: number | 'mark'): void {
    const floor = this.#marks.at(-1) ?? 0;
    if (count === 'mark') {
      if (this.#marks.pop() === undefined) this.#fail('expected a mark on the stack, found none');
      this.#stack.length = floor;
      return;
    }
    if (this.#stack.length - count < floor) this.#fail('expected a value on the stack, found none');
    this.#stack.length -= count;
  }

  #fail(message: string): never {
    throw this.reader.error(message, this.#at);
  }
}

/** Whether a text can be the name of a global: one that stands in the pickle as it is. */
function isName(code: number): boolean {
  return code === op.BINUNICODE || code === op.SHORT_BINUNICODE || code === op.BINUNICODE8;
}
