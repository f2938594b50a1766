/** What a walk over a pickle knows of its values: what stands in the pickle as it is. */

import * as op from './opcodes.js';

/** A class or function that a pickle names. */
export interface NamedGlobal {
  readonly module: string;
  readonly name: string;
  /** The byte of the opcode that names it. */
  readonly position: number;
}

/** Bytes of ASCII, which Python 3 tells from a text. */
export class KnownBytes {
  readonly characters: string;

  /** What they say. */
  constructor(characters: string) {
    this.characters = characters;
  }
}

/** Undefined is any other value. */
export type KnownValue =
  | null
  | string
  | number
  | bigint
  | KnownBytes
  | NamedGlobal
  | readonly KnownValue[]
  | undefined;

/** Longest tuple whose items are known: persistent ids have six. */
export const MAX_TUPLE_LENGTH = 6;

/** A tuple that may be a persistent id, or the view in one: of a few values, and no deeper. */
export function knownTuple(items: readonly KnownValue[]): KnownValue {
  if (items.length > MAX_TUPLE_LENGTH) return undefined;
  const isFlat = (item: KnownValue): boolean => !Array.isArray(item);
  return items.every((item) => isFlat(item) || (item as KnownValue[]).every(isFlat))
    ? items
    : undefined;
}

/** Whether an opcode has a text in UTF-8 behind its length. */
export function isUnicode(code: number): boolean {
  return code === op.BINUNICODE || code === op.SHORT_BINUNICODE || code === op.BINUNICODE8;
}

/** Whether an opcode has bytes behind their length. */
export function isBytes(code: number): boolean {
  return code === op.BINBYTES || code === op.SHORT_BINBYTES || code === op.BINBYTES8;
}

/** Bytes that may be the location of a storage. */
export function knownBytes(bytes: Uint8Array): KnownBytes | undefined {
  return knownAscii(String.fromCharCode(...bytes));
}

/** What a call makes: bytes, as Python 3 spells them before protocol 3. Of all other calls nothing is known. */
export function knownResult(callee: KnownValue, args: KnownValue): KnownBytes | undefined {
  const isEncode =
    typeof callee === 'object' &&
    callee !== null &&
    'module' in callee &&
    callee.module === '_codecs' &&
    callee.name === 'encode';
  const [text, codec, ...others] = Array.isArray(args) ? (args as readonly KnownValue[]) : [];
  const isKnown = codec === 'latin1' || codec === 'latin-1';
  if (!isEncode || !isKnown || typeof text !== 'string' || others.length > 0) return undefined;
  return knownAscii(text);
}

function knownAscii(characters: string): KnownBytes | undefined {
  return /^[\0-\x7f]*$/.test(characters) ? new KnownBytes(characters) : undefined;
}

/** A text that Python 2 wrote as bytes, if it is the same in all encodings and has no escapes. */
export function plainText(bytes: Uint8Array): string | undefined {
  const text = String.fromCharCode(...bytes);
  return /^[\x20-\x5b\x5d-\x7e]*$/.test(text) ? text : undefined;
}

/** The text between quotes; undefined when there are none, or more. */
export function unquoted(line: string): string | undefined {
  return /^'[^']*'$|^"[^"]*"$/.test(line) ? line.slice(1, -1) : undefined;
}
