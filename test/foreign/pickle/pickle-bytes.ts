/** Pickles put together opcode by opcode, and hosts that record their calls. */
import type { PickleHost } from '../../../src/foreign/pickle/host.js';
import {
  PickleGlobal,
  PickleMap,
  PickleObject,
  type PickleTuple,
  type PickleValue,
} from '../../../src/foreign/pickle/values.js';

/** Bytes of texts (one character is one byte) and numbers. */
export function pickle(...parts: readonly (string | number)[]): Uint8Array {
  return Uint8Array.from(
    parts.flatMap((part) =>
      typeof part === 'number' ? [part] : Array.from(part, (character) => character.charCodeAt(0)),
    ),
  );
}

/** A pickle of protocol 2. */
export function pickle2(...parts: readonly (string | number)[]): Uint8Array {
  return pickle('\x80\x02', ...parts);
}

/** BINUNICODE. */
export function unicode(text: string): string {
  return `X${String.fromCharCode(text.length)}\0\0\0${text}`;
}

/** The function and arguments of a call. */
export class Called extends PickleObject {
  readonly path: string;
  readonly args: PickleTuple;

  /** Runs nothing. */
  constructor(path: string, args: PickleTuple) {
    super();
    this.path = path;
    this.args = args;
  }
}

/** Knows the globals of `good`; everything of `later` becomes a placeholder; nothing else is allowed. */
export const host: PickleHost = {
  global: (module, name) =>
    ['good', 'later'].includes(module)
      ? new PickleGlobal(module, name, module === 'later')
      : undefined,
  call: ({ path, name }, args) =>
    name === 'dict' ? new PickleMap('OrderedDict') : new Called(path, args),
  build: (target: PickleValue) => target,
  persistent: (id) => new Called('persistent', [id]),
};
