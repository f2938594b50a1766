/** The opcodes of pickle, protocols 0 to 5: what follows each in the bytes, and what it does to the stack. */

/** What follows an opcode: bytes of a fixed number, a text of a length before it, or lines. */
export type OpcodeArgument = 0 | 1 | 2 | 4 | 8 | 'text1' | 'text4' | 'text8' | 'line' | 'lines';

/** One opcode. */
export interface Opcode {
  readonly code: number;
  readonly name: string;
  readonly argument: OpcodeArgument;
  /** How many values it takes from the stack; `mark`: all above the last mark. */
  readonly pops: number | 'mark';
  /** Whether it puts a value there that is made anew; those that copy a value are not counted. */
  readonly pushes: 0 | 1;
  /** Set for opcodes that no pickler writes: at all, or in pickles that say they are of protocol 2 or later. */
  readonly oddity: 'always' | 'old' | undefined;
}

export const MARK = 0x28;
export const EMPTY_TUPLE = 0x29;
export const STOP = 0x2e;
export const POP = 0x30;
export const POP_MARK = 0x31;
export const DUP = 0x32;
export const BINBYTES = 0x42;
export const SHORT_BINBYTES = 0x43;
export const FLOAT = 0x46;
export const BINFLOAT = 0x47;
export const INT = 0x49;
export const BININT = 0x4a;
export const BININT1 = 0x4b;
export const LONG = 0x4c;
export const BININT2 = 0x4d;
export const NONE = 0x4e;
export const BINPERSID = 0x51;
export const REDUCE = 0x52;
export const STRING = 0x53;
export const BINSTRING = 0x54;
export const SHORT_BINSTRING = 0x55;
export const UNICODE = 0x56;
export const BINUNICODE = 0x58;
export const EMPTY_LIST = 0x5d;
export const APPEND = 0x61;
export const BUILD = 0x62;
export const GLOBAL = 0x63;
export const APPENDS = 0x65;
export const GET = 0x67;
export const BINGET = 0x68;
export const INST = 0x69;
export const LONG_BINGET = 0x6a;
export const OBJ = 0x6f;
export const PUT = 0x70;
export const BINPUT = 0x71;
export const LONG_BINPUT = 0x72;
export const SETITEM = 0x73;
export const TUPLE = 0x74;
export const SETITEMS = 0x75;
export const EMPTY_DICT = 0x7d;
export const PROTO = 0x80;
export const NEWOBJ = 0x81;
export const TUPLE1 = 0x85;
export const TUPLE2 = 0x86;
export const TUPLE3 = 0x87;
export const NEWTRUE = 0x88;
export const NEWFALSE = 0x89;
export const LONG1 = 0x8a;
export const SHORT_BINUNICODE = 0x8c;
export const BINUNICODE8 = 0x8d;
export const BINBYTES8 = 0x8e;
export const EMPTY_SET = 0x8f;
export const ADDITEMS = 0x90;
export const FROZENSET = 0x91;
export const NEWOBJ_EX = 0x92;
export const STACK_GLOBAL = 0x93;
export const MEMOIZE = 0x94;
export const FRAME = 0x95;
export const BYTEARRAY8 = 0x96;

const ROWS: readonly (readonly [
  code: number,
  name: string,
  argument: OpcodeArgument,
  pops: number | 'mark',
  pushes: 0 | 1,
])[] = [
  [MARK, 'MARK', 0, 0, 0],
  [EMPTY_TUPLE, 'EMPTY_TUPLE', 0, 0, 1],
  [STOP, 'STOP', 0, 1, 0],
  [POP, 'POP', 0, 1, 0],
  [POP_MARK, 'POP_MARK', 0, 'mark', 0],
  [DUP, 'DUP', 0, 0, 0],
  [BINBYTES, 'BINBYTES', 'text4', 0, 1],
  [SHORT_BINBYTES, 'SHORT_BINBYTES', 'text1', 0, 1],
  [FLOAT, 'FLOAT', 'line', 0, 1],
  [BINFLOAT, 'BINFLOAT', 8, 0, 1],
  [INT, 'INT', 'line', 0, 1],
  [BININT, 'BININT', 4, 0, 1],
  [BININT1, 'BININT1', 1, 0, 1],
  [LONG, 'LONG', 'line', 0, 1],
  [BININT2, 'BININT2', 2, 0, 1],
  [NONE, 'NONE', 0, 0, 1],
  [0x50, 'PERSID', 'line', 0, 1],
  [BINPERSID, 'BINPERSID', 0, 1, 1],
  [REDUCE, 'REDUCE', 0, 2, 1],
  [STRING, 'STRING', 'line', 0, 1],
  [BINSTRING, 'BINSTRING', 'text4', 0, 1],
  [SHORT_BINSTRING, 'SHORT_BINSTRING', 'text1', 0, 1],
  [UNICODE, 'UNICODE', 'line', 0, 1],
  [BINUNICODE, 'BINUNICODE', 'text4', 0, 1],
  [EMPTY_LIST, 'EMPTY_LIST', 0, 0, 1],
  [APPEND, 'APPEND', 0, 2, 1],
  [BUILD, 'BUILD', 0, 2, 1],
  [GLOBAL, 'GLOBAL', 'lines', 0, 1],
  [0x64, 'DICT', 0, 'mark', 1],
  [APPENDS, 'APPENDS', 0, 'mark', 0],
  [GET, 'GET', 'line', 0, 0],
  [BINGET, 'BINGET', 1, 0, 0],
  [INST, 'INST', 'lines', 'mark', 1],
  [LONG_BINGET, 'LONG_BINGET', 4, 0, 0],
  [0x6c, 'LIST', 0, 'mark', 1],
  [OBJ, 'OBJ', 0, 'mark', 1],
  [PUT, 'PUT', 'line', 0, 0],
  [BINPUT, 'BINPUT', 1, 0, 0],
  [LONG_BINPUT, 'LONG_BINPUT', 4, 0, 0],
  [SETITEM, 'SETITEM', 0, 3, 1],
  [TUPLE, 'TUPLE', 0, 'mark', 1],
  [SETITEMS, 'SETITEMS', 0, 'mark', 0],
  [EMPTY_DICT, 'EMPTY_DICT', 0, 0, 1],
  [PROTO, 'PROTO', 1, 0, 0],
  [NEWOBJ, 'NEWOBJ', 0, 2, 1],
  [0x82, 'EXT1', 1, 0, 1],
  [0x83, 'EXT2', 2, 0, 1],
  [0x84, 'EXT4', 4, 0, 1],
  [TUPLE1, 'TUPLE1', 0, 1, 1],
  [TUPLE2, 'TUPLE2', 0, 2, 1],
  [TUPLE3, 'TUPLE3', 0, 3, 1],
  [NEWTRUE, 'NEWTRUE', 0, 0, 1],
  [NEWFALSE, 'NEWFALSE', 0, 0, 1],
  [LONG1, 'LONG1', 'text1', 0, 1],
  [0x8b, 'LONG4', 'text4', 0, 1],
  [SHORT_BINUNICODE, 'SHORT_BINUNICODE', 'text1', 0, 1],
  [BINUNICODE8, 'BINUNICODE8', 'text8', 0, 1],
  [BINBYTES8, 'BINBYTES8', 'text8', 0, 1],
  [EMPTY_SET, 'EMPTY_SET', 0, 0, 1],
  [ADDITEMS, 'ADDITEMS', 0, 'mark', 0],
  [FROZENSET, 'FROZENSET', 0, 'mark', 1],
  [NEWOBJ_EX, 'NEWOBJ_EX', 0, 3, 1],
  [STACK_GLOBAL, 'STACK_GLOBAL', 0, 2, 1],
  [MEMOIZE, 'MEMOIZE', 0, 0, 0],
  [FRAME, 'FRAME', 8, 0, 0],
  [BYTEARRAY8, 'BYTEARRAY8', 'text8', 0, 1],
  [0x97, 'NEXT_BUFFER', 0, 0, 1],
  [0x98, 'READONLY_BUFFER', 0, 1, 1],
];

/** Extensions, out-of-band buffers, instances of classic classes. */
const ODD: readonly string[] = [
  'INST',
  'OBJ',
  'EXT1',
  'EXT2',
  'EXT4',
  'PERSID',
  'NEXT_BUFFER',
  'READONLY_BUFFER',
];

/** How values were written before there was protocol 2. */
const OLD: readonly string[] = ['INT', 'LONG', 'FLOAT', 'STRING', 'UNICODE', 'GET', 'PUT'];

/** The opcodes by their number; undefined where there is none. */
export const OPCODES: readonly (Opcode | undefined)[] = byNumber();

function byNumber(): (Opcode | undefined)[] {
  const opcodes = new Array<Opcode | undefined>(256).fill(undefined);
  for (const [code, name, argument, pops, pushes] of ROWS) {
    const oddity = ODD.includes(name) ? 'always' : OLD.includes(name) ? 'old' : undefined;
    opcodes[code] = { code, name, argument, pops, pushes, oddity };
  }
  return opcodes;
}

/** What an opcode is called in messages. */
export function describeOpcode(code: number): string {
  const number = `0x${code.toString(16).padStart(2, '0')}`;
  const name = OPCODES[code]?.name;
  return name === undefined ? `byte ${number}, which is no opcode` : `opcode ${name} (${number})`;
}
