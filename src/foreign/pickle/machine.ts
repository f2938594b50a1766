/**
 * The pickle machine: bytes in, data out. It imports and calls nothing that the pickle names: the host builds the
 * results of calls from data, for a fixed list of globals.
 */

import { FormatError } from '../../errors/errors.js';
import { forbiddenGlobals } from './forbidden-globals.js';
import { Frames } from './frames.js';
import type { PickleHost } from './host.js';
import {
  type AllPickleLimits,
  DEFAULT_PICKLE_LIMITS,
  formatPlace,
  MAX_STACK_LENGTH,
  type PickleContext,
} from './limits.js';
import { readLiteral } from './literals.js';
import { PickleMemo } from './memo.js';
import { COST, costOfCopy, costOfLiteral } from './memory-costs.js';
import * as op from './opcodes.js';
import { readProtocol } from './protocol.js';
import { PickleReader } from './reader.js';
import { scanOpcodes } from './scan.js';
import {
  PickleGlobal,
  PickleList,
  PickleMap,
  PickleSet,
  type PickleTuple,
  type PickleValue,
  Placeholder,
} from './values.js';

/** A pickle that was read. */
interface ReadPickle {
  readonly value: PickleValue;
  /** The byte after the pickle. */
  readonly end: number;
}

/**
 * Reads the pickle that begins at `begin`.
 *
 * @throws FormatError `SAFETENSORS_INVALID_PICKLE`, `SAFETENSORS_FOREIGN_LIMIT`; `SAFETENSORS_FORBIDDEN_GLOBAL`,
 *   which lists all forbidden globals of the pickle
 */
export function readPickle(
  bytes: Uint8Array,
  begin: number,
  host: PickleHost,
  limits: AllPickleLimits = DEFAULT_PICKLE_LIMITS,
  context: PickleContext = {},
): ReadPickle {
  return new Machine(bytes, begin, host, limits, context).run();
}

/** Python numbers what it memoizes from 0 on. */
const MAX_MEMO_INDEX = 2 ** 24;

/** Most arguments of a call, more than hosts need; the call may copy each. */
const MAX_ARGUMENTS = 32;

class Machine {
  readonly #reader: PickleReader;
  readonly #bytes: Uint8Array;
  readonly #begin: number;
  readonly #host: PickleHost;
  readonly #limits: AllPickleLimits;
  readonly #context: PickleContext;
  /** The stack; values at `#height` and above were popped. */
  readonly #stack: PickleValue[] = [];
  #height = 0;
  /** Heights of the stack at the open marks. */
  readonly #marks: number[] = [];
  /** Height of the last mark: opcodes don't reach below it. */
  #floor = 0;
  readonly #memo = new PickleMemo<PickleValue>();
  readonly #frames = new Frames(() => this.#fail('expected a frame to end with an opcode'));
  #memoryLeft: number;
  /** The byte of the current opcode. */
  #at = 0;

  constructor(
    bytes: Uint8Array,
    begin: number,
    host: PickleHost,
    limits: AllPickleLimits,
    context: PickleContext,
  ) {
    this.#reader = new PickleReader(bytes, begin, limits, context, context.fileEnd);
    this.#bytes = bytes;
    this.#begin = begin;
    this.#host = host;
    this.#limits = limits;
    this.#context = context;
    this.#memoryLeft = limits.maxPickleMemoryByteLength;
  }

  run(): ReadPickle {
    const reader = this.#reader;
    const { maxOpcodes } = this.#limits;
    readProtocol(reader);
    for (let count = 1; ; count++) {
      this.#at = reader.at;
      this.#frames.reach(this.#at);
      if (count >= maxOpcodes) throw reader.limitError('maxOpcodes', this.#at);
      const code = reader.byte();
      if (code === op.STOP) return { value: this.#result(), end: reader.at };
      this.#step(code, reader);
    }
  }

  #step(code: number, reader: PickleReader): void {
    switch (code) {
      case op.MARK:
        this.#mark();
        break;
      case op.TUPLE1:
        this.#makeTuple(this.#popMany(1));
        break;
      case op.TUPLE2:
        this.#makeTuple(this.#popMany(2));
        break;
      case op.TUPLE3:
        this.#makeTuple(this.#popMany(3));
        break;
      case op.TUPLE:
        this.#makeTuple(this.#popToMark());
        break;
      case op.FROZENSET:
        this.#makeSet(this.#popToMark());
        break;
      case op.APPEND:
        this.#append(this.#popMany(1));
        break;
      case op.APPENDS:
        this.#append(this.#popToMark());
        break;
      case op.SETITEM:
        this.#setItems(this.#popMany(2));
        break;
      case op.SETITEMS:
        this.#setItems(this.#popToMark());
        break;
      case op.ADDITEMS:
        this.#addItems(this.#popToMark());
        break;
      case op.POP:
        this.#pop();
        break;
      case op.POP_MARK:
        this.#popToMark();
        break;
      case op.DUP:
        this.#push(this.#top());
        break;
      case op.BINPUT:
        this.#memoize(reader.byte());
        break;
      case op.LONG_BINPUT:
        this.#memoize(reader.uint32());
        break;
      case op.MEMOIZE:
        this.#memoize(this.#memo.size);
        break;
      case op.BINGET:
        this.#recall(reader.byte());
        break;
      case op.LONG_BINGET:
        this.#recall(reader.uint32());
        break;
      case op.GLOBAL:
        this.#pushGlobal(reader.line(), reader.line());
        break;
      case op.STACK_GLOBAL:
        this.#pushStackGlobal();
        break;
      case op.REDUCE:
        this.#call(false);
        break;
      case op.NEWOBJ:
        this.#call(true);
        break;
      case op.BUILD:
        this.#build();
        break;
      case op.BINPERSID:
        this.#spend(COST.made);
        this.#push(this.#host.persistent(this.#pop(), this.#at));
        break;
      case op.FRAME:
        this.#checkFrame(reader.uint64());
        break;
      default:
        this.#pushLiteral(code, readLiteral(code, reader));
    }
  }

  #fail(message: string): never {
    throw this.#reader.error(message, this.#at);
  }

  #spend(byteLength: number): void {
    this.#memoryLeft -= byteLength;
    if (this.#memoryLeft < 0) {
      throw this.#reader.limitError('maxPickleMemoryByteLength', this.#at);
    }
  }

  #push(value: PickleValue): void {
    if (this.#height >= MAX_STACK_LENGTH) {
      this.#fail(`expected at most ${MAX_STACK_LENGTH} values on the stack, found another one`);
    }
    this.#stack[this.#height++] = value;
  }

  #pop(): PickleValue {
    if (this.#height <= this.#floor) this.#failWithoutValue();
    return this.#stack[--this.#height] as PickleValue;
  }

  #popMany(count: number): PickleValue[] {
    if (this.#height - count < this.#floor) this.#failWithoutValue();
    this.#height -= count;
    return this.#stack.slice(this.#height, this.#height + count);
  }

  #top(): PickleValue {
    if (this.#height <= this.#floor) this.#failWithoutValue();
    return this.#stack[this.#height - 1] as PickleValue;
  }

  #failWithoutValue(): never {
    this.#fail('expected a value on the stack, found none');
  }

  #mark(): void {
    if (this.#marks.length >= this.#limits.maxDepth) {
      throw this.#reader.limitError('maxDepth', this.#at);
    }
    this.#marks.push(this.#height);
    this.#floor = this.#height;
  }

  #popToMark(): PickleValue[] {
    const begin = this.#marks.pop();
    if (begin === undefined) this.#fail('expected a mark on the stack, found none');
    this.#floor = this.#marks.at(-1) ?? 0;
    const items = this.#stack.slice(begin, this.#height);
    this.#height = begin;
    return items;
  }

  #result(): PickleValue {
    this.#frames.end(this.#reader.at);
    const found = this.#height;
    if (found !== 1 || this.#marks.length > 0) {
      this.#fail(`expected one value at the end, found ${found} and ${this.#marks.length} marks`);
    }
    return this.#stack[0] as PickleValue;
  }

  #pushLiteral(code: number, value: PickleValue | undefined): void {
    if (value === undefined) {
      this.#fail(`expected an opcode that makes data, found ${op.describeOpcode(code)}`);
    }
    // A string with two bytes per character in memory has at least that many bytes of UTF-8 for such characters.
    if (typeof value === 'string') this.#spend(COST.text + this.#reader.at - this.#at);
    else this.#spend(costOfLiteral(value));
    this.#push(value);
  }

  #makeTuple(items: PickleTuple): void {
    this.#spend(COST.tuple + COST.item * items.length);
    this.#push(items);
  }

  #makeSet(items: readonly PickleValue[]): void {
    this.#spend(COST.set);
    this.#push(new PickleSet());
    this.#addItems(items);
  }

  #checkFrame(byteLength: number): void {
    const { at, left } = this.#reader;
    this.#frames.begin(at, byteLength);
    if (byteLength <= left) return;
    throw this.#reader.endError(`expected a frame of ${byteLength} bytes, found ${left}`, this.#at);
  }

  #append(items: readonly PickleValue[]): void {
    const target = this.#top();
    const list = target instanceof Placeholder ? target.items : target;
    if (!(list instanceof PickleList)) this.#fail('expected a list to append to, found none');
    this.#spend((list.items.length === 0 ? COST.firstListItem : 0) + COST.listItem * items.length);
    for (const item of items) list.items.push(item);
  }

  #setItems(items: readonly PickleValue[]): void {
    const target = this.#top();
    const map = target instanceof Placeholder ? target.entries : target;
    if (!(map instanceof PickleMap)) this.#fail('expected a dict to set items in, found none');
    if (items.length % 2 !== 0) {
      this.#fail(`expected keys with values, found ${items.length} values`);
    }
    if (map.size === 0) this.#spend(COST.firstEntry);
    for (let i = 0; i < items.length; i += 2) {
      const key = items[i] as PickleValue;
      this.#spend(typeof key === 'string' ? COST.entry : COST.entry + COST.otherKey);
      if (!map.set(key, items[i + 1] as PickleValue)) {
        this.#fail('expected a key that is a text, a number or a short tuple, found another value');
      }
    }
  }

  #addItems(items: readonly PickleValue[]): void {
    const set = this.#top();
    if (!(set instanceof PickleSet)) this.#fail('expected a set to add items to, found none');
    this.#spend(items.length * (COST.entry + COST.otherKey));
    for (const item of items) {
      if (!set.add(item)) {
        this.#fail(
          'expected an item that is a text, a number or a short tuple, found another value',
        );
      }
    }
  }

  #memoize(index: number): void {
    const value = this.#top();
    if (index > MAX_MEMO_INDEX) {
      throw new FormatError(
        'SAFETENSORS_FOREIGN_LIMIT',
        `${formatPlace(this.#at, this.#context)}: expected a memo of at most ${MAX_MEMO_INDEX} values, found number ${index}`,
        this.#context,
      );
    }
    this.#spend(this.#memo.set(index, value));
  }

  #recall(index: number): void {
    const value = this.#memo.get(index);
    if (value === undefined) {
      this.#fail(`expected a memoized value number ${index}, found none`);
    }
    this.#push(value);
  }

  #pushStackGlobal(): void {
    const name = this.#pop();
    const module = this.#pop();
    if (typeof module !== 'string' || typeof name !== 'string') {
      this.#fail('expected the names of a global, found other values');
    }
    this.#pushGlobal(module, name);
  }

  #pushGlobal(module: string, name: string): void {
    const global = this.#host.global(module, name);
    if (global === undefined) {
      const { globals } = scanOpcodes(this.#bytes, this.#begin, this.#limits);
      throw forbiddenGlobals(globals, this.#host, this.#context);
    }
    this.#spend(COST.global);
    this.#push(global);
  }

  #call(isNew: boolean): void {
    const args = this.#pop();
    const callee = this.#pop();
    if (!(callee instanceof PickleGlobal)) {
      this.#fail('expected a class or function to call, found another value');
    }
    if (!Array.isArray(args)) this.#fail('expected a tuple of arguments, found another value');
    if (callee.isUnknown) {
      this.#spend(COST.placeholder);
      this.#push(new Placeholder(callee, args));
      return;
    }
    if (args.length > MAX_ARGUMENTS) {
      this.#fail(`expected at most ${MAX_ARGUMENTS} arguments, found ${args.length}`);
    }
    this.#spend(COST.made);
    for (const arg of args) this.#spend(costOfCopy(arg));
    this.#push(this.#host.call(callee, args, this.#at, isNew));
  }

  #build(): void {
    const state = this.#pop();
    const target = this.#pop();
    if (!(target instanceof Placeholder)) {
      this.#push(this.#host.build(target, state, this.#at));
      return;
    }
    target.state = state;
    this.#push(target);
  }
}
