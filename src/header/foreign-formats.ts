/** Recognises other file formats, for errors about files that are not safetensors. */

import type { ErrorContext } from '../errors/errors.js';
import type { FoundFormat } from '../errors/found-format.js';

/** Bytes at the start of a file that tell its format; a tar archive has its mark at byte 257. */
export const HEAD_BYTE_LENGTH = 512;

const TAR_MARK = 'ustar';
const TAR_MARK_AT = 257;

/** The checksum field of a tar header; the sum counts the field itself as blanks. */
const TAR_SUM_BEGIN = 148;
const TAR_SUM_END = 156;

/** An octal number as Python's `int(text.strip() or "0", 8)` reads it; slightly more lenient. */
const OCTAL_NUMBER = /^[^!-~]*([+-]?)(?:0[oO])?([0-7_]*)[^!-~]*$/;

const PICKLE = 'a Python pickle (a checkpoint of an old torch.save, or joblib)';
const ZIP = 'a zip archive (as torch.save and numpy.savez write)';
const NUMPY = 'a numpy array (.npy)';
const GGML = 'a GGML file (the predecessor of GGUF)';
const ARROW = 'an Arrow or Parquet file';

/** A recognised format; its description completes "looks like …". */
export interface ForeignFormat {
  readonly format: FoundFormat;
  readonly description: string;
}

/** First bytes, one character per byte; format; description. */
const PREFIXES: readonly (readonly [string, FoundFormat, string])[] = [
  [
    'version https://git-lfs',
    'git-lfs-pointer',
    'a Git LFS pointer: run `git lfs pull` to fetch the file it stands for',
  ],
  ['PK\x03\x04', 'zip', ZIP],
  ['PK\x05\x06', 'zip', 'an empty zip archive'],
  ['PK\x07\x08', 'zip', 'a zip archive in several parts'],
  ['\x80\x02', 'pickle', PICKLE],
  ['\x80\x03', 'pickle', PICKLE],
  ['\x80\x04', 'pickle', PICKLE],
  ['\x80\x05', 'pickle', PICKLE],
  ['GGUF', 'gguf', 'a GGUF file (llama.cpp)'],
  ['FUGG', 'gguf', 'a big-endian GGUF file (llama.cpp)'],
  ['lmgg', 'ggml', GGML],
  ['fmgg', 'ggml', GGML],
  ['tjgg', 'ggml', GGML],
  ['\x89HDF\r\n\x1a\n', 'hdf5', 'an HDF5 file (as Keras writes)'],
  ['\x93NUMPY', 'numpy', NUMPY],
  ['\x1f\x8b', 'gzip', 'a gzip archive: unpack it first'],
  ['\x28\xb5\x2f\xfd', 'zstd', 'a zstd archive: unpack it first'],
  ['7z\xbc\xaf\x27\x1c', '7z', 'a 7z archive: unpack it first'],
  ['Rar!\x1a\x07', 'rar', 'a RAR archive: unpack it first'],
  ['BZh', 'bzip2', 'a bzip2 archive: unpack it first'],
  ['\xfd7zXZ\0', 'xz', 'an xz archive: unpack it first'],
  ['ARROW1', 'arrow', ARROW],
  ['PAR1', 'arrow', ARROW],
  ['\0\0\0\0\0\0\0\0', 'zeros', 'a run of zeros (an interrupted download leaves such a file)'],
];

/** Descriptions of formats that `safetensors-mmap/convert` may be able to open. */
const CONVERTIBLE: readonly string[] = [ZIP, PICKLE, NUMPY];

/** Keys of the fields of an ONNX model that may follow the version of its format. */
const ONNX_KEYS: readonly number[] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42];

/** Patterns of text formats, with format and description. */
const TEXT_PATTERNS: readonly (readonly [RegExp, FoundFormat, string])[] = [
  [/^(\(dp?\d*\n|\(lp?\d*\n|c[A-Za-z_][\w.]*\n\w+\n)/, 'pickle', `${PICKLE}, in its old text form`],
  [
    /^\s*<(!doctype|html|head|body|\?xml|!--)/i,
    'html',
    'an HTML or XML page (a server answered with it instead of the file)',
  ],
  [
    /^\s*\{.*"weight_map"/s,
    'checkpoint-index',
    'the index of a checkpoint in several files, which openCheckpoint opens',
  ],
  [
    /^\s*\{.*"(dtype|data_offsets)"/s,
    'json-header',
    'the JSON header of a safetensors file without the length that belongs before it',
  ],
  [
    /^\s*(\{\s*["}]|\[\s*[{["\]])/,
    'json',
    'a JSON document (a configuration, or the error message of a server)',
  ],
];

/** Whether a protobuf message begins as an ONNX model does: with the version of the format, 3 to 31. */
function isOnnx([key, version = 0, next = 0]: Uint8Array): boolean {
  return key === 0x08 && version >= 3 && version < 32 && ONNX_KEYS.includes(next);
}

/**
 * Whether Python's `tarfile` opens what begins with these 512 bytes: it checks nothing but the header's sum, over
 * unsigned or signed bytes, and needs no mark. May accept a few number spellings that Python refuses.
 */
export function isTarArchive(head: Uint8Array): boolean {
  if (head.length < HEAD_BYTE_LENGTH) return false;
  let sum = 0x20 * (TAR_SUM_END - TAR_SUM_BEGIN);
  let signedSum = sum;
  for (let at = 0; at < HEAD_BYTE_LENGTH; at++) {
    if (at >= TAR_SUM_BEGIN && at < TAR_SUM_END) continue;
    const byte = head[at] as number;
    sum += byte;
    signedSum += byte >= 0x80 ? byte - 0x100 : byte;
  }
  const said = tarSum(head.subarray(TAR_SUM_BEGIN, TAR_SUM_END));
  return said === sum || said === signedSum;
}

/** The number in a field of a tar header; NaN if absent. */
function tarSum(field: Uint8Array): number {
  const [first] = field;
  // A large number is stored in binary; the result is exact in the range of a sum.
  if (first === 0x80 || first === 0xff) {
    const sign = first === 0xff ? -1 : 0;
    return field.subarray(1).reduce((number, byte) => number * 0x100 + byte, sign);
  }
  const [text = ''] = String.fromCharCode(...field).split('\0');
  const match = OCTAL_NUMBER.exec(text);
  if (match === null) return Number.NaN;
  const [, sign, digits = ''] = match;
  const number = Number.parseInt(digits.replaceAll('_', '') || '0', 8);
  return sign === '-' ? -number : number;
}

/** Formats that contain other files, possibly with code. */
const CONTAINERS: readonly FoundFormat[] = [
  'zip',
  'tar',
  'hdf5',
  'gzip',
  'zstd',
  '7z',
  'rar',
  'bzip2',
  'xz',
];

/** Describes the archive or compressed file that begins with these bytes; undefined for anything else. */
export function describeContainer(head: Uint8Array): string | undefined {
  const found = foreignFormatOf(head);
  return found !== null && CONTAINERS.includes(found.format) ? found.description : undefined;
}

/** Describes a file's format, to complete "looks like …"; null as for `foreignFormatOf`. */
export function describeForeignFormat(head: Uint8Array): string | null {
  return foreignFormatOf(head)?.description ?? null;
}

/**
 * Recognises a file's format by its first bytes (512 suffice); null if it knows none. Only for files that are known
 * not to be valid safetensors.
 */
export function foreignFormatOf(head: Uint8Array): ForeignFormat | null {
  const text = String.fromCharCode(...head.subarray(0, HEAD_BYTE_LENGTH));
  for (const [prefix, format, description] of PREFIXES) {
    if (text.startsWith(prefix)) return { format, description };
  }
  if (text.startsWith(TAR_MARK, TAR_MARK_AT) || isTarArchive(head)) {
    return { format: 'tar', description: 'a tar archive: unpack it first' };
  }
  if (isOnnx(head)) return { format: 'onnx', description: 'an ONNX model' };
  const body = text.replace(/^\xef\xbb\xbf/, '');
  for (const [pattern, format, description] of TEXT_PATTERNS) {
    if (pattern.test(body)) return { format, description };
  }
  return null;
}

/**
 * Begins a message with the file's format, which tells more than the violated rule. Also adds the format to the
 * error's context.
 */
export function likeness(
  head: Uint8Array,
  context: ErrorContext,
): { readonly looks: string; readonly context: ErrorContext } {
  const found = foreignFormatOf(head);
  if (found === null) return { looks: '', context };
  const { format, description } = found;
  const opener = CONVERTIBLE.includes(description) ? ', which safetensors-mmap/convert opens' : '';
  return {
    looks: `looks like ${description}${opener}; `,
    context: { ...context, foundFormat: format },
  };
}
