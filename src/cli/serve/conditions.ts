/** What a request asks of a file: the range, and the versions that it accepts (RFC 9110, 13 and 14). */

import type { IncomingHttpHeaders } from 'node:http';

/** Bytes of a file, from `begin` to before `end`. */
export interface ByteRange {
  readonly begin: number;
  readonly end: number;
}

/** The answer that a request gets: the whole file, a range of it, or a status without its bytes. */
type RequestedBytes =
  | { readonly status: 200 | 206; readonly range: ByteRange }
  | { readonly status: 304 | 412 | 416 };

/** Units other than bytes are ignored, as the RFC wants. */
const BYTES_UNIT = /^bytes=/i;

/** `bytes=0-9`, `bytes=10-`, `bytes=-10`. */
const ONE_RANGE = /^bytes=(\d*)-(\d*)$/i;

/** A quoted tag at the start of a list, perhaps a weak one, and what separates it from the next. */
const FIRST_TAG = /^[\s,]*((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)/;

/** The tags of a list; stops at the first that is malformed. */
function tagsOf(list: string): string[] {
  const tags: string[] = [];
  let left = list;
  for (;;) {
    const [whole, tag] = FIRST_TAG.exec(left) ?? [];
    if (whole === undefined || tag === undefined) return tags;
    tags.push(tag);
    left = left.slice(whole.length);
  }
}

/** Whether a condition names this version. A weak tag never equals a strong one in `If-Match`. */
function names(condition: string, tag: string, isWeakEnough = false): boolean {
  if (condition.trim() === '*') return true;
  return tagsOf(condition).some((one) => one === tag || (isWeakEnough && one === `W/${tag}`));
}

/**
 * The range of a header, for a file of that length; null for one that no answer can have: malformed, beyond the end,
 * or several ranges. Those could be ignored, but then a request for two rows would get the whole file.
 */
function rangeOf(header: string, byteLength: number): ByteRange | null {
  const [, first, last] = ONE_RANGE.exec(header.trim()) ?? [];
  if (first === undefined || last === undefined || first + last === '') return null;
  const begin = first === '' ? Math.max(0, byteLength - Number(last)) : Number(first);
  const end = first === '' || last === '' ? byteLength : Math.min(byteLength, Number(last) + 1);
  const isBackwards = first !== '' && last !== '' && Number(last) < Number(first);
  return begin < end && !isBackwards ? { begin, end } : null;
}

/**
 * Decides what a request gets of a file that is now `byteLength` bytes long and of the version `tag`.
 *
 * - `If-Match` without this version: 412.
 * - `If-None-Match` with it: 304.
 * - `If-Range` with another version, or with a date: the whole file.
 * - One range in bytes: 206, or 416 when the file has none of these bytes. Several ranges: 416. A range of HEAD is
 *   ignored.
 */
export function requestedBytes(
  method: string,
  headers: IncomingHttpHeaders,
  byteLength: number,
  tag: string,
): RequestedBytes {
  const { range, 'if-match': match, 'if-none-match': noneMatch, 'if-range': ifRange } = headers;
  if (match !== undefined && !names(match, tag)) return { status: 412 };
  if (noneMatch !== undefined && names(noneMatch, tag, true)) return { status: 304 };
  const isAsked = method === 'GET' && range !== undefined && BYTES_UNIT.test(range.trim());
  const whole = { status: 200, range: { begin: 0, end: byteLength } } as const;
  if (!isAsked || (typeof ifRange === 'string' && ifRange.trim() !== tag)) return whole;
  const found = rangeOf(range, byteLength);
  return found === null ? { status: 416 } : { status: 206, range: found };
}
