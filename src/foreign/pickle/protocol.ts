/** The first opcode of a pickle, which names its protocol. */

import { describeOpcode, PROTO } from './opcodes.js';
import type { PickleReader } from './reader.js';

/** Protocols whose opcodes are known; older ones are made of lines of text. */
const LOWEST_PROTOCOL = 2;
export const HIGHEST_PROTOCOL = 5;

/** Throws FormatError `SAFETENSORS_INVALID_PICKLE` for an unknown or missing protocol. */
export function readProtocol(reader: PickleReader): void {
  const begin = reader.at;
  const code = reader.byte();
  if (code !== PROTO) {
    const expected = 'a pickle of protocol 2 or later';
    throw reader.error(`expected ${expected}, found ${describeOpcode(code)}`, begin);
  }
  const protocol = reader.byte();
  if (protocol >= LOWEST_PROTOCOL && protocol <= HIGHEST_PROTOCOL) return;
  const expected = `protocol ${LOWEST_PROTOCOL} to ${HIGHEST_PROTOCOL}`;
  throw reader.error(`expected ${expected}, found ${protocol}`, begin + 1);
}
