/** Compares the bytes of a file with hashes, when it is opened. */

import { createHash } from 'node:crypto';
import { argumentRangeError, requireBoolean, requireString } from '../errors/arguments.js';
import { FormatError } from '../errors/errors.js';
import type { Header } from '../header/header.js';
import {
  DIGEST_DIGITS,
  DIGESTS_KEY,
  digestMismatch,
  digestsProblem,
} from '../header/tensor-digests.js';
import {
  changeCheck,
  type OpenedFile,
  readBytesOf,
  readFully,
} from '../platform/io/opened-file.js';
import { type HashedRange, RangeHashes } from '../platform/io/range-hashes.js';
import { CACHED_BYTE_LENGTH, cut } from '../work/byte-ranges.js';
import { mapYielding } from '../work/items.js';
import type { Work } from '../work/work.js';

/** Hashes to compare when a file is opened, which then is read from start to end. */
export interface HashCheckOptions {
  /**
   * True compares the bytes of every tensor with the digests in the metadata of the file (`safetensors-mmap.sha256`).
   * A file without digests is rejected. False by default.
   */
  readonly verify?: boolean | undefined;
  /** The SHA-256 that the whole file must have, as 64 hexadecimal digits. */
  readonly expectedHash?: string | undefined;
}

const HASH = /^[\da-f]{64}$/i;

/** Throws a TypeError or a RangeError for unusable options. */
export function requireHashCheckOptions({ verify, expectedHash }: HashCheckOptions): void {
  if (verify !== undefined) requireBoolean('verify', verify);
  if (expectedHash === undefined) return;
  requireString('expectedHash', expectedHash);
  if (!HASH.test(expectedHash)) {
    throw argumentRangeError('expectedHash', '64 hexadecimal digits', expectedHash);
  }
}

/**
 * Reads the file once, in pieces, if there is something to compare.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for other bytes, naming the first tensor that differs, and for a
 *   file without digests
 * @throws FileChangedError when the file changes meanwhile; errors of the system
 */
export function* checkHashes(
  file: OpenedFile,
  header: Header,
  { verify = false, expectedHash }: HashCheckOptions,
): Work<void> {
  const digests = verify ? requireDigests(header, file.path) : undefined;
  if (digests === undefined && expectedHash === undefined) return;
  const { byteLength, mtimeNs } = file;
  const requireUnchanged = changeCheck(file, { size: BigInt(byteLength), mtimeNs });
  const whole = createHash('sha256');
  const ranges = new RangeHashes(digests === undefined ? [] : yield* rangesOf(header));
  const buffer = new Uint8Array(Math.min(CACHED_BYTE_LENGTH, byteLength));
  for (const { begin, end } of cut(0, byteLength, CACHED_BYTE_LENGTH)) {
    const bytes = buffer.subarray(0, end - begin);
    yield* readFully(readBytesOf(file), bytes, begin, file.path);
    if (expectedHash !== undefined) whole.update(bytes);
    yield* ranges.addYielding(bytes);
  }
  requireUnchanged();
  if (expectedHash !== undefined) requireHash(whole.digest('hex'), expectedHash, file.path);
  let at = 0;
  for (const [tensor, found] of ranges.digests()) {
    const declared = digests?.slice(at, at + DIGEST_DIGITS) as string;
    at += DIGEST_DIGITS;
    if (found !== declared) throw digestMismatch(declared, found, { path: file.path, tensor });
  }
}

function requireDigests({ metadata, size }: Header, path: string): string {
  const text = metadata?.get(DIGESTS_KEY);
  if (text === undefined) {
    const message = `expected ${DIGESTS_KEY} in the metadata, found none: \`hash --write\` writes it`;
    throw new FormatError('SAFETENSORS_CHECKSUM_MISMATCH', message, { path });
  }
  const problem = digestsProblem(text, size);
  if (problem === undefined) return text;
  throw digestMismatch(`${text.length} characters`, problem, { path });
}

function rangesOf(header: Header): Work<HashedRange[]> {
  const { dataStart } = header;
  return mapYielding(Array(header.size).keys(), (entry) => ({
    name: header.name(entry),
    begin: dataStart + header.begin(entry),
    end: dataStart + header.end(entry),
  }));
}

function requireHash(found: string, expected: string, path: string): void {
  if (found === expected.toLowerCase()) return;
  const message = `expected a file with the SHA-256 ${expected}, found ${found}`;
  throw new FormatError('SAFETENSORS_CHECKSUM_MISMATCH', message, { path });
}
