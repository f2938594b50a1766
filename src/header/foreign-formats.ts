/** Recognises other file formats, for errors about files that are not safetensors. */

import { OPEN_READS } from '../errors/advice.js';
import type { ErrorContext } from '../errors/errors.js';
import type { FoundFormat } from '../errors/found-format.js';
import { BY_CONTENT, type ForeignFormat, formatOfArchive, formatOfName } from './foreign-names.js';

/** Bytes at the start of a file that tell its format; a tar archive has its mark at byte 257. */
export const HEAD_BYTE_LENGTH = 512;

const TAR_MARK = 'ustar';
const TAR_MARK_AT = 257;

/** The checksum field of a tar header; the sum counts the field itself as blanks. */
const TAR_SUM_BEGIN = 148;
const TAR_SUM_END = 156;

/** An octal number as Python's `int(text.strip() or "0", 8)` reads it; slightly more lenient. */
const OCTAL_NUMBER = /^[^!-~]*([+-]?)(?:0[oO])?([0-7_]*)[^!-~]*$/;

const LFS_POINTER = 'a Git LFS pointer: run `git lfs pull` to fetch the file it stands for';
const PICKLE = 'a Python pickle (a checkpoint of an old torch.save, or joblib)';
const ZIP = 'a zip archive (as torch.save and numpy.savez write)';
const NUMPY = 'a numpy array (.npy)';
const GGML = 'a GGML file (the predecessor of GGUF)';
const ARROW = BY_CONTENT.ARROW.description;

/** First bytes, one character per byte; format; description. */
const PREFIXES: readonly (readonly [string, FoundFormat, string])[] = [
  ['version https://git-lfs', 'git-lfs-pointer', LFS_POINTER],
  ['version https://hawser', 'git-lfs-pointer', LFS_POINTER],
  [
    '# xet version',
    'xet-pointer',
    'a Xet pointer: run `git xet checkout` to fetch the file it stands for',
  ],
  [
    '/annex/objects/',
    'git-annex-pointer',
    'a git-annex pointer: run `git annex get` to fetch the file it stands for',
  ],
  ['!<symlink>', 'link', 'a symbolic link of Cygwin: open the file that it points to'],
  ['L\0\0\0\x01\x14\x02\0', 'link', 'a Windows shortcut: open the file that it points to'],
  ['book\0\0\0\0mark', 'link', 'a macOS alias: open the file that it points to'],
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

/** Descriptions of formats that `open` may be able to read. */
const CONVERTIBLE: readonly string[] = [ZIP, PICKLE, NUMPY];

/** Keys of the fields of an ONNX model that may follow the version of its format. */
const ONNX_KEYS: readonly number[] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42];

/** Patterns of text formats, with format and description. */
const TEXT_PATTERNS: readonly (readonly [RegExp, FoundFormat, string])[] = [
  [/^(\(dp?\d*\n|\(lp?\d*\n|c[A-Za-z_][\w.]*\n\w+\n)/, 'pickle', `${PICKLE}, in its old text form`],
  [
    /^(?:outs:|wdir:|deps:)\s*\n?-? *md5:|^(?:md5|outs): *(?:[\da-f]{32}|\n- md5:)/,
    'dvc-pointer',
    'a DVC pointer: run `dvc pull` to fetch the file it stands for',
  ],
  [/^\s*<\?xml.*<net\s/s, 'openvino', BY_CONTENT.OPENVINO.description],
  [
    /^\s*<(!doctype|html|head|body|\?xml|!--)/i,
    'html',
    'an HTML or XML page (a server answered with it instead of the file)',
  ],
  [
    /^\s*\{.*"weight_map"/s,
    'checkpoint-index',
    'the index of a checkpoint in several files, which is opened by a name such as model.safetensors.index.json',
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

/** A path with directories, or of a file of weights. */
const LINK_TARGET =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no path has these
  /^(?:(?:\.{1,2}\/|\/)?(?:[\w.@+=-]+\/)+[\w.@+=-]+|[^\u0000-\u001f\u007f-\u009f<>{}"[\]]+\.(?:safetensors|bin|pt|pth|ckpt|gguf|npz|npy|h5|json))\n?$/u;

/** Whether the whole file is a path: Git without symbolic links leaves links as such files. */
function isLinkText(head: Uint8Array, text: string): boolean {
  return head.length < HEAD_BYTE_LENGTH && LINK_TARGET.test(text);
}

/** Whether a file begins as MessagePack with a map whose first key is text. */
function isMessagePackMap(head: Uint8Array): boolean {
  const [first = 0, second = 0, third = 0] = head;
  const isMap16 = first === 0xde;
  if (!isMap16 && (first < 0x81 || first > 0x8f)) return false;
  const at = isMap16 ? 3 : 1;
  const kind = isMap16 ? (head[3] ?? 0) : second;
  const isLong = kind === 0xd9;
  if (!isLong && (kind < 0xa1 || kind > 0xbf)) return false;
  const length = isLong ? ((isMap16 ? head[4] : third) ?? 0) : kind - 0xa0;
  const begin = at + (isLong ? 2 : 1);
  const key = head.subarray(begin, begin + length);
  return key.length === length && key.every((byte) => byte >= 0x20 && byte < 0x7f);
}

/** Whether a protobuf message begins as a SavedModel does: with version 1 and a graph. */
function isSavedModel([key, version, next]: Uint8Array): boolean {
  return key === 0x08 && version === 1 && next === 0x12;
}

/** Name of the first entry of a zip archive, as far as `head` has it. */
function firstEntryName(head: Uint8Array): string {
  const length = (head[26] ?? 0) + 256 * (head[27] ?? 0);
  return String.fromCharCode(...head.subarray(30, 30 + length));
}

/** The module of the classes in the index of a distributed checkpoint. */
const DCP_MODULE = 'torch.distributed.checkpoint.';

/** Recognises more than a prefix shows: which archive, which pickle. */
function refined(
  found: ForeignFormat,
  head: Uint8Array,
  text: string,
  path: string | undefined,
): ForeignFormat {
  if (found.format === 'pickle' && text.includes(DCP_MODULE)) return BY_CONTENT.DCP;
  if (found.description !== ZIP) return found;
  return formatOfArchive([firstEntryName(head)], path) ?? found;
}

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
  const declared = tarSum(head.subarray(TAR_SUM_BEGIN, TAR_SUM_END));
  return declared === sum || declared === signedSum;
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
  'keras',
  'torch-export',
  'zipped-safetensors',
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
 * Recognises a file's format by its first bytes (512 suffice), and where these show nothing, or only an archive, by
 * its name; null if it knows none. Only for files that are known not to be valid safetensors.
 */
export function foreignFormatOf(head: Uint8Array, path?: string): ForeignFormat | null {
  return formatOfContent(head, path) ?? (path === undefined ? null : formatOfName(path));
}

function formatOfContent(head: Uint8Array, path: string | undefined): ForeignFormat | null {
  const text = String.fromCharCode(...head.subarray(0, HEAD_BYTE_LENGTH));
  for (const [prefix, format, description] of PREFIXES) {
    if (text.startsWith(prefix)) return refined({ format, description }, head, text, path);
  }
  if (text.startsWith(TAR_MARK, TAR_MARK_AT) || isTarArchive(head)) {
    return { format: 'tar', description: 'a tar archive: unpack it first' };
  }
  if (text.startsWith('TFL3', 4)) return BY_CONTENT.TFLITE;
  if (isSavedModel(head)) return BY_CONTENT.SAVED_MODEL;
  // Core ML models begin as ONNX models do.
  if (isOnnx(head)) return (path === undefined ? null : formatOfName(path)) ?? BY_CONTENT.ONNX;
  if (isMessagePackMap(head)) return BY_CONTENT.FLAX;
  const body = text.replace(/^\xef\xbb\xbf/, '');
  for (const [pattern, format, description] of TEXT_PATTERNS) {
    if (pattern.test(body)) return { format, description };
  }
  if (!isLinkText(head, body)) return null;
  const target = JSON.stringify(body.trimEnd());
  return {
    format: 'link',
    description: `a symbolic link to ${target}, checked out as text: open that file, or enable core.symlinks in Git and check it out again`,
  };
}

const ADDRESS = /^(?:hf|https?):/i;

/**
 * Begins a message with the file's format, which tells more than the violated rule. Also adds the format to the
 * error's context.
 */
export function likeness(
  head: Uint8Array,
  context: ErrorContext,
): { readonly looks: string; readonly context: ErrorContext } {
  const found = foreignFormatOf(head, context.path);
  if (found === null) return { looks: '', context };
  const { format, description } = found;
  const isRead = CONVERTIBLE.includes(description);
  // Pickles and archives are read from files of this machine.
  const where = ADDRESS.test(context.path ?? '') ? 'once it is downloaded' : 'by its path';
  const opener = isRead ? `, which ${OPEN_READS.text} ${where}` : '';
  return {
    looks: `looks like ${description}${opener}; `,
    context: { ...context, foundFormat: format, advice: isRead ? [OPEN_READS] : undefined },
  };
}
