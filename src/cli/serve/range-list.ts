/**
 * Ranges of several files in one answer: a browser takes a millisecond for each request, and a sample of a model is
 * thousands of ranges.
 */

import type { ServerResponse } from 'node:http';
import type { ByteRange } from './conditions.js';
import type { ServedFile } from './model-files.js';
import type { OpenVersions } from './open-versions.js';
import { Outlet, type PieceMemory } from './send-bytes.js';

/** Maximum number of ranges of a request. */
const MAX_RANGES = 256;

const ONE_RANGE = /^(\d{1,16})-(\d{1,16})$/;

/** A range of a file, which may be beyond its end. */
export interface FileRange extends ByteRange {
  readonly file: ServedFile;
}

/** Parses `source/0/NAME:0-9+20-29,source/0/OTHER:0-9`, with the last byte of each range; null if it is malformed. */
export function rangesOf(
  query: string,
  files: ReadonlyMap<string, ServedFile>,
): readonly FileRange[] | null {
  const ranges: FileRange[] = [];
  for (const item of query.split(',')) {
    const [path = '', list = ''] = item.split(':');
    const file = files.get(`/${path}`);
    for (const text of list.split('+')) {
      const [, first, last] = ONE_RANGE.exec(text) ?? [];
      const isRange = file !== undefined && Number(first) <= Number(last);
      if (!isRange || ranges.length === MAX_RANGES) return null;
      ranges.push({ file, begin: Number(first), end: Number(last) + 1 });
    }
  }
  return ranges;
}

/**
 * Sends ranges as the body of an answer, and ends it. Each begins with a line of JSON, `{ status, tag, begin, end,
 * byteLength }`, and only those with the status 206 have bytes.
 *
 * @throws As `Outlet.send`. The answer has not ended then
 */
export async function sendRanges(
  response: ServerResponse,
  ranges: readonly FileRange[],
  versions: OpenVersions,
  memory: PieceMemory,
): Promise<void> {
  const outlet = new Outlet(response);
  const sendLine = (line: object) => outlet.write(Buffer.from(`${JSON.stringify(line)}\n`));
  for (const { file, ...range } of ranges) {
    const lease = await versions.acquire(file);
    try {
      if (lease === null) {
        await sendLine({ status: 404 });
        continue;
      }
      const { tag, byteLength } = lease.version;
      const end = Math.min(range.end, byteLength);
      const isThere = range.begin < end;
      const isOpen = await sendLine({
        ...{ status: isThere ? 206 : 416, tag, begin: range.begin, end, byteLength },
      });
      if (!isOpen) return;
      if (isThere && !(await outlet.send(lease.version, { ...range, end }, memory))) return;
    } finally {
      await lease?.release();
    }
  }
  response.end();
}
