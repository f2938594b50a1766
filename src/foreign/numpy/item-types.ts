/** NumPy item types, and the safetensors dtypes that hold them. */

import type { Advice } from '../../errors/advice.js';
import type { Dtype } from '../../header/dtype.js';

/** Dtypes that NumPy has only from packages, and loses when saving. */
export type VoidDtype = Extract<Dtype, 'BF16' | `F8_${string}`>;

/** All of them. */
export const VOID_DTYPES: readonly VoidDtype[] = [
  'BF16',
  'F8_E4M3',
  'F8_E5M2',
  'F8_E8M0',
  'F8_E4M3FNUZ',
  'F8_E5M2FNUZ',
];

/** Kind and length in bytes of an item, and its dtype. */
const DTYPE_OF: ReadonlyMap<string, Dtype> = new Map([
  ['b1', 'BOOL'],
  ['i1', 'I8'],
  ['i2', 'I16'],
  ['i4', 'I32'],
  ['i8', 'I64'],
  ['u1', 'U8'],
  ['u2', 'U16'],
  ['u4', 'U32'],
  ['u8', 'U64'],
  ['f2', 'F16'],
  ['f4', 'F32'],
  ['f8', 'F64'],
  ['c8', 'C64'],
]);

const PASS_VOID_DTYPE: Advice = { option: 'voidDtype', text: 'pass voidDtype' };

/** Messages for unsupported kinds. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  O: 'Python objects, which are a pickle; save an array of numbers instead',
  S: 'bytes',
  U: 'text',
  M: 'dates',
  m: 'durations',
  V: `opaque items; ${PASS_VOID_DTYPE.text} for bfloat16 or float8 of ml_dtypes`,
};

/** How items are stored. */
interface ItemType {
  readonly dtype: Dtype;
  readonly isBigEndian: boolean;
}

/**
 * Returns the type of a `descr`.
 *
 * @param voidDtype the dtype of opaque items of its length
 * @returns the obstacle, to complete "found …", when safetensors has no such type
 */
export function itemTypeOf(
  descr: string,
  voidDtype: VoidDtype | undefined,
): ItemType | { readonly problem: string; readonly advice: readonly Advice[] } {
  const [, order, kind = '', length = ''] = /^([<>=|])([A-Za-z])(\d{0,9})$/.exec(descr) ?? [];
  const voidLength = voidDtype === 'BF16' ? '2' : '1';
  const isVoid = kind === 'V' && order !== '>' && length === voidLength;
  const dtype = isVoid ? voidDtype : DTYPE_OF.get(kind + length);
  // NumPy takes `|` for "as here" with numbers of several bytes; no file says so.
  if (dtype === undefined || (order === '|' && length !== '1' && !isVoid)) {
    const what = Object.hasOwn(UNSUPPORTED, kind) ? ` (${UNSUPPORTED[kind]})` : '';
    const advice = kind === 'V' ? [PASS_VOID_DTYPE] : [];
    return { problem: `${JSON.stringify(descr.slice(0, 40))}${what}`, advice };
  }
  return { dtype, isBigEndian: order === '>' };
}
