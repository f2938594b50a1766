/**
 * Error classes and their stable codes. Match on `code`: messages may be reworded in any release.
 *
 * Every message starts with the file and the tensor it is about, when they are known: a log
 * line shows what to look at. Node's own errors (`ENOENT`, `EACCES`, `ENOMEM` …) are
 * passed on unchanged and are not instances of these classes.
 */

import type { Advice } from './advice.js';
import type { FoundFormat } from './found-format.js';
import { shardNumbersOf } from './shard-numbers.js';

/**
 * Codes of a file that is not valid. Those of safetensors follow the reference's error variants; those from
 * `SAFETENSORS_FOREIGN_FORMAT` on belong to PyTorch, NumPy and GGUF files.
 */
export type FormatErrorCode =
  | 'SAFETENSORS_HEADER_TOO_SMALL'
  | 'SAFETENSORS_HEADER_TOO_LARGE'
  | 'SAFETENSORS_INVALID_HEADER_LENGTH'
  | 'SAFETENSORS_INVALID_HEADER_UTF8'
  | 'SAFETENSORS_INVALID_HEADER_START'
  | 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION'
  | 'SAFETENSORS_DUPLICATE_KEY'
  | 'SAFETENSORS_INVALID_PIPELINE'
  | 'SAFETENSORS_INVALID_OFFSET'
  | 'SAFETENSORS_TENSOR_INVALID_INFO'
  | 'SAFETENSORS_VALIDATION_OVERFLOW'
  | 'SAFETENSORS_MISALIGNED_SLICE'
  | 'SAFETENSORS_METADATA_INCOMPLETE_BUFFER'
  | 'SAFETENSORS_INVALID_INDEX'
  | 'SAFETENSORS_INDEX_TOO_LARGE'
  | 'SAFETENSORS_UNSAFE_SHARD_NAME'
  | 'SAFETENSORS_INDEX_MISMATCH'
  | 'SAFETENSORS_CHECKSUM_MISMATCH'
  | 'SAFETENSORS_DISTRIBUTED_PART'
  | 'SAFETENSORS_DELTA'
  | 'SAFETENSORS_FOREIGN_FORMAT'
  | 'SAFETENSORS_INCOMPLETE_FILE'
  | 'SAFETENSORS_INVALID_ARCHIVE'
  | 'SAFETENSORS_INVALID_PICKLE'
  | 'SAFETENSORS_FORBIDDEN_GLOBAL'
  | 'SAFETENSORS_FOREIGN_LIMIT'
  | 'SAFETENSORS_INVALID_TORCH_CHECKPOINT'
  | 'SAFETENSORS_INVALID_NUMPY'
  | 'SAFETENSORS_INVALID_GGUF'
  | 'SAFETENSORS_INVALID_DISTRIBUTED'
  | 'SAFETENSORS_UNSUPPORTED_TENSOR'
  | 'SAFETENSORS_AMBIGUOUS_ROOT'
  | 'SAFETENSORS_DUPLICATE_NAME';

/** Codes of tensors and metadata that cannot be written. */
export type InvalidTensorErrorCode =
  | 'SAFETENSORS_INVALID_TENSOR_VIEW'
  | 'SAFETENSORS_HEADER_TOO_LARGE';

/** Codes of failed requests. */
export type RemoteErrorCode =
  | 'SAFETENSORS_REMOTE_NOT_FOUND'
  | 'SAFETENSORS_REPOSITORY_NOT_FOUND'
  | 'SAFETENSORS_REVISION_NOT_FOUND'
  | 'SAFETENSORS_UNAUTHORIZED'
  | 'SAFETENSORS_FORBIDDEN'
  | 'SAFETENSORS_GATED_REPOSITORY'
  | 'SAFETENSORS_RANGES_UNSUPPORTED'
  | 'SAFETENSORS_BAD_RESPONSE'
  | 'SAFETENSORS_REMOTE_UNAVAILABLE'
  | 'SAFETENSORS_REMOTE_STALLED'
  | 'SAFETENSORS_OFFLINE'
  | 'SAFETENSORS_UNSAFE_URL'
  | 'SAFETENSORS_XET_ONLY';

/** Codes of quantized tensors that cannot be dequantized. */
export type QuantizationErrorCode =
  | 'SAFETENSORS_QUANTIZATION_UNSUPPORTED'
  | 'SAFETENSORS_QUANTIZATION_INVALID';

/** Every code that an error of this package can carry. */
export type ErrorCode =
  | FormatErrorCode
  | InvalidTensorErrorCode
  | RemoteErrorCode
  | QuantizationErrorCode
  | 'SAFETENSORS_TENSOR_NOT_FOUND'
  | 'SAFETENSORS_TENSOR_TOO_LARGE'
  | 'SAFETENSORS_OUT_OF_MEMORY'
  | 'SAFETENSORS_DTYPE_MISMATCH'
  | 'SAFETENSORS_SLICE_OUT_OF_RANGE'
  | 'SAFETENSORS_TOO_MANY_INDICES'
  | 'SAFETENSORS_MISALIGNED_SLICE'
  | 'SAFETENSORS_NEEDS_NODE'
  | 'SAFETENSORS_NOT_DIVISIBLE'
  | 'SAFETENSORS_INVALID_SELECTION'
  | 'SAFETENSORS_NOT_A_REGULAR_FILE'
  | 'SAFETENSORS_MAPPING_UNAVAILABLE'
  | 'SAFETENSORS_BIG_ENDIAN_HOST'
  | 'SAFETENSORS_FILE_CLOSED'
  | 'SAFETENSORS_FILE_CHANGED'
  | 'SAFETENSORS_SHARED_TENSORS'
  | 'SAFETENSORS_HUB_CACHE_BLOB'
  | 'SAFETENSORS_TARGET_EXISTS'
  | 'SAFETENSORS_TARGET_IN_USE'
  | 'SAFETENSORS_LOCKED'
  | 'SAFETENSORS_CHECKPOINT_NOT_FOUND'
  | 'SAFETENSORS_DIFFUSERS_PIPELINE'
  | 'SAFETENSORS_MISSING_SHARDS'
  | 'SAFETENSORS_NOT_IN_CACHE'
  | 'SAFETENSORS_HEADER_FULL'
  | 'SAFETENSORS_EDIT_INTERRUPTED'
  | 'SAFETENSORS_TENSORS_MISSING'
  | 'SAFETENSORS_ALREADY_WRITTEN'
  | 'SAFETENSORS_WRITER_CLOSED'
  | 'SAFETENSORS_VERIFICATION_FAILED'
  | 'SAFETENSORS_INVALID_ADAPTER'
  | 'SAFETENSORS_INVALID_RECIPE'
  | 'SAFETENSORS_MERGE_UNSUPPORTED'
  | 'SAFETENSORS_MERGE_UNMATCHED'
  | 'SAFETENSORS_MERGE_MISMATCH'
  | 'SAFETENSORS_ALREADY_MERGED'
  | 'SAFETENSORS_NON_FINITE';

/** The subject of an error. */
export interface ErrorContext {
  /** The file, as it was given by the caller. */
  path?: string | undefined;
  /** The tensor's name, unshortened. */
  tensor?: string | undefined;
  /** The actual format of the file. */
  foundFormat?: FoundFormat | undefined;
  /** The words of the message that name an option or a function. */
  advice?: readonly Advice[] | undefined;
  /** The lower-level error that led to this one. */
  cause?: unknown;
}

/** A hostile name can be 100 MB long; a message shows this many UTF-16 units of it. */
const QUOTED_NAME_LENGTH = 120;

/** How many names a message lists. */
const LISTED_NAMES = 20;

/** Quotes a name for a message: escaped as in JSON and cut to a bounded length. */
export function quoteName(name: string): string {
  if (name.length <= QUOTED_NAME_LENGTH) return JSON.stringify(name);
  return `${JSON.stringify(name.slice(0, QUOTED_NAME_LENGTH))}… (${name.length} characters)`;
}

/** Quotes some names for a message, with the number of the rest; empty without names. */
export function quoteNames(names: readonly string[], listed: number = LISTED_NAMES): string {
  const shown = names.slice(0, listed).map(quoteName).join(', ');
  const more = names.length - listed;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

/**
 * Base class of every error of this package, except programmers' mistakes.
 *
 * @example
 * ```ts
 * try {
 *   safeOpen('my-pipeline');
 * } catch (error) {
 *   if (!(error instanceof SafetensorsError)) throw error; // Node's own, such as ENOENT
 *   console.log(error.code, error.path); // → SAFETENSORS_DIFFUSERS_PIPELINE my-pipeline
 * }
 * ```
 */
export class SafetensorsError extends Error {
  /** Stable, machine-readable kind of the error. */
  readonly code: ErrorCode;
  /** The file the error is about, as the caller gave it. */
  declare readonly path?: string;
  /** The tensor the error is about. */
  declare readonly tensor?: string;
  /** The actual format of the file, when its first bytes tell. */
  declare readonly foundFormat?: FoundFormat;
  /** Advice of the message that names options or functions of the library, for programs with other names for them. */
  declare readonly advice?: readonly Advice[];

  /** Puts the file and the tensor of the context before the message. */
  constructor(code: ErrorCode, message: string, context: ErrorContext = {}) {
    const { path, tensor, foundFormat, advice, cause } = context;
    const subject = [path, tensor === undefined ? undefined : `tensor ${quoteName(tensor)}`];
    super(
      [...subject.filter((part) => part !== undefined), message].join(': '),
      cause === undefined ? undefined : { cause },
    );
    this.code = code;
    if (path !== undefined) this.path = path;
    if (tensor !== undefined) this.tensor = tensor;
    if (foundFormat !== undefined) this.foundFormat = foundFormat;
    if (advice !== undefined && advice.length > 0) this.advice = advice;
  }

  /** Class name, as shown in stack traces. */
  override get name(): string {
    return this.constructor.name;
  }
}

/**
 * The bytes are not a valid file of safetensors, torch or NumPy, or hold more than data; trying again does not help.
 * Nothing of the file was run. `foundFormat` is the format of the file when it is another one than expected.
 *
 * @example
 * ```ts
 * try {
 *   parse(new Uint8Array(3));
 * } catch (error) {
 *   if (error instanceof FormatError) console.log(error.code); // → SAFETENSORS_HEADER_TOO_SMALL
 * }
 * ```
 */
export class FormatError extends SafetensorsError {
  declare readonly code: FormatErrorCode;

  /** Takes only the codes of formats. */
  constructor(code: FormatErrorCode, message: string, context?: ErrorContext) {
    super(code, message, context);
  }
}

/**
 * The file has no tensor of that name; the message lists near names, and the number of a file that is one of several
 * of a checkpoint.
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * try {
 *   file.getTensor('embed.wieght');
 * } catch (error) {
 *   if (error instanceof TensorNotFoundError) console.log(error.message);
 *   // → model.safetensors: tensor "embed.wieght": no such tensor; did you mean "embed.weight"?
 * }
 * ```
 */
export class TensorNotFoundError extends SafetensorsError {
  /** `nearNames` are existing names that the caller may have meant, best first; `note` ends the message. */
  constructor(
    tensor: string,
    nearNames: readonly string[],
    context: ErrorContext = {},
    note: string = '',
  ) {
    const hint =
      nearNames.length === 0 ? '' : `; did you mean ${nearNames.map(quoteName).join(', ')}?`;
    const shard = context.path === undefined ? null : shardNumbersOf(context.path);
    const where =
      shard === null
        ? ''
        : ` in file ${shard.number} of ${shard.count} of a checkpoint; its folder or index has all tensors`;
    const message = `no such tensor${where}${hint}${note}`;
    super('SAFETENSORS_TENSOR_NOT_FOUND', message, { ...context, tensor });
  }
}

/**
 * A tensor or metadata cannot be written as given. No file was changed.
 *
 * @example
 * ```ts
 * try {
 *   serialize({ weight: { dtype: 'F32', shape: [2], data: new Float32Array(3) } });
 * } catch (error) {
 *   if (error instanceof InvalidTensorError) console.log(error.message);
 *   // → tensor "weight": expected 8 bytes for F32 of shape [2], found 12
 * }
 * ```
 */
export class InvalidTensorError extends SafetensorsError {
  declare readonly code: InvalidTensorErrorCode;

  /** Takes only the codes of tensors and metadata that cannot be written. */
  constructor(code: InvalidTensorErrorCode, message: string, context?: ErrorContext) {
    super(code, message, context);
  }
}

/** Throws an InvalidTensorError `SAFETENSORS_INVALID_TENSOR_VIEW`; the tensor may be left out. */
export function rejectTensor(message: string, tensor?: string): never {
  throw new InvalidTensorError('SAFETENSORS_INVALID_TENSOR_VIEW', message, { tensor });
}

/**
 * The file was used after it was closed. Views exposed earlier stay valid.
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * file.close();
 * try {
 *   file.getTensor('norm.weight');
 * } catch (error) {
 *   if (error instanceof FileClosedError) console.log(error.message);
 *   // → model.safetensors: the file is closed
 * }
 * ```
 */
export class FileClosedError extends SafetensorsError {
  /** The context names the file. */
  constructor(context?: ErrorContext) {
    super('SAFETENSORS_FILE_CLOSED', 'the file is closed', context);
  }
}

/**
 * The file was truncated or rewritten after it was opened: open it again.
 *
 * @example
 * ```ts
 * import { truncateSync } from 'node:fs';
 *
 * const file = safeOpen('model.safetensors');
 * truncateSync('model.safetensors', 100);
 * try {
 *   file.getTensor('norm.weight');
 * } catch (error) {
 *   if (error instanceof FileChangedError) console.log(error.code, file.ok);
 *   // → SAFETENSORS_FILE_CHANGED false
 * }
 * ```
 */
export class FileChangedError extends SafetensorsError {
  /** `message` has what was expected and found. */
  constructor(message: string, context?: ErrorContext) {
    super('SAFETENSORS_FILE_CHANGED', message, context);
  }
}

/** The subject of a RemoteError. */
interface RemoteErrorContext extends ErrorContext {
  /** Status of the last answer. */
  status?: number | undefined;
  /** The URL that was asked last, without credentials, query and fragment. */
  url?: string | undefined;
}

/**
 * A remote file cannot be read, or the answer does not fit the request. Neither the error nor its cause holds a
 * token, a header of the caller's or the query of a URL.
 *
 * @example
 * ```ts
 * try {
 *   await open('https://models.example/missing.safetensors');
 * } catch (error) {
 *   if (error instanceof RemoteError) console.log(error.code, error.status);
 *   // → SAFETENSORS_REMOTE_NOT_FOUND 404
 * }
 * ```
 */
export class RemoteError extends SafetensorsError {
  declare readonly code: RemoteErrorCode;
  /** Status of the last answer, if any. */
  declare readonly status?: number;
  /** The URL that was asked last, after redirects: without credentials, query and fragment. */
  declare readonly url?: string;

  /** Takes only the codes of requests. */
  constructor(code: RemoteErrorCode, message: string, context: RemoteErrorContext = {}) {
    super(code, message, context);
    if (context.status !== undefined) this.status = context.status;
    if (context.url !== undefined) this.url = context.url;
  }
}

/**
 * A quantized tensor cannot be dequantized: nothing knows its method, or its tensors and the configuration do not fit
 * together. Its codes are not given as values.
 *
 * @example
 * ```ts
 * const file = parse(serialize({ 'mlp.weight_packed': { dtype: 'U8', shape: [2], data: new Uint8Array(2) } }));
 * const [problem] = (await dequantize(file)).problems;
 * console.log(problem?.code, problem?.tensor); // → SAFETENSORS_QUANTIZATION_INVALID mlp.weight
 * ```
 */
export class QuantizationError extends SafetensorsError {
  declare readonly code: QuantizationErrorCode;

  /** Takes only the codes of quantized tensors. */
  constructor(code: QuantizationErrorCode, message: string, context?: ErrorContext) {
    super(code, message, context);
  }
}

// Bundlers that minify give classes short names, which logs would show.
for (const [name, type] of Object.entries({
  SafetensorsError,
  FormatError,
  TensorNotFoundError,
  InvalidTensorError,
  FileClosedError,
  FileChangedError,
  RemoteError,
  QuantizationError,
})) {
  Object.defineProperty(type, 'name', { value: name });
}
