/** Opens the source of a conversion, of any format. */

import type { NamesOfOptions } from '../../errors/arguments.js';
import { SafetensorsError } from '../../errors/errors.js';
import { isDdufName } from '../../file/shards/file-names.js';
import { openDistributed } from '../../foreign/distributed/open-distributed.js';
import { otherKind } from '../../foreign/file-kind.js';
import type { GgufMetadata } from '../../foreign/gguf/llama-names.js';
import { openGguf } from '../../foreign/gguf/open-gguf.js';
import { FOREIGN_LIMITS } from '../../foreign/limits.js';
import {
  OPEN_NUMPY_OPTIONS,
  type OpenNumpyOptions,
  openNumpy,
} from '../../foreign/numpy/open-numpy.js';
import { lookInto } from '../../foreign/open-file.js';
import {
  OPEN_TORCH_OPTIONS,
  type OpenTorchOptions,
  openTorchCheckpoint,
} from '../../foreign/torch/open.js';
import { requirePath } from '../../platform/io/paths.js';
import { openSafetensorsSource } from '../checkpoint/safetensors-source.js';
import { detectFormat } from './detect-format.js';
import { ggufSource } from './gguf-source.js';
import { hfSource } from './hf-source.js';
import { openFilesOf } from './open-files.js';
import { openedSource } from './opened-source.js';
import { type ConversionOpening, type ConversionSource, conversionSource } from './source.js';
import { requireUsed } from './used-options.js';

/** Options of all formats together, because the source's format is not known beforehand. */
type ConversionSourceOptions = OpenTorchOptions & OpenNumpyOptions;

/** Read, not mapped, because mapped pages of copied files would count as memory of the process. */
const COPIED = { storage: 'read' } as const;

/**
 * Opens a file, an index, a folder, or a repository in the Hub cache, as `detectFormat` says.
 *
 * @throws As `safeOpen`, `open`; `signal.reason`
 */
export async function openConversionSource(
  source: string | URL,
  options: ConversionSourceOptions,
  { verify, dequantize, naming, signal }: ConversionOpening,
): Promise<ConversionSource> {
  const { limits = {} } = options;
  const given = requirePath('source', source);
  if (isDdufName(given)) {
    const message =
      'expected one checkpoint, found a DDUF archive, which has several: convert it into a folder';
    throw new SafetensorsError('SAFETENSORS_DIFFUSERS_PIPELINE', message, { path: given });
  }
  const { path, format } = await detectFormat(source);
  if (format !== null) requireUsed({ ...options, dequantize, naming }, format);
  if (format === 'safetensors') {
    const { maxIndexByteLength } = limits;
    return await openSafetensorsSource(path, { maxIndexByteLength, verify, dequantize, signal });
  }
  if (format === 'torch') {
    const chosen = { ...among(OPEN_TORCH_OPTIONS, options), ...COPIED };
    const opened = openTorchCheckpoint(path, chosen);
    return conversionSource(openFilesOf(opened, opened.root), verify);
  }
  if (format === 'gguf') {
    const opened = openGguf(path, COPIED);
    const source = await ggufSource(opened, { verify, dequantize, signal });
    if (naming === undefined) return source;
    return await hfSource(source, (await opened.extra()) as GgufMetadata, signal);
  }
  if (format === 'dcp') {
    const opened = await openDistributed(path, { ...COPIED, limits: options.limits }, signal);
    const source = await openedSource(opened, { verify, dequantize, signal });
    // Tensors that are not collected yet would hold the descriptors of the files.
    return { ...source, close: () => opened.close({ detach: true }) };
  }
  if (format === null) {
    throw lookInto(path, (start) => otherKind(start, 'a checkpoint or arrays', { path }));
  }
  const chosen = {
    ...among(OPEN_NUMPY_OPTIONS, options),
    ...COPIED,
    limits: among(FOREIGN_LIMITS, limits),
  };
  const arrays = openNumpy(path, chosen);
  return conversionSource(openFilesOf(arrays, undefined), verify);
}

/** Returns the options with these names. */
function among<Options extends object>(names: NamesOfOptions, options: Options): Options {
  const chosen = Object.entries(options).filter(([name]) => Object.hasOwn(names, name));
  return Object.fromEntries(chosen) as Options;
}
