/**
 * Scans a file for pickles without building their values. A reader must claim every byte: the structure of an
 * archive, a pickle from its first opcode to its last, storages of the length that the pickle gives, a header and its
 * numbers. Unclaimed bytes are a finding.
 */

import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import {
  describeForeignFormat,
  HEAD_BYTE_LENGTH,
  isTarArchive,
} from '../../header/foreign-formats.js';
import type { PathLike } from '../../platform/io/paths.js';
import { fileKindOf } from '../file-kind.js';
import { requireLimits } from '../limits.js';
import { bytesReader, lookInto, readStart } from '../open-file.js';
import { allPickleLimits, type PickleLimits } from '../pickle/limits.js';
import { mayRun } from '../pickle/scan.js';
import type { ByteReader } from '../zip/archive.js';
import { ARCHIVE_LIMITS, type ArchiveLimits } from '../zip/limits.js';
import { type ArchiveScanOptions, scanArchive } from './scan-archive.js';
import { scanArrays } from './scan-array.js';
import { ScanNotes } from './scan-notes.js';
import { archiveAtEnd, scanOther } from './scan-other.js';
import type { ScanReport } from './scan-report.js';
import { isPickleAt, scanStream } from './scan-stream.js';

/** Limits of a scan, which reads no tensors and builds no values. */
interface ScanLimits
  extends ArchiveLimits,
    Pick<PickleLimits, 'maxPickleByteLength' | 'maxOpcodes'> {}

const SCAN_LIMITS: OptionNames<ScanLimits> = {
  ...ARCHIVE_LIMITS,
  maxPickleByteLength: true,
  maxOpcodes: true,
};

/** Options of `scanPickle`. */
export interface ScanOptions {
  /** Limits on the cost of the scan; the defaults are far above the needs of real files. */
  readonly limits?: ScanLimits | undefined;
  /**
   * True compares every entry of an archive with its checksum, which reads the whole archive. By default only pickles
   * are compared.
   */
  readonly verify?: boolean | undefined;
}

const SCAN_OPTIONS: OptionNames<ScanOptions> = {
  limits: SCAN_LIMITS,
  verify: true,
};

/** How deep files may nest in the pickles of others: honest storages have no pickles with files in them. */
const MAX_INNER_DEPTH = 8;

/** An archive without entries begins with its end record. */
const EMPTY_ARCHIVE = 'PK\x05\x06';

/** As the public `scanPickle`. */
export function scanPickle(path: PathLike, options: ScanOptions = {}): ScanReport {
  requireOptions(options, SCAN_OPTIONS);
  const { verify = false } = options;
  requireBoolean('verify', verify);
  const limits = requireLimits(options.limits, SCAN_LIMITS);
  return lookInto(path, (start, file) => {
    const notes = new ScanNotes(allPickleLimits(limits));
    scanContents(start, file, { ...limits, verify }, notes);
    return notes.report(otherFormat(start));
  });
}

/** Scans a file, and the files that its pickles load from their own bytes. */
function scanContents(
  start: Uint8Array,
  file: ByteReader,
  options: ArchiveScanOptions,
  notes: ScanNotes,
  depth = 0,
): void {
  if (isTarArchive(start.subarray(0, HEAD_BYTE_LENGTH))) {
    const message = 'a tar archive by its first 512 bytes, which full torch.load opens';
    notes.add('unread-archive', message, 0);
  }
  if (fileKindOf(start) === 'zip' || startText(start, 4) === EMPTY_ARCHIVE) {
    scanArchive(file, options, notes);
  } else {
    scanPlainFile(start, file, notes);
  }
  for (const inner of notes.takeInnerFiles()) {
    if (notes.isFull) return;
    if (depth >= MAX_INNER_DEPTH) {
      notes.add('limit', 'files nest deeper than the scan reads', inner.position, inner.entry);
      return;
    }
    const innerNotes = new ScanNotes(notes.limits, notes);
    const reader = bytesReader(inner.bytes);
    scanContents(readStart(reader), reader, options, innerNotes, depth + 1);
    notes.addInner(innerNotes, inner);
  }
}

/** Scans a file other than an archive. */
function scanPlainFile(start: Uint8Array, file: ByteReader, notes: ScanNotes): void {
  const archiveEnd = archiveAtEnd(file);
  if (archiveEnd !== undefined) {
    const message = 'the end of a zip archive, which other readers look for at the end of a file';
    notes.add('nested-archive', message, archiveEnd);
  }
  const kind = fileKindOf(start);
  if (kind === 'npy') {
    scanArrays(file, notes);
    return;
  }
  const head = file.read(0, Math.min(file.byteLength, notes.limits.maxPickleByteLength + 1));
  const source = { bytes: head, byteLength: file.byteLength, entry: undefined };
  const isMarked = kind !== 'safetensors' && isPickleAt(head, 0);
  const first = notes.walk(source, 0);
  const isWhole = first.problem === undefined && first.end === file.byteLength;
  if (isMarked || isWhole || mayRun(first)) scanStream(file, source, first, notes);
  else scanOther(start, head, file, notes);
}

function startText(start: Uint8Array, byteLength: number): string {
  return String.fromCharCode(...start.subarray(0, byteLength));
}

function otherFormat(start: Uint8Array): string {
  if (fileKindOf(start) === 'safetensors') return 'a safetensors file';
  return describeForeignFormat(start.subarray(0, HEAD_BYTE_LENGTH)) ?? 'unknown';
}
