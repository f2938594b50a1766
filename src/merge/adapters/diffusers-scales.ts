/** Scales in the metadata of adapters that Diffusers writes. */

import type { Adapter } from './adapter.js';
import { PeftConfig } from './peft-config.js';

/** The key of the metadata: JSON with the fields of PEFT's configurations, after the name of the model. */
const METADATA_KEY = 'lora_adapter_metadata';

/** The configurations of the models of a pipeline. */
export class DiffusersScales {
  readonly #configs: ReadonlyMap<string, PeftConfig>;

  private constructor(configs: ReadonlyMap<string, PeftConfig>) {
    this.#configs = configs;
  }

  /** Reads the metadata of an adapter; null without any. */
  static of({ metadata, path = '' }: Adapter): DiffusersScales | null {
    const fields = fieldsOf(metadata?.get(METADATA_KEY));
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

function fieldsOf(text: string | undefined): [string, unknown][] {
  if (text === undefined) return [];
  try {
    return Object.entries(Object(JSON.parse(text)));
  } catch {
    return [];
  }
}
