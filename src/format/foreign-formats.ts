/** Recognises other file formats, for error messages about files that are not safetensors. */

/** First bytes of a file that are looked at; a tar archive has its mark at byte 257. */
export const HEAD_BYTE_LENGTH = 512;

const TAR_MARK = 'ustar';
const TAR_MARK_AT = 257;

const PICKLE = 'a Python pickle (a checkpoint of an old torch.save, or joblib)';
const ZIP = 'a zip archive (as torch.save and numpy.savez write)';
const NUMPY = 'a numpy array (.npy)';
const GGML = 'a GGML file (the predecessor of GGUF)';
const ARROW = 'an Arrow or Parquet file';

/** First bytes, one character per byte, and what completes "looks like …". */
const PREFIXES: readonly (readonly [string, string])[] = [
  [
    'version https://git-lfs',
    'a Git LFS pointer: run `git lfs pull` to fetch the file it stands for',
  ],
  ['PK\x03\x04', ZIP],
  ['PK\x05\x06', 'an empty zip archive'],
  ['\x80\x02', PICKLE],
  ['\x80\x03', PICKLE],
  ['\x80\x04', PICKLE],
  ['\x80\x05', PICKLE],
  ['GGUF', 'a GGUF file (llama.cpp)'],
  ['FUGG', 'a big-endian GGUF file (llama.cpp)'],
  ['lmgg', GGML],
  ['fmgg', GGML],
  ['tjgg', GGML],
  ['\x89HDF\r\n\x1a\n', 'an HDF5 file (as Keras writes)'],
  ['\x93NUMPY', NUMPY],
  ['\x1f\x8b', 'a gzip archive: unpack it first'],
  ['\x28\xb5\x2f\xfd', 'a zstd archive: unpack it first'],
  ['7z\xbc\xaf\x27\x1c', 'a 7z archive: unpack it first'],
  ['Rar!\x1a\x07', 'a RAR archive: unpack it first'],
  ['BZh', 'a bzip2 archive: unpack it first'],
  ['\xfd7zXZ\0', 'an xz archive: unpack it first'],
  ['ARROW1', ARROW],
  ['PAR1', ARROW],
  ['\0\0\0\0\0\0\0\0', 'a run of zeros (an interrupted download leaves such a file)'],
];

/** Those that the entry for other formats may be able to open. */
export const CONVERTIBLE: readonly string[] = [ZIP, PICKLE, NUMPY];

/** Keys of the fields of an ONNX model that may follow the version of its format. */
const ONNX_KEYS: readonly number[] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42];

/** The same for formats made of text. */
const TEXT_PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/^(\(dp?\d*\n|\(lp?\d*\n|c[A-Za-z_][\w.]*\n\w+\n)/, `${PICKLE}, in its old text form`],
  [
    /^\s*<(!doctype|html|head|body|\?xml|!--)/i,
    'an HTML or XML page (a server answered with it instead of the file)',
  ],
  [
    /^\s*\{.*"weight_map"/s,
    'the index of a checkpoint in several files, which openCheckpoint opens',
  ],
  [
    /^\s*\{.*"(dtype|data_offsets)"/s,
    'the JSON header of a safetensors file without the length that belongs before it',
  ],
  [
    /^\s*(\{\s*["}]|\[\s*[{["\]])/,
    'a JSON document (a configuration, or the error message of a server)',
  ],
];

/** Whether a protobuf message begins as an ONNX model does: with the version of the format, 3 to 31. */
function isOnnx([key, version = 0, next = 0]: Uint8Array): boolean {
  return key === 0x08 && version >= 3 && version < 32 && ONNX_KEYS.includes(next);
}

/**
 * What a file looks like by its first bytes (512 suffice), to complete "looks like …";
 * null when nothing is recognised. Only for files that are known not to be valid safetensors.
 */
export function describeForeignFormat(head: Uint8Array): string | null {
  const text = String.fromCharCode(...head.subarray(0, HEAD_BYTE_LENGTH));
  for (const [prefix, description] of PREFIXES) {
    if (text.startsWith(prefix)) return description;
  }
  if (text.startsWith(TAR_MARK, TAR_MARK_AT)) return 'a tar archive: unpack it first';
  if (isOnnx(head)) return 'an ONNX model';
  const body = text.replace(/^\xef\xbb\xbf/, '');
  return TEXT_PATTERNS.find(([pattern]) => pattern.test(body))?.[1] ?? null;
}
