/** A converted GGUF model of the Llama family with the names and the rows of Transformers. */

import { dirname, join } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import { FormatError } from '../../errors/errors.js';
import { llamaConfig } from '../../foreign/gguf/llama-config.js';
import { type GgufMetadata, llamaTensor, ROPE_FACTORS } from '../../foreign/gguf/llama-names.js';
import type { Dtype } from '../../header/dtype.js';
import { TORCH_DTYPES } from '../../header/dtype-names.js';
import { immediate, runAsync } from '../../work/work.js';
import { CONFIG_FILE } from '../checkpoint/cast-config.js';
import type { SidecarFile } from '../checkpoint/sidecar-files.js';
import type { SourceTensor } from '../checkpoint/source.js';
import { selectionSource, type Unselectable } from '../selection/select.js';
import { RewrittenRows } from './rewritten-rows.js';
import type { ConversionSource, SourceTensorInfo } from './source.js';

/** The architecture whose names and rows are known. */
const LLAMA = 'llama';

/**
 * Returns the same source with other names, and the rows of attention heads in the order of Transformers. Tensors
 * without a name there are problems unless they are left out. Takes ownership of the source, also when it throws.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for another architecture; `signal.reason`
 */
export async function hfSource(
  source: ConversionSource,
  metadata: GgufMetadata,
  signal: AbortSignal | undefined,
): Promise<ConversionSource> {
  try {
    const architecture = String(metadata.get('general.architecture'));
    if (architecture !== LLAMA) {
      const expected = `left out for the architecture ${architecture}: the names of ${LLAMA} models are known`;
      throw argumentRangeError('naming', expected, 'hf');
    }
    const { path } = source;
    const { tensors: stored, unselectable: unread } = await runAsync(source.list(), signal);
    const tensors: RewrittenRows[] = [];
    const unselectable: Unselectable<SourceTensorInfo>[] = [...unread];
    const names = new Set<string>();
    for (const tensor of stored) {
      const { name, info } = tensor;
      if (name === ROPE_FACTORS) continue;
      try {
        for (const one of namedTensors(tensor, metadata, path)) {
          requireOnce(one, names, path);
          tensors.push(one);
        }
      } catch (error) {
        if (!(error instanceof FormatError)) throw error;
        unselectable.push({ name, info, problem: error });
      }
    }
    for (const { name } of unselectable) names.add(name);
    const shapes = stored.map(({ name, info: { shape } }) => ({ name, shape }));
    const described = llamaConfig(metadata, shapes);
    return {
      ...{ path, files: source.files, duplicates: source.duplicates, root: source.root },
      ...(source.isReadBack === undefined ? {} : { isReadBack: source.isReadBack }),
      table: null,
      *list() {
        yield;
        return { ...selectionSource(names, null, path), tensors, unselectable };
      },
      metadataOf: () => source.metadataOf(),
      ...('missing' in described
        ? { missingConfig: described.missing, readSibling: source.readSibling }
        : withConfig(described.config, path, tensors)),
      verify: async (some, ends) => {
        const written = (some as readonly RewrittenRows[]).map((one) => one.stored);
        await source.verify?.([...new Set(written)], ends);
      },
      close: () => source.close(),
    };
  } catch (error) {
    source.close();
    throw error;
  }
}

/** The tensors that a stored one becomes. */
function namedTensors(
  tensor: SourceTensor<SourceTensorInfo>,
  metadata: GgufMetadata,
  path: string,
): RewrittenRows[] {
  const { shape } = tensor.info;
  const { names, heads } = llamaTensor(tensor.name, shape, metadata, path);
  if (names.length === 1) {
    return [new RewrittenRows(tensor, { name: names[0] as string, shape, part: 0, heads })];
  }
  const ofOne = shape.slice(1);
  return names.map((name, part) => new RewrittenRows(tensor, { name, shape: ofOne, part, heads }));
}

/** Throws a FormatError `SAFETENSORS_INVALID_GGUF` for a name that another tensor has. */
function requireOnce({ name, stored }: RewrittenRows, names: Set<string>, path: string): void {
  if (names.has(name)) {
    const message = `another tensor has the same name in Transformers: ${name}`;
    throw new FormatError('SAFETENSORS_INVALID_GGUF', message, { path, tensor: stored.name });
  }
  names.add(name);
}

/** The configuration as a file next to the weights, with the dtype of the embeddings. */
function withConfig(
  config: Readonly<Record<string, unknown>>,
  modelPath: string,
  tensors: readonly RewrittenRows[],
): Pick<ConversionSource, 'generated' | 'readSibling'> {
  const { dtype } = (tensors[0] as RewrittenRows).info as { readonly dtype: Dtype };
  const torchDtype = TORCH_DTYPES[dtype];
  const text = JSON.stringify({ ...config, torch_dtype: torchDtype }, null, 2);
  const contents = new TextEncoder().encode(`${text}\n`);
  const path = join(dirname(modelPath), CONFIG_FILE);
  const { byteLength } = contents;
  const file: SidecarFile = { name: CONFIG_FILE, path, byteLength, contents };
  return {
    generated: [file],
    readSibling: (name) =>
      immediate(() => (name === CONFIG_FILE ? { path, bytes: contents, byteLength } : undefined)),
  };
}
