/** What an adapter changes, by the names of the base: PEFT's form (a folder with a configuration) or kohya's (a file). */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { safeOpen } from 'safetensors-mmap';

/** Parts of PEFT that change more than `W + scale * B * A`. */
const UNSUPPORTED = ['use_dora', 'use_qalora', 'megatron_config', 'layer_replication'];

/**
 * Reads an adapter. `changes` has for the name of a weight `{ down, up, scale, transposed }`, factors as float32, and
 * `replaced` has tensors that take the place of the base's.
 */
export function readAdapter(path, weights, component) {
  return statSync(path).isDirectory()
    ? readPeft(path, weights)
    : readKohya(path, weights, component);
}

function readPeft(folder, weights) {
  const config = JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8'));
  if (config.peft_type !== 'LORA') throw new Error(`${folder}: ${config.peft_type} is no LoRA`);
  const unsupported = UNSUPPORTED.filter((key) => config[key]);
  if (unsupported.length > 0) throw new Error(`${folder}: ${unsupported} is not supported`);
  const file = safeOpen(join(folder, 'adapter_model.safetensors'));
  const changes = new Map();
  const replaced = new Map();
  for (const key of file.keys()) {
    const name = key.replace(/^base_model\.model\./, '');
    const [, module, factor] = /^(.+)\.lora_([AB])\.weight$/.exec(name) ?? [];
    if (module === undefined) {
      // `modules_to_save`: trained as a whole.
      if (!weights.has(name)) throw new Error(`${folder}: "${key}" is in no way of the base`);
      replaced.set(name, file.getTensor(key));
    } else if (factor === 'A') {
      const target = `${module}.weight`;
      if (!weights.has(target)) throw new Error(`${folder}: the base has no "${target}"`);
      const down = file.getTensor(key);
      const up = file.getTensor(key.replace('.lora_A.', '.lora_B.'));
      const [rank] = down.shape;
      const alpha = ofPattern(config.alpha_pattern, module) ?? config.lora_alpha;
      const scale = alpha / (config.use_rslora ? Math.sqrt(rank) : rank);
      changes.set(target, { down, up, scale, transposed: config.fan_in_fan_out === true });
    }
  }
  return { file, changes, replaced };
}

/** The value for a module: a key of PEFT's patterns matches the end of its name. */
function ofPattern(patterns, module) {
  for (const [key, value] of Object.entries(patterns ?? {})) {
    if (new RegExp(`(^|.*\\.)(${key})$`).test(module)) return value;
  }
  return undefined;
}

/** kohya's names have underscores for dots, so it is the base that tells which module is meant. */
function readKohya(path, weights, component) {
  const file = safeOpen(path);
  const prefix = `lora_${component}_`;
  const targets = new Map();
  for (const name of weights) {
    if (name.endsWith('.weight'))
      targets.set(prefix + name.slice(0, -7).replaceAll('.', '_'), name);
  }
  const changes = new Map();
  for (const key of file.keys()) {
    const [, module, part] = /^([^.]+)\.(.+)$/.exec(key) ?? [];
    // The other models of a pipeline have prefixes of their own.
    if (!module?.startsWith(prefix)) continue;
    const known = ['lora_down.weight', 'lora_up.weight', 'alpha'];
    if (!known.includes(part)) throw new Error(`${path}: "${key}" is no plain LoRA`);
    const target = targets.get(module);
    if (target === undefined) throw new Error(`${path}: the base has no weight for "${key}"`);
    if (part !== 'lora_down.weight') continue;
    const down = file.getTensor(key);
    const up = file.getTensor(`${module}.lora_up.weight`);
    const [rank] = down.shape;
    const alpha = file.has(`${module}.alpha`)
      ? file.getTensor(`${module}.alpha`).toFloat32()[0]
      : rank;
    changes.set(target, { down, up, scale: alpha / rank, transposed: false });
  }
  return { file, changes, replaced: new Map() };
}
