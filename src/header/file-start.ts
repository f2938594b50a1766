/** Checks the first bytes of a file that is copied unread. */

import { FormatError } from '../errors/errors.js';
import { likeness } from './foreign-formats.js';
import { type ParseHeaderOptions, PREFIX_BYTE_LENGTH, readHeaderLength } from './header.js';
import { OPEN_BRACE } from './json/reader.js';
import { describeByte } from './json/utf8.js';

/**
 * Throws unless a file begins as safetensors files do: with a length that fits and a brace. `head` as for
 * `readHeaderLength`.
 *
 * @throws FormatError as `readHeaderLength`; `SAFETENSORS_INVALID_HEADER_START`
 */
export function checkFileStart(
  head: Uint8Array,
  fileByteLength: number,
  options: ParseHeaderOptions,
): void {
  const length = readHeaderLength(head, fileByteLength, options);
  const json = head.subarray(PREFIX_BYTE_LENGTH, PREFIX_BYTE_LENGTH + length);
  if (json[0] === OPEN_BRACE) return;
  const { looks, context } = likeness(head, { path: options.path });
  throw new FormatError(
    'SAFETENSORS_INVALID_HEADER_START',
    `${looks}expected the header to begin with "{", found ${describeByte(json, 0)}`,
    context,
  );
}
