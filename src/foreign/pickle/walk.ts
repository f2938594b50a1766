/** One walk over a pickle: the stack and the memo, as far as values are known. */

import { Frames } from './frames.js';
import { loadsInnerFile, PickledBytes } from './inner-files.js';
import {
  innerFileOf,
  isBytes,
  isGlobal,
  isUnicode,
  type KnownValue,
  knownBytes,
  knownResult,
  knownTuple,
  MAX_TUPLE_LENGTH,
  type NamedGlobal,
  plainText,
  unquoted,
} from './known-values.js';
import { MAX_STACK_LENGTH, type PickleContext, pickleWalkError } from './limits.js';
import { PickleMemo } from './memo.js';
import * as op from './opcodes.js';
import { HIGHEST_PROTOCOL } from './protocol.js';
import type { PickleReader } from './reader.js';
import { hasNumber, integerOf, isPlainNumber, memoNumberOf } from './text-numbers.js';

/** An opcode, or a use of it, that only attackers write. */
export interface SuspiciousOpcode {
  readonly name: string;
  readonly position: number;
  /** The oddity, for messages. */
  readonly message: string;
  /** Whether its value has no name that the walk knows, and may be called. */
  readonly isHidden: boolean;
}

/** The place of a pickle and the listener for its persistent ids. */
export interface ScanContext extends PickleContext {
  /** End of the file that begins with these bytes; the end of the bytes by default. */
  readonly fileEnd?: number | undefined;
  /** Called with every persistent id and the byte of its opcode. */
  readonly notePersistentId?: ((id: KnownValue, at: number) => void) | undefined;
}

/** Most findings of a kind; the walk stops at more. */
const MAX_FINDINGS = 10_000;

/** Most memory for memoized values. */
const MAX_MEMO_BYTE_LENGTH = 64 * 2 ** 20;

/** Most opcodes that name a global: picklers name each once. */
const MAX_NAMINGS = 500_000;

/** Most files that a pickle loads from its own bytes: one for each storage. */
const MAX_INNER_FILES = 200_000;

/** Longest text that can be the name of a global. */
const MAX_GLOBAL_LENGTH = 4096;

/** Memory of a tuple whose items are known. */
const TUPLE_BYTE_LENGTH = 96;

/** Longest unsafe integer whose value is known. */
const MAX_INTEGER_BYTE_LENGTH = 10;

const NOT_WRITTEN = 'which no pickler writes';

/** Characters of numbers; characters that never occur in the first part of a module's name. */
const NUMBER_LINE = /^[\s\d_+.eE-]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: no module has these in its name
const MODULE = /^[^.\0-\x1f"{}[\]:,]*(\.|$)/;

/** Opcodes that call a function or a method, or make an instance. */
const CALLS: ReadonlySet<number> = new Set([
  ...[op.BUILD, op.NEWOBJ, op.NEWOBJ_EX, op.INST, op.OBJ],
  ...[op.APPEND, op.APPENDS, op.SETITEM, op.SETITEMS, op.ADDITEMS],
]);

/** Opcodes that look up a class by number in a registry of the process. */
const EXTENSIONS: readonly string[] = ['EXT1', 'EXT2', 'EXT4'];

/** Bytes that the pickle loads as another file, and the byte of the call. */
export interface InnerFile {
  readonly bytes: Uint8Array;
  readonly position: number;
}

/** Goes through the opcodes of one pickle. */
export class Walk {
  readonly reader: PickleReader;
  /** Globals by module and name, at their first occurrence. */
  readonly globals: Map<string, NamedGlobal> = new Map();
  readonly suspiciousOpcodes: SuspiciousOpcode[] = [];
  /** Files that the pickle loads from its own bytes. */
  readonly innerFiles: InnerFile[] = [];
  opcodeCount: number = 0;
  result: KnownValue;
  /** Whether the pickle calls anything. */
  hasCalls: boolean = false;
  /** Whether the bytes end within the names of a global: Python's own reader looks up the cut names. */
  isCutInGlobal: boolean = false;
  readonly #context: ScanContext;
  readonly #stack: KnownValue[] = [];
  /** Heights of the stack at the open marks. */
  readonly #marks: number[] = [];
  readonly #memo = new PickleMemo<KnownValue>();
  #memoByteLength = 0;
  /** The bytes of inner files, or where they begin. */
  readonly #innerKeys = new Set<string | number>();
  #namingCount = 0;
  /** The byte of the current opcode. */
  #at = 0;
  #code = 0;
  #protocol = 0;
  readonly #frames = new Frames(() => this.#noteFrame());

  constructor(reader: PickleReader, context: ScanContext) {
    this.reader = reader;
    this.#context = context;
  }

  run(maxOpcodes: number): void {
    const { reader } = this;
    for (this.opcodeCount = 1; this.opcodeCount < maxOpcodes; this.opcodeCount++) {
      this.#at = reader.at;
      this.#frames.reach(this.#at);
      const code = reader.byte();
      const opcode = op.OPCODES[code];
      if (opcode === undefined) this.#fail(`expected an opcode, found ${op.describeOpcode(code)}`);
      this.#code = code;
      this.#noteOddity(opcode);
      this.#step(opcode);
      if (code !== op.STOP) continue;
      this.#frames.end(reader.at);
      return;
    }
    throw reader.limitError('maxOpcodes', reader.at);
  }

  #step(opcode: op.Opcode): void {
    const argument = this.#readArgument(opcode);
    switch (opcode.code) {
      case op.PROTO:
        this.#protocol = argument as number;
        if (this.#protocol > HIGHEST_PROTOCOL) {
          this.#noteSuspicious('PROTO', `with the number ${this.#protocol}, which no protocol has`);
        }
        break;
      case op.FRAME:
        this.#beginFrame(argument as number);
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
        // Python pops a mark if nothing else is left.
        this.#pop(this.#marks.at(-1) === this.#stack.length ? 'mark' : 1);
        break;
      case op.TUPLE:
        this.#push(knownTuple(this.#pop('mark')));
        break;
      case op.TUPLE1:
      case op.TUPLE2:
      case op.TUPLE3:
        this.#push(knownTuple(this.#pop(opcode.pops)));
        break;
      case op.BINPERSID:
        this.#notePersistentId(this.#pop(1)[0]);
        this.#push(undefined);
        break;
      case op.REDUCE: {
        this.hasCalls = true;
        const [callee, args] = this.#stack.slice(-2);
        this.#drop(2, isLoader(callee) ? 1 : 0);
        if (isLoader(callee)) this.#noteInnerFile(args);
        this.#push(knownResult(callee, args));
        break;
      }
      case op.STACK_GLOBAL: {
        const [module, name] = this.#pop(2);
        this.#push(this.#nameGlobal(module, name));
        break;
      }
      case op.STOP:
        this.result = this.#pop(1)[0];
        break;
      default:
        this.hasCalls ||= CALLS.has(opcode.code);
        if (opcode.pops !== 0) this.#drop(opcode.pops);
        if (opcode.pushes !== 0) this.#push(opcode.oddity === 'always' ? undefined : argument);
    }
  }

  /** Notes the bytes of a call that loads them. */
  #noteInnerFile(args: KnownValue): void {
    const file = innerFileOf(args);
    // Long bytes are always part of this pickle. A short pickle can load the same ones a million times.
    const isLong = file !== undefined && file.pickledByteLength > MAX_GLOBAL_LENGTH;
    if (isLong && this.#innerKeys.has(file.begin)) return;
    const bytes = file?.decode();
    if (bytes === undefined) {
      this.#noteLoader('which loads a file whose bytes are not in the pickle');
      return;
    }
    const key = isLong ? (file as PickledBytes).begin : String.fromCharCode(...bytes);
    if (this.#innerKeys.has(key)) return;
    if (this.#innerKeys.size >= MAX_INNER_FILES) this.#stop('files in the pickle');
    this.#innerKeys.add(key);
    this.innerFiles.push({ bytes, position: this.#at });
  }

  #noteLoader(message: string): void {
    this.#noteSuspicious(op.OPCODES[this.#code]?.name ?? '', message);
  }

  /** Skips the opcode's argument; returns the part that the walk needs. */
  #readArgument({ code, name, argument }: op.Opcode): KnownValue {
    const { reader } = this;
    switch (argument) {
      case 0:
        return code === op.NONE ? null : undefined;
      case 1:
        return reader.byte();
      case 2:
        return reader.uint16();
      case 4:
        return code === op.BININT ? reader.int32() : reader.uint32();
      case 8:
        if (code === op.FRAME) return reader.uint64();
        reader.skip(argument);
        return undefined;
      case 'line':
        return this.#readLine(code, name);
      case 'lines':
        return this.#readGlobal();
      default:
        return this.#readLong(code, this.#readLength(argument));
    }
  }

  #readLength(argument: 'text1' | 'text4' | 'text8'): number {
    if (argument === 'text1') return this.reader.byte();
    return argument === 'text4' ? this.reader.uint32() : this.reader.uint64();
  }

  /** An argument after its length. */
  #readLong(code: number, byteLength: number): KnownValue {
    const { reader } = this;
    if (code === op.LONG1) {
      const integer = reader.integer(byteLength);
      // A small number may be spelled with many bytes.
      const isShort = typeof integer === 'number' || byteLength <= MAX_INTEGER_BYTE_LENGTH;
      return isShort ? integer : undefined;
    }
    const begin = reader.at;
    // Longer texts cannot be names of globals.
    if (byteLength <= MAX_GLOBAL_LENGTH) {
      if (isUnicode(code)) {
        const text = reader.looseText(byteLength);
        if (text === undefined) this.#fail('expected UTF-8, found other bytes');
        return text;
      }
      if (code === op.BINSTRING || code === op.SHORT_BINSTRING) {
        return plainText(reader.take(byteLength));
      }
      const known = isBytes(code) ? knownBytes(reader.take(byteLength)) : undefined;
      if (known !== undefined) return known;
    }
    reader.at = begin;
    reader.skip(byteLength);
    if (isUnicode(code)) return reader.pickled(begin, reader.at, 'utf-8');
    return isBytes(code) ? reader.pickled(begin, reader.at, 'bytes') : undefined;
  }

  /** An argument that ends with its line. */
  #readLine(code: number, name: string): KnownValue {
    const { reader } = this;
    if (code === op.STRING || code === op.UNICODE) {
      const begin = reader.at;
      reader.skipLine();
      const end = reader.at - 1;
      const isUnicodeLine = code === op.UNICODE;
      const line =
        end - begin > MAX_GLOBAL_LENGTH ? undefined : plainText(reader.slice(begin, end));
      if (isUnicodeLine) return line ?? reader.pickled(begin, end, 'raw-unicode-escape');
      return line && unquoted(line);
    }
    if (!hasNumber(name)) {
      reader.skipLine();
      return undefined;
    }
    this.#checkLongLine(NUMBER_LINE);
    const line = this.reader.line();
    if (!isPlainNumber(name, line)) {
      const shown = JSON.stringify(line.slice(0, 40));
      this.#noteSuspicious(name, `with the number ${shown}, which readers take in several ways`);
    }
    if (code !== op.GET && code !== op.PUT) return integerOf(name, line);
    const index = memoNumberOf(line);
    if (index === undefined) this.#fail('expected the number of a memoized value, found none');
    return index;
  }

  /** Ends the walk at a line above the length limit; readers refuse a line outside the pattern. */
  #checkLongLine(pattern: RegExp): void {
    const start = this.reader.longLine();
    if (start === undefined) return;
    if (pattern.test(start)) this.#stop('characters in a line');
    this.#fail('expected a number or the name of a module, found other text');
  }

  #readGlobal(): NamedGlobal | undefined {
    this.#checkLongLine(MODULE);
    const module = this.reader.lineOrRest();
    if (!MODULE.test(module)) this.#fail('expected the name of a module, found other text');
    this.isCutInGlobal = !this.reader.hasLine;
    return this.#nameGlobal(module, this.reader.lineOrRest());
  }

  #beginFrame(byteLength: number): void {
    const { left, at } = this.reader;
    if (byteLength > left) this.#fail(`expected a frame of ${byteLength} bytes, found ${left}`);
    this.#frames.begin(at, byteLength);
  }

  #noteFrame(): void {
    this.#noteSuspicious('FRAME', 'with a length at which no opcode ends');
  }

  #notePersistentId(id: KnownValue): void {
    this.#context.notePersistentId?.(id, this.#at);
  }

  #noteOddity({ name, oddity }: op.Opcode): void {
    if (oddity === undefined || (oddity === 'old' && this.#protocol < 2)) return;
    this.#noteSuspicious(name, NOT_WRITTEN, EXTENSIONS.includes(name));
  }

  #noteSuspicious(name: string, message: string, isHidden = false): void {
    if (this.suspiciousOpcodes.length >= MAX_FINDINGS) this.#stop('odd opcodes');
    this.suspiciousOpcodes.push({ name, position: this.#at, message, isHidden });
  }

  #nameGlobal(module: KnownValue, name: KnownValue): NamedGlobal | undefined {
    if (typeof module !== 'string' || typeof name !== 'string') {
      this.#noteSuspicious('STACK_GLOBAL', 'with names that do not stand in the pickle', true);
      return undefined;
    }
    const key = `${module}\n${name}`;
    if (++this.#namingCount > MAX_NAMINGS) this.#stop('opcodes that name globals');
    const before = this.globals.get(key);
    if (before !== undefined) return before;
    if (this.globals.size >= MAX_FINDINGS) this.#stop('globals');
    const global = { module, name, position: this.#at };
    this.globals.set(key, global);
    return global;
  }

  #memoize(index: number): void {
    const value = this.#top();
    this.#memoByteLength += this.#memo.set(index, value);
    if (Array.isArray(value) || value instanceof PickledBytes) {
      this.#memoByteLength += TUPLE_BYTE_LENGTH;
    }
    if (this.#memoByteLength > MAX_MEMO_BYTE_LENGTH) this.#stop('memoized values');
  }

  #mark(): void {
    if (this.#marks.length >= MAX_STACK_LENGTH) this.#stop('marks');
    this.#marks.push(this.#stack.length);
  }

  #top(): KnownValue {
    if (this.#stack.length <= (this.#marks.at(-1) ?? 0)) {
      this.#fail('expected a value on the stack, found none');
    }
    return this.#stack.at(-1);
  }

  #push(value: KnownValue): void {
    if (this.#stack.length >= MAX_STACK_LENGTH) this.#stop('values on the stack');
    this.#stack.push(value);
  }

  /** Pops the last values, at most as many as the walk ever needs. */
  #pop(count: number | 'mark'): KnownValue[] {
    const begin = count === 'mark' ? (this.#marks.at(-1) ?? 0) : this.#stack.length - count;
    const taken = this.#stack.slice(Math.max(begin, 0), Math.max(begin, 0) + MAX_TUPLE_LENGTH + 1);
    this.#drop(count);
    return taken;
  }

  /** Drops values, of which the first `callees` are called by an opcode that the walk understands. */
  #drop(count: number | 'mark', callees = 0): void {
    const floor = this.#marks.at(-1) ?? 0;
    let begin = floor;
    if (count === 'mark') {
      if (this.#marks.pop() === undefined) this.#fail('expected a mark on the stack, found none');
    } else {
      begin = this.#stack.length - count;
      if (begin < floor) this.#fail('expected a value on the stack, found none');
    }
    for (let at = begin + callees; at < this.#stack.length; at++) {
      // Attributes, items and arguments can be called later.
      if (isLoader(this.#stack[at]))
        this.#noteLoader('which passes on a function that loads files');
    }
    this.#stack.length = begin;
  }

  #fail(message: string): never {
    throw this.reader.error(message, this.#at);
  }

  /** Ends a walk that costs too much: Python may continue. */
  #stop(what: string): never {
    throw pickleWalkError(what, this.#at, this.#context);
  }
}

function isLoader(value: KnownValue): boolean {
  return isGlobal(value) && loadsInnerFile(value);
}
