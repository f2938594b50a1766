/** How the keys and dtypes of a header are spelled: always, and by nearly all writers. */

import { Literal } from '../json/reader.js';
import { DTYPE_NAMES } from './dtype.js';

const encoder = new TextEncoder();

/** A JSON string without its opening quote: what `compareStrings` compares. */
function literal(text: string): Uint8Array {
  return encoder.encode(`${text}"`);
}

/** The key of the metadata. */
export const METADATA: Uint8Array = literal('__metadata__');
/** The keys of a description. */
export const FIELDS: readonly Uint8Array[] = [
  literal('dtype'),
  literal('shape'),
  literal('data_offsets'),
];
/** What the oldest draft of the format called the offsets. */
export const OLD_DATA_OFFSETS: Uint8Array = literal('offsets');
/** The dtypes by their codes. */
export const DTYPES_AS_KEYS: readonly Uint8Array[] = DTYPE_NAMES.map(literal);
/** The usual spelling of a field's key. */
export const USUAL_FIELDS: readonly Literal[] = ['dtype', 'shape', 'data_offsets'].map(
  (key) => new Literal(`"${key}":`),
);
/** The usual start of a description, by the dtype's code. */
export const USUAL_STARTS: readonly Literal[] = DTYPE_NAMES.map(
  (name) => new Literal(`{"dtype":"${name}","shape":[`),
);
/** What usually stands between shape and offsets. */
export const USUAL_OFFSETS: Literal = new Literal('],"data_offsets":[');

/** Dtypes of the oldest draft were spelled as those of numpy and torch. */
export const OLD_DTYPE: RegExp = /^(b?float|u?int)\d+$|^bool$/;
/** For messages. */
export const OLD_DRAFT = 'as in the oldest draft of the format, which no reader accepts any more';
