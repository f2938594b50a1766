/** `config.json` next to cast weights: programs load them as the dtype that it lists. */

import { type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { QuantizationError } from '../../errors/errors.js';
import { MAX_CONFIG_BYTE_LENGTH } from '../../file/shards/file-names.js';
import type { Dtype } from '../../header/dtype.js';
import { TORCH_DTYPES } from '../../header/dtype-names.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { castConfig } from '../../quantized/plan/dequantized-config.js';
import { runSync } from '../../work/work.js';
import type { SelectionOptions } from '../selection/options.js';
import type { SelectionReport } from '../selection/selection-report.js';

/** The configuration whose dtype programs use. */
export const CONFIG_FILE = 'config.json';

/** A configuration that lists another dtype than the weights have, or describes plain weights as quantized. */
export interface ConfigMismatch {
  /** Its name in the target. */
  readonly name: string;
  /** The dtype, or the member about quantization, that it lists; null for a text that is not an object of JSON. */
  readonly declared: string | null;
  /** The floating-point dtypes of the tensors. */
  readonly dtypes: readonly Dtype[];
}

/** The written tensors, and how their dtypes were chosen. */
export interface CastWeights {
  readonly selection: Pick<SelectionOptions<never>, 'dtype'>;
  readonly report: Pick<SelectionReport, 'cast'>;
  /** The dtypes of all floating-point tensors that are written. */
  readonly floatDtypes: ReadonlySet<Dtype>;
}

/** The configuration to write, and the disagreement if it is written as it was. */
interface CastConfig {
  /** Null when it stays as it is. */
  readonly contents: Uint8Array | null;
  readonly mismatches: readonly ConfigMismatch[];
}

const UNCHANGED: CastConfig = { contents: null, mismatches: [] };

/** Whether a configuration may list another dtype than the tensors have now. */
export function isCast({ selection, report, floatDtypes }: CastWeights): boolean {
  return (selection.dtype !== undefined || report.cast.length > 0) && floatDtypes.size > 0;
}

/**
 * Returns the configuration of cast weights. When all floating-point tensors have one dtype, the configuration lists
 * it, in sections such as `text_config`, too; otherwise it stays, and a dtype that no tensor has is a mismatch.
 */
export function changedDtype(config: Uint8Array, path: string, weights: CastWeights): CastConfig {
  if (!isCast(weights)) return UNCHANGED;
  const dtypes = [...weights.floatDtypes].sort();
  const names = dtypes.map((dtype) => TORCH_DTYPES[dtype] ?? dtype);
  const [only] = names;
  try {
    const { contents, declared } = castConfig(config, only ?? '', path);
    if (names.length === 1)
      return { contents: declared.length === 0 ? null : contents, mismatches: [] };
    const [other] = declared.filter((name) => !names.includes(name));
    if (other === undefined) return UNCHANGED;
    return { contents: null, mismatches: [{ name: CONFIG_FILE, declared: other, dtypes }] };
  } catch (error) {
    if (!(error instanceof QuantizationError)) throw error;
    return { contents: null, mismatches: [{ name: CONFIG_FILE, declared: null, dtypes }] };
  }
}

/** The disagreements of a configuration that is in the target already, and is not written. */
export function mismatchesIn(folder: string, weights: CastWeights): readonly ConfigMismatch[] {
  const path = join(folder, CONFIG_FILE);
  const stats = isCast(weights) ? statsAt(path) : undefined;
  if (stats?.isFile() !== true || stats.size > MAX_CONFIG_BYTE_LENGTH) return [];
  const config = runSync(readSmallFile(path));
  const { contents, mismatches } = changedDtype(config, path, weights);
  if (contents === null) return mismatches;
  const [only] = weights.floatDtypes;
  const { declared } = castConfig(config, TORCH_DTYPES[only as Dtype] ?? '', path);
  return [{ name: CONFIG_FILE, declared: declared[0] ?? null, dtypes: [only as Dtype] }];
}

/** Undefined where nothing is, or a parent is a file. */
export function statsAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (hasCode(error, ['ENOTDIR'])) return undefined;
    throw error;
  }
}
