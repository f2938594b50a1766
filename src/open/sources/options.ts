/** Options of `open`: which apply to which kind of source. */

import { argumentRangeError, argumentTypeError, type OptionNames } from '../../errors/arguments.js';
import type { CheckpointFormat } from '../../file/checkpoint/checkpoint.js';
import type { OpenAsyncOptions } from '../../file/checkpoint/open.js';
import type { VoidDtype } from '../../foreign/numpy/item-types.js';
import type { OpenTorchOptions, TorchLimits } from '../../foreign/torch/open.js';
import type { RemoteOptions } from '../../remote/open.js';

const FORMATS: readonly CheckpointFormat[] = ['safetensors', 'torch', 'numpy', 'gguf', 'dcp'];

/** Options of `open`. One that the source cannot use is an error. */
export interface OpenSourceOptions
  extends Omit<OpenAsyncOptions, 'verify' | 'expectedHash'>,
    Omit<RemoteOptions, 'verify' | 'signal'>,
    Pick<OpenTorchOptions, 'root' | 'unknownGlobals'> {
  /**
   * Compares bytes with the digests that their file declares (`safetensors-mmap.sha256`). Requested tensors are
   * compared as they arrive, unless this is false. With true, a local file is read whole and compared when it is
   * opened, and must declare digests.
   */
  readonly verify?: boolean | undefined;
  /** The dtype of NumPy arrays whose items are opaque (`V2`, `V1`), as `ml_dtypes` saves bfloat16 and float8. */
  readonly voidDtype?: VoidDtype | undefined;
  /** Limits on the cost of PyTorch and NumPy files. */
  readonly limits?: TorchLimits | undefined;
  /** False makes no request and reads no model of the Hub cache: for the text of a user. */
  readonly remote?: boolean | undefined;
  /** The formats to read; all of them by default. Others are rejected before they are parsed. */
  readonly formats?: readonly CheckpointFormat[] | undefined;
}

/** A kind of source. */
type SourceKind = CheckpointFormat | 'descriptor' | 'bytes' | 'archive' | 'remote';

type OptionName = keyof OpenSourceOptions;

const FOR_ALL: readonly OptionName[] = ['signal', 'remote', 'formats'];
const OF_STORAGE: readonly OptionName[] = ['storage', 'guard', 'access'];
const OF_FILES: readonly OptionName[] = ['maxHeaderByteLength', 'verify'];
const OF_FOLDERS: readonly OptionName[] = ['variant', 'revision'];
const OF_REQUESTS: readonly OptionName[] = ['token', 'headers', 'fetch', 'concurrency'];

/** The options that each kind of source uses. */
const USED: Readonly<Record<SourceKind, readonly OptionName[]>> = {
  safetensors: [...OF_STORAGE, ...OF_FILES, ...OF_FOLDERS, 'checkPath'],
  descriptor: [...OF_STORAGE, ...OF_FILES],
  bytes: ['maxHeaderByteLength'],
  archive: [...OF_STORAGE, 'maxHeaderByteLength', 'variant'],
  torch: [...OF_STORAGE, 'root', 'unknownGlobals', 'limits'],
  numpy: [...OF_STORAGE, 'voidDtype', 'limits'],
  gguf: [...OF_STORAGE, 'maxHeaderByteLength'],
  dcp: [...OF_STORAGE, 'maxHeaderByteLength', 'limits'],
  remote: [...OF_REQUESTS, ...OF_FILES, ...OF_FOLDERS],
};

/** Kinds of sources in messages. */
const LABELS: Readonly<Record<SourceKind, string>> = {
  safetensors: 'safetensors',
  descriptor: 'a descriptor',
  bytes: 'bytes in memory',
  archive: 'a DDUF archive',
  torch: 'a torch file',
  numpy: 'a NumPy file',
  gguf: 'a GGUF file',
  dcp: 'a distributed checkpoint',
  remote: 'a source that is read by requests',
};

/** Names of the options. */
export const OPEN_SOURCE_OPTIONS: OptionNames<OpenSourceOptions> = {
  signal: true,
  remote: true,
  formats: true,
  storage: true,
  guard: true,
  access: true,
  token: true,
  headers: true,
  fetch: true,
  concurrency: true,
  maxHeaderByteLength: true,
  variant: true,
  revision: true,
  verify: true,
  checkPath: true,
  root: true,
  unknownGlobals: true,
  limits: true,
  voidDtype: true,
};

/**
 * Returns the options that the kind of source uses.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for another one that is given
 */
export function usedOptions(
  options: OpenSourceOptions,
  kind: SourceKind,
): Omit<OpenSourceOptions, 'signal' | 'remote' | 'formats'> {
  const used: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options) as [OptionName, unknown][]) {
    if (value === undefined || FOR_ALL.includes(name)) continue;
    if (!USED[kind].includes(name)) {
      // The value of a token or a header is a secret.
      throw unusedOption(name, OF_REQUESTS.includes(name) ? 'a local source' : LABELS[kind]);
    }
    used[name] = value;
  }
  return used;
}

/** The error for an option that the source cannot use. */
export function unusedOption(name: string, label: string): RangeError {
  const error = new RangeError(`${name} must be left out for ${label}`);
  return Object.assign(error, { code: 'ERR_OUT_OF_RANGE', argument: name });
}

/** Checks the list of formats; all of them without one. Throws a TypeError `ERR_INVALID_ARG_TYPE`. */
export function requireFormats(formats: unknown = FORMATS): readonly CheckpointFormat[] {
  const isList = Array.isArray(formats) && formats.length > 0;
  if (isList && formats.every((one) => FORMATS.includes(one))) return formats;
  const expected = `an array of ${FORMATS.map((one) => `'${one}'`).join(', ')}`;
  throw argumentTypeError('formats', expected, formats);
}

/** Throws a RangeError `ERR_OUT_OF_RANGE` for a format that the caller excludes. */
export function requireFormat(
  format: CheckpointFormat,
  formats: readonly CheckpointFormat[],
): void {
  if (formats.includes(format)) return;
  throw argumentRangeError('formats', `a list with '${format}', which this source is`, formats);
}
