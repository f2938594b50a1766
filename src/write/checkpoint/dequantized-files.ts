/** Removes quantization from the files next to dequantized weights, so that no program takes these as quantized. */

import { basename, dirname, join } from 'node:path';
import { QuantizationError } from '../../errors/errors.js';
import type { SiblingPlace } from '../../file/checkpoint/find-files.js';
import { readWholeSibling } from '../../file/checkpoint/sibling-files.js';
import { MAX_CONFIG_BYTE_LENGTH } from '../../file/shards/file-names.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { OTHER_CONFIGS } from '../../quantized/plan/configuration.js';
import { dequantizedConfig } from '../../quantized/plan/dequantized-config.js';
import type { CastTarget } from '../../tensor/float32/cast.js';
import { runSync } from '../../work/work.js';
import type { SelectionOptions } from '../selection/options.js';
import type { SelectionReport } from '../selection/selection-report.js';
import {
  type CastWeights,
  CONFIG_FILE,
  type ConfigMismatch,
  changedDtype,
  isCast,
  mismatchesIn,
  statsAt,
} from './cast-config.js';
import { isSameFolder, type SidecarFile, type SidecarFiles } from './sidecar-files.js';

/** Torch's names of dtypes. */
const TORCH_DTYPES: Readonly<Record<CastTarget, string>> = {
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
  F8_E4M3: 'float8_e4m3fn',
  F8_E5M2: 'float8_e5m2',
};

/** What decides about files next to the weights. */
export interface DequantizedWeights {
  readonly selection: Pick<SelectionOptions<never>, 'dtype' | 'dequantize'>;
  readonly report: Pick<SelectionReport, 'dequantized'>;
}

/** Names of files about quantization alone. */
export function obsoleteNames({
  selection,
}: Pick<DequantizedWeights, 'selection'>): readonly string[] {
  return selection.dequantize === undefined ? [] : OTHER_CONFIGS;
}

/**
 * Names of configurations that say, among much else, how weights are quantized. Mistral has a separate one alongside
 * `consolidated.safetensors` and the like.
 *
 * @param weights name of the index or the only file
 */
export function configNames(weights: string): readonly string[] {
  return ['config.json', ...(weights.startsWith('consolidated') ? ['params.json'] : [])];
}

/**
 * Returns the configuration of plain weights; null when it is the same.
 *
 * @throws QuantizationError for a text that is not an object of JSON
 */
export function changedConfig(
  config: Uint8Array,
  path: string,
  { selection: { dequantize, dtype: chosen }, report }: DequantizedWeights,
): Uint8Array | null {
  const dtype = typeof chosen === 'string' ? chosen : dequantize;
  const isSame = (contents: Uint8Array): boolean => Buffer.compare(config, contents) === 0;
  const undeclared = dequantizedConfig(config, null, path);
  // Plain weights next to such a configuration are of a call that was killed before it wrote this file.
  const isNew = report.dequantized.length > 0 || !isSame(undeclared);
  if (!isNew || dtype === undefined) return null;
  const contents = dequantizedConfig(config, TORCH_DTYPES[dtype], path);
  return isSame(contents) ? null : contents;
}

/**
 * Returns the files to write next to plain weights: the configurations next to the source without what they say about
 * quantization, and of the found files those that are not about it alone.
 *
 * @throws QuantizationError for a configuration that is not an object of JSON; FormatError
 *   `SAFETENSORS_UNSAFE_SHARD_NAME` for a link out of the folder; errors of the system
 */
export function dequantizedFiles(
  { files, skipped }: SidecarFiles,
  source: SiblingPlace,
  weights: DequantizedWeights,
): SidecarFiles {
  const folder = dirname(source.path);
  const changed = configNames(basename(source.path)).flatMap((name): SidecarFile[] => {
    const path = join(folder, name);
    const config = runSync(readWholeSibling(source, name));
    const contents = config && changedConfig(config, path, weights);
    return contents ? [{ name, path, byteLength: contents.byteLength, contents }] : [];
  });
  const obsolete = obsoleteNames(weights);
  const written = new Set(changed.map(({ name }) => name));
  const kept = files.filter(({ name }) => !written.has(name) && !obsolete.includes(name));
  return { files: [...kept, ...changed], skipped, obsolete };
}

/**
 * Returns the configurations in the target, other than the written ones, that describe plain weights as quantized:
 * programs would take them for codes.
 */
export function quantizedConfigsIn(
  folder: string,
  written: readonly { readonly name: string }[],
  { report, floatDtypes }: DequantizedWeights & Pick<CastWeights, 'floatDtypes'>,
): readonly ConfigMismatch[] {
  if (report.dequantized.length === 0) return [];
  const dtypes = [...floatDtypes].sort();
  return [CONFIG_FILE, ...OTHER_CONFIGS].flatMap((name): ConfigMismatch[] => {
    const isWritten = written.some((file) => file.name === name);
    const path = join(folder, name);
    const stats = isWritten ? undefined : statsAt(path);
    if (stats?.isFile() !== true || stats.size > MAX_CONFIG_BYTE_LENGTH) return [];
    if (name !== CONFIG_FILE) return [{ name, declared: 'quantization', dtypes }];
    const config = runSync(readSmallFile(path));
    try {
      const isPlain = Buffer.compare(dequantizedConfig(config, null, path), config) === 0;
      return isPlain ? [] : [{ name, declared: 'quantization_config', dtypes }];
    } catch (error) {
      if (!(error instanceof QuantizationError)) throw error;
      return [{ name, declared: null, dtypes }];
    }
  });
}

/**
 * Returns the files to write next to cast weights: `config.json` with the new dtype, where it is copied or is in the
 * target already because the target is the folder of the source. Of other targets only disagreements are returned.
 *
 * @throws As {@link dequantizedFiles}, but for the text of a configuration
 */
export function castFiles(
  found: SidecarFiles,
  source: SiblingPlace,
  target: string,
  weights: CastWeights,
): { readonly others: SidecarFiles; readonly mismatches: readonly ConfigMismatch[] } {
  const none = { others: found, mismatches: [] };
  if (!isCast(weights)) return none;
  const folder = dirname(source.path);
  const isCopied = found.files.some(({ name }) => name === CONFIG_FILE);
  const isInPlace = source.readSibling === undefined && isSameFolder(folder, target);
  if (!isCopied && !isInPlace) return { others: found, mismatches: mismatchesIn(target, weights) };
  const config = runSync(readWholeSibling(source, CONFIG_FILE));
  if (config === undefined) return none;
  const path = join(folder, CONFIG_FILE);
  const { contents, mismatches } = changedDtype(config, path, weights);
  if (contents === null) return { others: found, mismatches };
  const files = found.files.filter(({ name }) => name !== CONFIG_FILE);
  const changed = { name: CONFIG_FILE, path, byteLength: contents.byteLength, contents };
  return { others: { ...found, files: [...files, changed] }, mismatches };
}
