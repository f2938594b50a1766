/** Scales that a configuration declares: PEFT's, or in the metadata of adapters that Diffusers writes. */

import type { Adapter } from './adapter.js';
import { invalidAdapter } from './errors.js';
import { type ModuleRank, PeftConfig } from './peft-config.js';

/** Rank and alpha of a module, and alpha / rank. */
export interface DeclaredScale extends ModuleRank {
  readonly scale: number;
}

/** Returns a function that returns the scale of a module; null where no configuration declares it. */
export function declaredScales(
  adapter: Pick<Adapter, 'config' | 'metadata' | 'path'>,
): (path: string) => DeclaredScale | null {
  const scales = DiffusersScales.of(adapter);
  return (path) => {
    const config = adapter.config ?? scales?.configOf(path);
    if (config === undefined) return null;
    const found = config.rankOf(scales?.moduleOf(path) ?? path);
    return { ...found, scale: config.scaleOf(found) };
  };
}

/** The key of the metadata: JSON with the fields of PEFT's configurations, after the name of the model. */
const METADATA_KEY = 'lora_adapter_metadata';

/** Alpha / rank. LyCORIS and kohya train with alpha 0 as if it were the rank. */
export function scaleOfAlpha(alpha: number, rank: number): number {
  return alpha === 0 ? 1 : alpha / rank;
}

/** The configurations of the models of a pipeline. */
class DiffusersScales {
  readonly #configs: ReadonlyMap<string, PeftConfig>;

  private constructor(configs: ReadonlyMap<string, PeftConfig>) {
    this.#configs = configs;
  }

  /** Reads the metadata of an adapter; null without any. */
  static of({ metadata, path = '' }: Pick<Adapter, 'metadata' | 'path'>): DiffusersScales | null {
    const fields = fieldsOf(metadata?.get(METADATA_KEY), path);
    if (fields.length === 0) return null;
    const byModel = new Map<string, [string, unknown][]>();
    for (const [key, value] of fields) {
      const at = key.indexOf('.');
      const model = key.slice(0, Math.max(at, 0));
      byModel.set(model, [...(byModel.get(model) ?? []), [key.slice(at + 1), value]]);
    }
    const configs = Array.from(byModel, ([model, own]): [string, PeftConfig] => [
      model,
      new PeftConfig({ peft_type: 'LORA', ...Object.fromEntries(own) }, path),
    ]);
    return new DiffusersScales(new Map(configs));
  }

  /** The configuration for a module. */
  configOf(path: string): PeftConfig | undefined {
    return this.#configs.get(modelOf(path));
  }

  /** The path of a module in its model. */
  moduleOf(path: string): string {
    return path.slice(modelOf(path).length + 1);
  }
}

function modelOf(path: string): string {
  return path.slice(0, Math.max(path.indexOf('.'), 0));
}

function fieldsOf(text: string | undefined, path: string): [string, unknown][] {
  if (text === undefined) return [];
  try {
    return Object.entries(Object(JSON.parse(text)));
  } catch (cause) {
    throw invalidAdapter(`the metadata ${METADATA_KEY} is not valid JSON`, { path, cause });
  }
}
