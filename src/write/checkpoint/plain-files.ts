/** The files beside plain weights that were quantized: no program must take them for quantized ones any more. */

import { statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { insideOf, refuseLink } from '../../file/checkpoint/find-files.js';
import { MAX_CONFIG_BYTE_LENGTH } from '../../file/hub/parameter-count.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { runSync } from '../../platform/io/steps.js';
import { OTHER_CONFIGS } from '../../quantized/plan/configuration.js';
import { plainConfig } from '../../quantized/plan/plain-config.js';
import type { CastTarget } from '../../tensor/float32/cast.js';
import type { OtherFile, OtherFiles } from './other-files.js';

/** The configuration that says, beside much else, how weights are quantized. */
const CONFIG = 'config.json';

/** That of Mistral's own files, `consolidated.safetensors` and the like. */
const OWN_CONFIG = 'params.json';

/** Torch's names of dtypes. */
const TORCH_DTYPES: Readonly<Record<CastTarget, string>> = {
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
  F8_E4M3: 'float8_e4m3fn',
  F8_E5M2: 'float8_e5m2',
};

/**
 * Returns the files to write beside plain weights: the configurations beside the source without what they say about
 * quantization, and of the found files those that are not about it alone.
 *
 * @param source the path of the index or the only file
 * @param dtype the new dtype of the dequantized weights; null without such weights
 * @throws QuantizationError for a configuration that is not an object of JSON; errors of the system
 */
export function plainFiles(
  { files, skipped }: OtherFiles,
  source: string,
  dtype: CastTarget | null,
): OtherFiles {
  const folder = dirname(source);
  const isInside = runSync(insideOf(folder));
  const isOwn = basename(source).startsWith('consolidated');
  const changed = [CONFIG, ...(isOwn ? [OWN_CONFIG] : [])].flatMap((name): OtherFile[] => {
    const path = join(folder, name);
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats?.isFile() !== true || stats.size > MAX_CONFIG_BYTE_LENGTH) return [];
    if (!runSync(isInside(path))) refuseLink(folder, name);
    const config = runSync(readSmallFile(path));
    const contents = plainConfig(config, dtype && TORCH_DTYPES[dtype], path);
    const isChanged = Buffer.compare(config, contents) !== 0;
    return isChanged ? [{ name, path, byteLength: contents.byteLength, contents }] : [];
  });
  const written = new Set(changed.map(({ name }) => name));
  const kept = files.filter(({ name }) => !written.has(name) && !OTHER_CONFIGS.includes(name));
  return { files: [...kept, ...changed], skipped, obsolete: OTHER_CONFIGS };
}
