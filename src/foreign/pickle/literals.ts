/** Literal values of a pickle. */

import * as op from './opcodes.js';
import type { PickleReader } from './reader.js';
import {
  PickleByteArray,
  PickleBytes,
  PickleFloat,
  PickleList,
  PickleMap,
  PickleSet,
  type PickleValue,
} from './values.js';

/** Reads the literal of an opcode; undefined for opcodes without a literal. */
export function readLiteral(code: number, reader: PickleReader): PickleValue | undefined {
  switch (code) {
    case op.NONE:
      return null;
    case op.NEWTRUE:
      return true;
    case op.NEWFALSE:
      return false;
    case op.BININT:
      return reader.int32();
    case op.BININT1:
      return reader.byte();
    case op.BININT2:
      return reader.uint16();
    case op.LONG1:
      return reader.integer(reader.byte());
    case op.BINFLOAT:
      return new PickleFloat(reader.float64());
    case op.BINUNICODE:
      return reader.text(reader.uint32());
    case op.SHORT_BINUNICODE:
    // Names, in checkpoints that Python 2 wrote.
    case op.SHORT_BINSTRING:
      return reader.text(reader.byte());
    case op.BINUNICODE8:
      return reader.text(reader.uint64());
    case op.BINBYTES:
      return pickleBytes(reader, reader.uint32());
    case op.SHORT_BINBYTES:
      return pickleBytes(reader, reader.byte());
    case op.BINBYTES8:
      return pickleBytes(reader, reader.uint64());
    case op.BYTEARRAY8:
      return new PickleByteArray(new Uint8Array(reader.take(reader.uint64())));
    case op.EMPTY_TUPLE:
      return [];
    case op.EMPTY_LIST:
      return new PickleList();
    case op.EMPTY_DICT:
      return new PickleMap();
    case op.EMPTY_SET:
      return new PickleSet();
    default:
      return undefined;
  }
}

function pickleBytes(reader: PickleReader, byteLength: number): PickleBytes {
  return new PickleBytes(new Uint8Array(reader.take(byteLength)));
}
