/** Python's text of keys. */

import { PickleBytes, PickleFloat, PickleGlobal, type PickleValue } from '../../pickle/values.js';
import { TorchDevice, TorchSize } from './values.js';

/** A key as Python's `str` shows it. */
export function formatKey(key: PickleValue): string {
  if (typeof key === 'string') return key;
  return key instanceof TorchDevice ? key.text : pythonText(key);
}

/** A value as Python's `repr` shows it. */
function pythonText(value: PickleValue): string {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value === 'string') return shownText(value);
  if (value instanceof PickleFloat) return shownFloat(value.value);
  if (value instanceof PickleBytes) return shownBytes(value.bytes);
  if (value instanceof PickleGlobal) return value.path;
  if (value instanceof TorchDevice) return shownDevice(value);
  if (!Array.isArray(value)) return `${value}`;
  const items = value.map(pythonText).join(', ');
  if (value instanceof TorchSize) return `torch.Size([${items}])`;
  return value.length === 1 ? `(${items},)` : `(${items})`;
}

function shownDevice({ type, index }: TorchDevice): string {
  return `device(type='${type}'${index === undefined ? '' : `, index=${index}`})`;
}

/** A float: the digits are those of JavaScript; below 1e-4 and from 1e16 on there is an exponent. */
function shownFloat(value: number): string {
  if (!Number.isFinite(value)) return `${value}`.replace('Infinity', 'inf').toLowerCase();
  const sign = Object.is(value, -0) ? '-' : '';
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude >= 1e-4 && magnitude < 1e16)) {
    return `${sign}${value}${Number.isInteger(value) ? '.0' : ''}`;
  }
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}

const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\\', '\\\\'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** Characters that Python doesn't print: controls, unassigned code points, and all blanks but the space. */
const ESCAPED = '[\\\\\\p{C}]|(?! )\\p{Z}';

/** Created on first use: collecting these characters takes half a millisecond. */
let escapedPattern: RegExp | undefined;

function shownText(text: string): string {
  escapedPattern ??= new RegExp(ESCAPED, 'gu');
  return pythonQuoted(
    text.replace(
      escapedPattern,
      (character) => SHORT_ESCAPES.get(character) ?? pythonEscape(character),
    ),
  );
}

/** Escapes a character by its number, in the shortest form. */
function pythonEscape(character: string): string {
  const hex = (character.codePointAt(0) as number).toString(16);
  if (hex.length <= 2) return `\\x${hex.padStart(2, '0')}`;
  return hex.length <= 4 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

function shownBytes(bytes: Uint8Array): string {
  const escaped = String.fromCharCode(...bytes).replace(/[^ -~]|\\/g, (character) => {
    return SHORT_ESCAPES.get(character) ?? pythonEscape(character);
  });
  return `b${pythonQuoted(escaped)}`;
}

/** Quotes a text: with double quotes if it contains only single ones, else with single quotes. */
function pythonQuoted(escaped: string): string {
  if (escaped.includes("'") && !escaped.includes('"')) return `"${escaped}"`;
  return `'${escaped.replaceAll("'", "\\'")}'`;
}
