/** Likely causes of changed bytes. */

import { Buffer } from 'node:buffer';
import { quoteName } from '../../errors/errors.js';
import type { ChangedFile } from '../../file/shards/verification-report.js';
import { beginHash } from '../download/file-hash.js';

/** Longest file that is read to find the cause. */
export const MAX_HINTED_BYTE_LENGTH: number = 2 ** 24;

/** A pointer that git stores in place of a large file. */
const LFS_POINTER = /^version https:\/\/git-lfs\.github\.com\/spec\/v1\n/;
const POINTER_OID = /^oid sha256:([0-9a-f]{64})$/m;
const MAX_POINTER_BYTE_LENGTH = 1024;

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** The cause that the bytes of a file show; null if unknown. `expected` is the hash on the Hub. */
export function hintFor(bytes: Buffer, expected: string): string | null {
  const text = bytes.toString('latin1');
  if (bytes.length <= MAX_POINTER_BYTE_LENGTH && LFS_POINTER.test(text)) {
    const isOfFile = POINTER_OID.exec(text)?.[1] === expected;
    return isOfFile
      ? 'a Git LFS pointer to the file: `git lfs pull` fetches it'
      : 'a Git LFS pointer to another file';
  }
  const isExpected = (changed: Buffer): boolean =>
    beginHash(expected, changed.length).update(changed).digest('hex') === expected;
  const isMarked = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  if (isMarked && isExpected(bytes.subarray(BYTE_ORDER_MARK.length))) {
    return 'the same after its byte order mark';
  }
  const withoutCarriageReturns = text.replaceAll('\r\n', '\n');
  if (
    text !== withoutCarriageReturns &&
    isExpected(Buffer.from(withoutCarriageReturns, 'latin1'))
  ) {
    return 'the same with LF in place of CRLF (git autocrlf)';
  }
  const withCarriageReturns = withoutCarriageReturns.replaceAll('\n', '\r\n');
  if (text !== withCarriageReturns && isExpected(Buffer.from(withCarriageReturns, 'latin1'))) {
    return 'the same with CRLF in place of LF (git autocrlf)';
  }
  return null;
}

/** Adds the hint that a file has the bytes of another one. `expected` are the hashes on the Hub by path. */
export function withExchanged(
  changed: readonly ChangedFile[],
  expected: ReadonlyMap<string, string>,
): ChangedFile[] {
  const owners = new Map(Array.from(expected, ([file, hash]) => [hash, file]));
  const foundIn = new Map(changed.map(({ file, found }) => [file, found]));
  return changed.map((one) => {
    const owner = one.found === null ? undefined : owners.get(one.found);
    if (one.hint !== null || owner === undefined) return one;
    const isExchanged = foundIn.get(owner) === one.expected;
    const verb = isExchanged ? 'exchanged with' : 'has the bytes of';
    return { ...one, hint: `${verb} ${quoteName(owner)}` };
  });
}
