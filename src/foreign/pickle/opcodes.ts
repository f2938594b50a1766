/** The opcodes of pickle, protocols 0 to 5: their arguments in the bytes and their effect on the stack. */

/** Argument of an opcode: a fixed number of bytes, a text after its length, or lines. */
type OpcodeArgument = 0 | 1 | 2 | 4 | 8 | 'text1' | 'text4' | 'text8' | 'line' | 'lines';

/** One opcode. */
export interface Opcode {
  readonly code: number;
  readonly name: string;
  readonly argument: OpcodeArgument;
  /** Values that it pops from the stack; `mark`: all above the last mark. */
  readonly pops: number | 'mark';
  /** Whether it pushes a new value; copies of a value don't count. */
  readonly pushes: 0 | 1;
  /**
   * Set for opcodes that picklers don't write: `always` for extensions, out-of-band buffers and instances of classic
   * classes; `old` for spellings from before protocol 2 in pickles of a later protocol.
   */
  readonly oddity: 'always' | 'old' | undefined;
}

const table = new Array<Opcode | undefined>(256).fill(undefined);

/** The opcodes by number; undefined for unknown numbers. */
export const OPCODES: readonly (Opcode | undefined)[] = table;

/** Puts an opcode into the table; returns its number. */
function opcode(
  code: number,
  name: string,
  argument: OpcodeArgument,
  pops: number | 'mark',
  pushes: 0 | 1,
  oddity?: 'always' | 'old',
): number {
  table[code] = { code, name, argument, pops, pushes, oddity };
  return code;
}

export const MARK: number = opcode(0x28, 'MARK', 0, 0, 0);
export const EMPTY_TUPLE: number = opcode(0x29, 'EMPTY_TUPLE', 0, 0, 1);
export const STOP: number = opcode(0x2e, 'STOP', 0, 1, 0);
export const POP: number = opcode(0x30, 'POP', 0, 1, 0);
export const POP_MARK: number = opcode(0x31, 'POP_MARK', 0, 'mark', 0);
export const DUP: number = opcode(0x32, 'DUP', 0, 0, 0);
export const BINBYTES: number = opcode(0x42, 'BINBYTES', 'text4', 0, 1);
export const SHORT_BINBYTES: number = opcode(0x43, 'SHORT_BINBYTES', 'text1', 0, 1);
export const FLOAT: number = opcode(0x46, 'FLOAT', 'line', 0, 1, 'old');
export const BINFLOAT: number = opcode(0x47, 'BINFLOAT', 8, 0, 1);
export const INT: number = opcode(0x49, 'INT', 'line', 0, 1, 'old');
export const BININT: number = opcode(0x4a, 'BININT', 4, 0, 1);
export const BININT1: number = opcode(0x4b, 'BININT1', 1, 0, 1);
export const LONG: number = opcode(0x4c, 'LONG', 'line', 0, 1, 'old');
export const BININT2: number = opcode(0x4d, 'BININT2', 2, 0, 1);
export const NONE: number = opcode(0x4e, 'NONE', 0, 0, 1);
opcode(0x50, 'PERSID', 'line', 0, 1, 'always');
export const BINPERSID: number = opcode(0x51, 'BINPERSID', 0, 1, 1);
export const REDUCE: number = opcode(0x52, 'REDUCE', 0, 2, 1);
export const STRING: number = opcode(0x53, 'STRING', 'line', 0, 1, 'old');
export const BINSTRING: number = opcode(0x54, 'BINSTRING', 'text4', 0, 1);
export const SHORT_BINSTRING: number = opcode(0x55, 'SHORT_BINSTRING', 'text1', 0, 1);
export const UNICODE: number = opcode(0x56, 'UNICODE', 'line', 0, 1, 'old');
export const BINUNICODE: number = opcode(0x58, 'BINUNICODE', 'text4', 0, 1);
export const EMPTY_LIST: number = opcode(0x5d, 'EMPTY_LIST', 0, 0, 1);
export const APPEND: number = opcode(0x61, 'APPEND', 0, 2, 1);
export const BUILD: number = opcode(0x62, 'BUILD', 0, 2, 1);
export const GLOBAL: number = opcode(0x63, 'GLOBAL', 'lines', 0, 1);
opcode(0x64, 'DICT', 0, 'mark', 1);
export const APPENDS: number = opcode(0x65, 'APPENDS', 0, 'mark', 0);
export const GET: number = opcode(0x67, 'GET', 'line', 0, 0, 'old');
export const BINGET: number = opcode(0x68, 'BINGET', 1, 0, 0);
export const INST: number = opcode(0x69, 'INST', 'lines', 'mark', 1, 'always');
export const LONG_BINGET: number = opcode(0x6a, 'LONG_BINGET', 4, 0, 0);
opcode(0x6c, 'LIST', 0, 'mark', 1);
export const OBJ: number = opcode(0x6f, 'OBJ', 0, 'mark', 1, 'always');
export const PUT: number = opcode(0x70, 'PUT', 'line', 0, 0, 'old');
export const BINPUT: number = opcode(0x71, 'BINPUT', 1, 0, 0);
export const LONG_BINPUT: number = opcode(0x72, 'LONG_BINPUT', 4, 0, 0);
export const SETITEM: number = opcode(0x73, 'SETITEM', 0, 3, 1);
export const TUPLE: number = opcode(0x74, 'TUPLE', 0, 'mark', 1);
export const SETITEMS: number = opcode(0x75, 'SETITEMS', 0, 'mark', 0);
export const EMPTY_DICT: number = opcode(0x7d, 'EMPTY_DICT', 0, 0, 1);
export const PROTO: number = opcode(0x80, 'PROTO', 1, 0, 0);
export const NEWOBJ: number = opcode(0x81, 'NEWOBJ', 0, 2, 1);
opcode(0x82, 'EXT1', 1, 0, 1, 'always');
opcode(0x83, 'EXT2', 2, 0, 1, 'always');
opcode(0x84, 'EXT4', 4, 0, 1, 'always');
export const TUPLE1: number = opcode(0x85, 'TUPLE1', 0, 1, 1);
export const TUPLE2: number = opcode(0x86, 'TUPLE2', 0, 2, 1);
export const TUPLE3: number = opcode(0x87, 'TUPLE3', 0, 3, 1);
export const NEWTRUE: number = opcode(0x88, 'NEWTRUE', 0, 0, 1);
export const NEWFALSE: number = opcode(0x89, 'NEWFALSE', 0, 0, 1);
export const LONG1: number = opcode(0x8a, 'LONG1', 'text1', 0, 1);
opcode(0x8b, 'LONG4', 'text4', 0, 1);
export const SHORT_BINUNICODE: number = opcode(0x8c, 'SHORT_BINUNICODE', 'text1', 0, 1);
export const BINUNICODE8: number = opcode(0x8d, 'BINUNICODE8', 'text8', 0, 1);
export const BINBYTES8: number = opcode(0x8e, 'BINBYTES8', 'text8', 0, 1);
export const EMPTY_SET: number = opcode(0x8f, 'EMPTY_SET', 0, 0, 1);
export const ADDITEMS: number = opcode(0x90, 'ADDITEMS', 0, 'mark', 0);
export const FROZENSET: number = opcode(0x91, 'FROZENSET', 0, 'mark', 1);
export const NEWOBJ_EX: number = opcode(0x92, 'NEWOBJ_EX', 0, 3, 1);
export const STACK_GLOBAL: number = opcode(0x93, 'STACK_GLOBAL', 0, 2, 1);
export const MEMOIZE: number = opcode(0x94, 'MEMOIZE', 0, 0, 0);
export const FRAME: number = opcode(0x95, 'FRAME', 8, 0, 0);
export const BYTEARRAY8: number = opcode(0x96, 'BYTEARRAY8', 'text8', 0, 1);
opcode(0x97, 'NEXT_BUFFER', 0, 0, 1, 'always');
opcode(0x98, 'READONLY_BUFFER', 0, 1, 1, 'always');

/** Name of an opcode in messages. */
export function describeOpcode(code: number): string {
  const number = `0x${code.toString(16).padStart(2, '0')}`;
  const name = OPCODES[code]?.name;
  return name === undefined ? `byte ${number}, an unknown opcode` : `opcode ${name} (${number})`;
}
