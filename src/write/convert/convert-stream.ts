/** `convert` into a stream of one file's bytes, for the standard output. */

import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { requireLimits } from '../../foreign/limits.js';
import { TORCH_LIMITS } from '../../foreign/torch/open.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { requireTransferOptions } from '../../work/transfer.js';
import { WRITE_OPTIONS, type WriteCheckpointOptions } from '../checkpoint/execute-plan.js';
import { type CheckpointLayoutOptions, LAYOUT_OPTIONS } from '../checkpoint/layout.js';
import { rewriteStream } from '../checkpoint/rewrite.js';
import type { CopiedFiles, OtherFilesOptions } from '../checkpoint/sidecar-files.js';
import type { SerializedStream } from '../input/serialized.js';
import type { OverwriteOptions } from '../replacement/replaced-files.js';
import { readSelection } from '../selection/options.js';
import {
  CONVERT_OPTIONS,
  type ConversionOptions,
  type ConversionPlan,
  type ConvertedCheckpoint,
  metadataOption,
  sourceInfo,
} from './convert.js';
import { openConversionSource } from './open-source.js';
import type { ConversionSource } from './source.js';

/** Options of `convertStream`: those of `convert` that do not concern files to be written. */
export interface ConversionStreamOptions
  extends Omit<
    ConversionOptions,
    | keyof WriteCheckpointOptions
    | keyof CheckpointLayoutOptions
    | keyof OtherFilesOptions
    | keyof OverwriteOptions
  > {
  /** Ends the opening, and the stream: its next piece is `signal.reason` as an error. */
  readonly signal?: AbortSignal | undefined;
}

const STREAM_OPTIONS: OptionNames<ConversionStreamOptions> = optionsOfStream();

function optionsOfStream(): OptionNames<ConversionStreamOptions> {
  const ofFiles = { ...WRITE_OPTIONS, ...LAYOUT_OPTIONS, copyOtherFiles: true, overwrite: true };
  const names = Object.entries(CONVERT_OPTIONS).filter(([name]) => !Object.hasOwn(ofFiles, name));
  return { ...Object.fromEntries(names), signal: true } as OptionNames<ConversionStreamOptions>;
}

/** Result of `convertStream`. */
interface StreamedConversion
  extends Omit<
      ConversionPlan,
      'path' | 'files' | 'index' | 'deleted' | 'replaced' | keyof CopiedFiles
    >,
    Pick<ConvertedCheckpoint, 'totalSize'> {
  /** The bytes of the safetensors file; `byteLength` is its length. */
  readonly stream: SerializedStream;
  /** As in the result of `convert`; filled while the stream is read. */
  readonly overflowed: ReadonlyMap<string, number>;
  /** Closes the source. A stream that is read to its end, or left, closes it by itself. */
  close(): void;
}

/**
 * As `convert`, into a stream of one file's bytes. Its length is known before the first piece, and memory holds a few
 * pieces of 1 MiB.
 *
 * Names, dtypes and shapes are checked before the promise resolves. With `verify` the checksums of an archive are
 * compared: those that go with a tensor's bytes while the stream is read, the others before. Nothing can be read back.
 */
export async function convertStream(
  source: string | URL,
  options: ConversionStreamOptions = {},
): Promise<StreamedConversion> {
  requireLittleEndianHost();
  requireOptions(options, STREAM_OPTIONS);
  const selection = readSelection(options);
  const { verify = true, shared = 'dedupe', signal } = options;
  requireTransferOptions({ signal });
  requireLimits(options.limits, TORCH_LIMITS);
  requireBoolean('verify', verify);
  const metadata = metadataOption(options);
  let info: Pick<ConvertedCheckpoint, 'root' | 'ranksFound'> = { root: [] };
  const open = async (): Promise<ConversionSource> => {
    const { dequantize } = selection;
    const opened = await openConversionSource(source, options, {
      ...{ verify, dequantize, naming: options.naming, signal },
    });
    info = sourceInfo(opened);
    return opened;
  };
  const made = await rewriteStream(open, { selection, shared, metadata, signal });
  const { copied, skipped, configMismatches, ...streamed } = made;
  return { ...streamed, ...info };
}
