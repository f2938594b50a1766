/** Finds the weights of a base that the keys of adapters mean. */

import { diffusersName, sgmNames, transformersName } from './unet-names.js';

/** A model of a pipeline. */
export type Component = 'unet' | 'te1' | 'te2' | 'te3';

/** A tensor of the base, or some rows of it. */
export interface Place {
  /** The name of the tensor. */
  readonly name: string;
  /** The part of a fused projection: which of how many. */
  readonly part: readonly [index: number, count: number] | null;
  /** The model that it belongs to; null when names don't show it. */
  readonly component: Component | null;
}

/** Where single files hold the models of a pipeline. */
const SINGLE_FILE: readonly (readonly [prefix: string, component: Component])[] = [
  ['model.diffusion_model.', 'unet'],
  ['cond_stage_model.transformer.', 'te1'],
  ['cond_stage_model.model.', 'te1'],
  ['conditioner.embedders.0.transformer.', 'te1'],
  ['conditioner.embedders.0.model.', 'te2'],
  ['conditioner.embedders.1.model.', 'te2'],
  ['text_encoders.clip_l.transformer.', 'te1'],
  ['text_encoders.clip_g.transformer.', 'te2'],
  ['text_encoders.t5xxl.transformer.', 'te3'],
];

/** Prefixes of dotted keys. */
const DOTTED: readonly (readonly [prefix: string, component: Component])[] = [
  ['model.diffusion_model.', 'unet'],
  ['diffusion_model.', 'unet'],
  ['transformer.', 'unet'],
  ['unet.', 'unet'],
  ['text_encoder.', 'te1'],
  ['text_encoder_2.', 'te2'],
  ['text_encoder_3.', 'te3'],
];

/** Prefixes of keys with underscores for dots. */
const UNDERSCORED = /^(?:lora|lycoris)_(?:(unet|transformer|te[123]?)_)?(.+)$/s;

/** Names of attention in old Diffusers files, and in text encoders. */
const OLD_ATTENTION: Readonly<Record<string, string>> = {
  to_q: 'q_proj',
  to_k: 'k_proj',
  to_v: 'v_proj',
  to_out: 'out_proj',
};

/** Returns the component that a user or a prefix names. */
export function componentOf(name: string): Component {
  if (name === 'transformer') return 'unet';
  return (name === 'te' ? 'te1' : name) as Component;
}

/** Modules that keys of one path may mean. */
export interface ModulePath {
  /** Without the prefix of the component. */
  readonly path: string;
  readonly component: Component | null;
  /** Whether underscores stand for dots. */
  readonly isFlat: boolean;
}

/** Returns what the path of a module in an adapter may mean, the likeliest first. */
export function modulePaths(path: string): ModulePath[] {
  const flat = UNDERSCORED.exec(path);
  if (flat !== null && !path.includes('.')) {
    const [, prefix, rest] = flat as unknown as [string, string | undefined, string];
    const component = prefix === undefined ? null : componentOf(prefix);
    return [{ path: rest, component, isFlat: true }];
  }
  const found: ModulePath[] = [{ path, component: null, isFlat: false }];
  for (const [prefix, component] of DOTTED) {
    if (!path.startsWith(prefix)) continue;
    const inner = path.slice(prefix.length);
    found.push({ path: inner, component, isFlat: false });
    const current = currentName(inner);
    if (current !== inner) found.push({ path: current, component, isFlat: false });
  }
  const current = currentName(path);
  if (current !== path) found.push({ path: current, component: null, isFlat: false });
  return found;
}

/** Returns the name of a module that an old Diffusers file spells differently. */
function currentName(path: string): string {
  const attention = /^(.*\.self_attn)\.(to_(?:q|k|v|out))$/.exec(path);
  if (attention !== null) return `${attention[1]}.${OLD_ATTENTION[attention[2] as string]}`;
  return path.replace(/\.processor\./, '.').replace(/\.to_out$/, '.to_out.0');
}

/** The names of a base, and the other names of its modules. */
export class BaseNames {
  readonly #names: ReadonlySet<string>;
  /** By module and parameter; flat names after a NUL. */
  readonly #places = new Map<string, Place[]>();
  /** First parts of names. */
  readonly #roots: ReadonlySet<string>;

  constructor(names: Iterable<string>) {
    this.#names = new Set(names);
    this.#roots = new Set(Array.from(this.#names, (name) => name.slice(0, name.indexOf('.') + 1)));
    for (const name of this.#names) this.#add(name);
  }

  #add(name: string): void {
    const single = SINGLE_FILE.find(([prefix]) => name.startsWith(prefix));
    const [prefix, component] = single ?? ['', null];
    const inner = name.slice(prefix.length);
    const at = inner.lastIndexOf('.');
    const [module, parameter] = [inner.slice(0, Math.max(at, 0)), inner.slice(at + 1)];
    const fused = /^in_proj_(weight|bias)$/.exec(parameter);
    if (fused !== null) {
      const layer = transformersName(module.replace(/\.attn$/, '')) ?? module;
      for (const [index, own] of ['q_proj', 'k_proj', 'v_proj'].entries()) {
        const place: Place = { name, part: [index, 3], component };
        this.#put(`${layer}.self_attn.${own}`, fused[1] as string, place);
      }
      return;
    }
    const place: Place = { name, part: null, component };
    const aliases = [diffusersName(module), transformersName(module), ...sgmNames(module)];
    const modules = new Set([module, ...aliases.filter((alias) => alias !== undefined)]);
    for (const alias of modules) this.#put(alias, parameter, place);
  }

  #put(module: string, parameter: string, place: Place): void {
    for (const key of [keyOf(module, parameter), flatKeyOf(module, parameter)]) {
      const found = this.#places.get(key);
      if (found === undefined) this.#places.set(key, [place]);
      else if (!found.some(({ name, part }) => name === place.name && part === place.part)) {
        found.push(place);
      }
    }
  }

  /** Whether the base has a tensor of that name. */
  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** Modules of the base that have such a parameter. */
  *modulesWith(parameter: string): Generator<string, void, void> {
    const end = `.${parameter}`;
    for (const name of this.#names) if (name.endsWith(end)) yield name.slice(0, -end.length);
  }

  /**
   * Returns the tensors that a parameter of a module may be: one; none; several if names are ambiguous.
   *
   * @param isLenient whether the base may have a first part more, or less, than the adapter's names
   */
  find(module: string, parameter: string, isLenient: boolean): readonly Place[] {
    const name = keyOf(module, parameter);
    if (this.#names.has(name)) return [{ name, part: null, component: null }];
    for (const { path, component, isFlat } of modulePaths(module)) {
      const key = isFlat ? flatKeyOf(path, parameter) : keyOf(path, parameter);
      const found = (this.#places.get(key) ?? []).filter(
        (place) => component === null || place.component === null || place.component === component,
      );
      if (found.length > 0) return found;
    }
    if (!isLenient) return [];
    const others = [
      name.slice(name.indexOf('.') + 1),
      ...Array.from(this.#roots, (root) => root + name),
    ];
    return others.flatMap((other): Place[] => {
      return this.#names.has(other) ? [{ name: other, part: null, component: null }] : [];
    });
  }
}

function keyOf(module: string, parameter: string): string {
  return module === '' ? parameter : `${module}.${parameter}`;
}

function flatKeyOf(module: string, parameter: string): string {
  return `\0${module.replaceAll('.', '_')}.${parameter}`;
}
