/** Reads the head of an answer to a request for a range. */

/** The requested bytes. */
export interface RangeRequest {
  readonly begin: number;
  /** Position after the last byte; it may lie after the end of the file. */
  readonly end: number;
}

/** Contents of the body: exactly the bytes from `begin` to `end` of a file of `total` bytes. */
export interface AnsweredRange {
  readonly begin: number;
  readonly end: number;
  readonly total: number;
}

/** A body that is the whole file, and whose end is the only evidence of its length. */
export interface UnmeasuredFile {
  readonly total: undefined;
  /** Whether `fetch` decompresses it. `fetch` accepts truncated streams: then even a regular end proves nothing. */
  readonly isDecoded: boolean;
}

/** The reason why an answer is useless. */
interface RangeMismatch {
  readonly code: 'SAFETENSORS_RANGES_UNSUPPORTED' | 'SAFETENSORS_BAD_RESPONSE';
  readonly expected: string;
  readonly found: string;
  /** Length of the whole file, if an answer 416 tells it. */
  readonly total?: number | undefined;
}

/** The header that asks for a range; its last position is inclusive. */
export function rangeHeader({ begin, end }: RangeRequest): string {
  return `bytes=${begin}-${end - 1}`;
}

/** A length in decimal digits as a number; undefined for anything else. */
function wholeNumberOf(text: string | null | undefined): number | undefined {
  if (typeof text !== 'string' || !/^\d{1,16}$/.test(text)) return undefined;
  const length = Number(text);
  return Number.isSafeInteger(length) ? length : undefined;
}

/** `Content-Range` with all three numbers; undefined for anything else. */
function contentRangeOf(headers: Headers): AnsweredRange | undefined {
  const text = headers.get('content-range') ?? '';
  const [, first, last, length] = /^bytes\s+(\d+)-(\d+)\/(\d+)$/i.exec(text.trim()) ?? [];
  const [begin, inclusive, total] = [first, last, length].map(wholeNumberOf);
  if (begin === undefined || inclusive === undefined || total === undefined) return undefined;
  return { begin, end: inclusive + 1, total };
}

/** Length of the whole file when an answer 416 tells it. */
function totalOfUnsatisfied(headers: Headers): number | undefined {
  const text = headers.get('content-range') ?? '';
  return wholeNumberOf(/^bytes\s+\*\/(\d+)$/i.exec(text.trim())?.[1]);
}

function badResponse(expected: string, found: string): RangeMismatch {
  return { code: 'SAFETENSORS_BAD_RESPONSE', expected, found };
}

function noRanges(found: string): RangeMismatch {
  const expected = `206 Partial Content, with Content-Range, from a server that answers ranges`;
  return { code: 'SAFETENSORS_RANGES_UNSUPPORTED', expected, found };
}

/** One coding that runtimes decode, as far as they know it. */
const DECODED = /^(?:(?:x-)?gzip|deflate|br|zstd)$/;

/** The coding of the body, in lower case; empty for the bytes as they are. */
export function codingOf(headers: Headers): string {
  const coding = (headers.get('content-encoding') ?? '').trim().toLowerCase();
  return coding === 'identity' ? '' : coding;
}

/**
 * Whether `fetch` decodes this coding in some runtime. In others the bytes stay as they are, and have another length.
 */
export function isDecodable(coding: string): boolean {
  return DECODED.test(coding);
}

/**
 * Length of the file in an answer that has the whole of it, by `Content-Length`; undefined for a compressed body, whose
 * `Content-Length` is another one, and without the header.
 */
export function wholeLengthOf(headers: Headers): number | undefined {
  return codingOf(headers) === '' ? wholeNumberOf(headers.get('content-length')) : undefined;
}

/** Whether the body has an end of its own, so that a truncated one is a broken connection. */
function isFramed(headers: Headers): boolean {
  return /(?:^|,)\s*chunked\s*$/i.test(headers.get('transfer-encoding') ?? '');
}

/**
 * Compares status and headers with the request. Accepts a whole file (200) if it begins where the range does and is
 * no longer, unless a Content-Range says that the body is a part of the file, or cannot be read. An empty file has no
 * ranges: 416 with a total of 0. For the start of a file (`isStart`), which the caller parses, the end of the body may
 * tell the length.
 */
export function readRangeHead(
  status: number,
  headers: Headers,
  asked: RangeRequest,
  isStart: boolean,
): AnsweredRange | UnmeasuredFile | RangeMismatch {
  const coding = codingOf(headers);
  const isWhole = status === 200 && !headers.has('content-range');
  if (isWhole && isStart) {
    if (isDecodable(coding)) return { total: undefined, isDecoded: true };
    const isUnmeasured = coding === '' && !headers.has('content-length') && isFramed(headers);
    if (isUnmeasured) return { total: undefined, isDecoded: false };
  }
  if (coding !== '') {
    return badResponse('an answer without Content-Encoding', `Content-Encoding: ${coding}`);
  }
  const contentLength = headers.get('content-length');
  if (status === 206) return readPartial(headers, contentLength, asked);
  if (status === 416) {
    const total = totalOfUnsatisfied(headers);
    if (total === 0 && asked.begin === 0) return { begin: 0, end: 0, total };
    const length = total === undefined ? '' : ` of a file of ${total} bytes`;
    return { ...badResponse(rangeHeader(asked), `416 Range Not Satisfiable${length}`), total };
  }
  if (status !== 200) return badResponse('206 Partial Content', `status ${status}`);
  const total = wholeNumberOf(contentLength);
  if (total === undefined) return noRanges('200 with a file of unknown length (no Content-Length)');
  if (asked.begin > 0 || total > asked.end) return noRanges(`200 with all ${total} bytes`);
  const range = headers.get('content-range');
  if (range !== null && contentRangeOf(headers)?.total !== total) {
    const found = `200 with Content-Range: ${range}`;
    return badResponse('206 Partial Content for a part of a file', found);
  }
  return { begin: 0, end: total, total };
}

function readPartial(
  headers: Headers,
  contentLength: string | null,
  asked: RangeRequest,
): AnsweredRange | RangeMismatch {
  const text = headers.get('content-range');
  if (text === null) {
    const hidden = 'a server of another site must list it in Access-Control-Expose-Headers';
    return noRanges(
      `206 without a Content-Range that can be seen; for a page in a browser ${hidden}`,
    );
  }
  const answered = contentRangeOf(headers);
  const expectedEnd = Math.min(asked.end, answered?.total ?? asked.end);
  const expected = `Content-Range: bytes ${asked.begin}-${expectedEnd - 1}/…`;
  if (answered === undefined || answered.begin !== asked.begin || answered.end !== expectedEnd) {
    return badResponse(expected, `Content-Range: ${text}`);
  }
  const byteLength = answered.end - answered.begin;
  if (byteLength <= 0) return badResponse(expected, `Content-Range: ${text}`);
  if (contentLength !== null && wholeNumberOf(contentLength) !== byteLength) {
    return badResponse(`Content-Length: ${byteLength}`, `Content-Length: ${contentLength}`);
  }
  return answered;
}
