/** Checks the first bytes of a file that is copied unread. */

import { FormatError } from '../errors/errors.js';
import { likeness } from './foreign-formats.js';
import {
  type ParseHeaderOptions,
  PREFIX_BYTE_LENGTH,
  parseHeader,
  readHeaderLength,
} from './header.js';
import { OPEN_BRACE } from './json/reader.js';
import { describeByte } from './json/utf8.js';

/**
 * Throws unless a file begins as safetensors files do: with a length that fits and a brace. A header that is whole
 * in `head` must describe data up to the end of the file; its other errors are left to readers. `head` as for
 * `readHeaderLength`.
 *
 * @throws FormatError as `readHeaderLength`; `SAFETENSORS_INVALID_HEADER_START`,
 *   `SAFETENSORS_METADATA_INCOMPLETE_BUFFER`
 */
export function checkFileStart(
  head: Uint8Array,
  fileByteLength: number,
  options: ParseHeaderOptions,
): void {
  const length = readHeaderLength(head, fileByteLength, options);
  const json = head.subarray(PREFIX_BYTE_LENGTH, PREFIX_BYTE_LENGTH + length);
  if (json[0] === OPEN_BRACE) {
    if (json.length === length) checkDataLength(json.slice(), fileByteLength, options);
    return;
  }
  const { looks, context } = likeness(head, { path: options.path });
  throw new FormatError(
    'SAFETENSORS_INVALID_HEADER_START',
    `${looks}expected the header to begin with "{", found ${describeByte(json, 0)}`,
    context,
  );
}

/** Throws for a file that is shorter or longer than its header declares. */
function checkDataLength(
  json: Uint8Array,
  fileByteLength: number,
  options: ParseHeaderOptions,
): void {
  try {
    parseHeader(json, fileByteLength, options);
  } catch (error) {
    const code = error instanceof FormatError ? error.code : undefined;
    if (code === 'SAFETENSORS_METADATA_INCOMPLETE_BUFFER' || code === undefined) throw error;
  }
}
