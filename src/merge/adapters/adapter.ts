/** Opens adapters: their tensors, configuration and name. */

import type { Advice } from '../../errors/advice.js';
import { quoteName } from '../../errors/errors.js';
import type { Tensor } from '../../tensor/tensor.js';
import { type OpenMergeSource, type OwnMergeSource, sourceName } from '../base.js';
import { isPeft } from './detect.js';
import { invalidAdapter } from './errors.js';
import { type CheckedInput, isHandle } from './options.js';
import { PeftConfig } from './peft-config.js';

const CONFIG_NAME = 'adapter_config.json';

/** Advice for adapters without a configuration. */
const CONFIG: Advice = { option: 'config', text: 'or pass config' };

/** The contents of an adapter. */
export interface Adapter {
  /** Name of the file, the folder or the repository; never a path. Null for bytes. */
  readonly name: string | null;
  /** Path or address, for errors. */
  readonly path: string | undefined;
  readonly tensors: ReadonlyMap<string, Tensor>;
  readonly metadata: ReadonlyMap<string, string> | null;
  /** The configuration of a PEFT adapter, else null. */
  readonly config: PeftConfig | null;
}

/**
 * Opens an adapter. What it opened is closed again: local tensors keep their mapping, others are in memory.
 *
 * @throws As `open`; SafetensorsError `SAFETENSORS_INVALID_ADAPTER` for a PEFT adapter without a configuration
 */
export async function readAdapter(
  { source, config }: Pick<CheckedInput, 'source' | 'config'>,
  open: OpenMergeSource,
  signal: AbortSignal | undefined,
): Promise<Adapter> {
  const options = { signal };
  const handle = isHandle(source) ? source : await open(source as never, options);
  const adapter = handle as unknown as OwnMergeSource & { keys(): string[] };
  try {
    const { path, metadata, problems } = adapter;
    if (problems[0] !== undefined) throw problems[0];
    const tensors = adapter.local
      ? new Map(
          (await adapter.tensors(options)).map(({ name }) => [
            name,
            adapter.getTensor(name) as Tensor,
          ]),
        )
      : await adapter.readTensors(undefined, options);
    const parsed =
      config !== undefined || isPeft(path, tensors.keys())
        ? await readConfig(adapter, config, options)
        : null;
    return { name: sourceName(path), path, tensors, metadata, config: parsed };
  } finally {
    if (handle !== source) adapter.close();
  }
}

async function readConfig(
  adapter: OwnMergeSource,
  given: unknown,
  options: { readonly signal: AbortSignal | undefined },
): Promise<PeftConfig> {
  if (given !== undefined) return new PeftConfig(given, adapter.path ?? 'config');
  const config = await findConfig(adapter, options);
  if (config !== null) return config;
  const message = `a PEFT adapter needs its ${CONFIG_NAME}, which has the scale; keep it next to the adapter, ${CONFIG.text}`;
  throw invalidAdapter(message, { path: adapter.path, advice: [CONFIG] });
}

/** Reads the configuration next to an adapter; null without one. */
export async function findConfig(
  adapter: Pick<OwnMergeSource, 'sibling'>,
  options: { readonly signal?: AbortSignal | undefined },
): Promise<PeftConfig | null> {
  const file = await adapter.sibling(CONFIG_NAME, options);
  if (file === undefined) return null;
  const { path, bytes, byteLength } = file;
  if (bytes.length < byteLength) {
    throw invalidAdapter(`the configuration is longer than ${bytes.length} bytes`, { path });
  }
  let config: unknown;
  try {
    config = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw invalidAdapter('the configuration is not valid JSON', { path, cause });
  }
  return new PeftConfig(config, path);
}

/** Name an adapter for messages. */
export function labelOf({ name }: Pick<Adapter, 'name'>): string {
  return name === null ? 'the adapter' : `adapter ${quoteName(name)}`;
}
