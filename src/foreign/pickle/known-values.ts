/** The values that a walk over a pickle knows: literals of the pickle. */

import { PickledBytes } from './inner-files.js';
import * as op from './opcodes.js';

/** A class or function that a pickle names. */
export interface NamedGlobal {
  readonly module: string;
  readonly name: string;
  /** The byte of the opcode that names the global. */
  readonly position: number;
}

/** Bytes of ASCII, which Python 3 tells from a text. */
export class KnownBytes {
  readonly characters: string;

  /** The bytes as a text. */
  constructor(characters: string) {
    this.characters = characters;
  }
}

/** A known value; undefined stands for any other. */
export type KnownValue =
  | null
  | string
  | number
  | bigint
  | KnownBytes
  | PickledBytes
  | NamedGlobal
  | readonly KnownValue[]
  | undefined;

/** Longest tuple whose items are known: persistent ids have six. */
export const MAX_TUPLE_LENGTH = 6;

/** A tuple that may be a persistent id, or the view in one: a few values, not nested. */
export function knownTuple(items: readonly KnownValue[]): KnownValue {
  if (items.length > MAX_TUPLE_LENGTH) return undefined;
  const isFlat = (item: KnownValue): boolean => !Array.isArray(item);
  return items.every((item) => isFlat(item) || (item as KnownValue[]).every(isFlat))
    ? items
    : undefined;
}

/** Whether a length and UTF-8 text follow an opcode. */
export function isUnicode(code: number): boolean {
  return code === op.BINUNICODE || code === op.SHORT_BINUNICODE || code === op.BINUNICODE8;
}

/** Whether a length and bytes follow an opcode. */
export function isBytes(code: number): boolean {
  return code === op.BINBYTES || code === op.SHORT_BINBYTES || code === op.BINBYTES8;
}

/** Bytes that may be the location of a storage. */
export function knownBytes(bytes: Uint8Array): KnownBytes | undefined {
  return knownAscii(latin1(bytes));
}

/** Returns the bytes that a call makes, as Python 3 spells them before protocol 3; undefined for all other calls. */
export function knownResult(
  callee: KnownValue,
  args: KnownValue,
): KnownBytes | PickledBytes | undefined {
  const isEncode = isGlobal(callee) && callee.module === '_codecs' && callee.name === 'encode';
  const [text, codec, ...others] = Array.isArray(args) ? (args as readonly KnownValue[]) : [];
  const isKnown = codec === 'latin1' || codec === 'latin-1';
  if (!isEncode || !isKnown || others.length > 0) return undefined;
  if (text instanceof PickledBytes) return text.isText ? text.encoded() : undefined;
  if (typeof text !== 'string') return undefined;
  const ascii = knownAscii(text);
  if (ascii !== undefined) return ascii;
  const bytes = new TextEncoder().encode(text);
  return new PickledBytes(bytes, 0, bytes.length, 'utf-8', false);
}

/** The bytes that a call of an inner file's loader loads; undefined unless they are in the pickle. */
export function innerFileOf(args: KnownValue): PickledBytes | undefined {
  const [given, ...others] = Array.isArray(args) ? (args as readonly KnownValue[]) : [];
  if (others.length > 0) return undefined;
  if (given instanceof PickledBytes) return given.isText ? undefined : given;
  if (!(given instanceof KnownBytes)) return undefined;
  const bytes = Uint8Array.from(given.characters, (one) => one.charCodeAt(0));
  return new PickledBytes(bytes, 0, bytes.length, 'bytes');
}

/** Whether a value is a class or function. */
export function isGlobal(value: KnownValue): value is NamedGlobal {
  return typeof value === 'object' && value !== null && 'module' in value;
}

function knownAscii(characters: string): KnownBytes | undefined {
  return /^[\0-\x7f]*$/.test(characters) ? new KnownBytes(characters) : undefined;
}

function latin1(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

/** A text that Python 2 wrote as bytes, if it is the same in all encodings and has no escapes. */
export function plainText(bytes: Uint8Array): string | undefined {
  const text = latin1(bytes);
  return /^[\x20-\x5b\x5d-\x7e]*$/.test(text) ? text : undefined;
}

/** The text between quotes; undefined unless exactly two quotes enclose it. */
export function unquoted(line: string): string | undefined {
  return /^'[^']*'$|^"[^"]*"$/.test(line) ? line.slice(1, -1) : undefined;
}
