/** Finds out what an adapter changes: the weight of the base for every module, and the change of each. */

import type { Advice } from '../../errors/advice.js';
import { quoteName, quoteNames, SafetensorsError } from '../../errors/errors.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import { requireMergeDtype } from '../values.js';
import { type Adapter, labelOf } from './adapter.js';
import { inRows, type Slot, type SourcedChange, type WeightChange } from './change.js';
import { PEFT_PREFIX } from './detect.js';
import { invalidAdapter, unsupportedMerge } from './errors.js';
import { matrixShape, valuesOf } from './factors.js';
import {
  type AdapterModule,
  groupKeys,
  type Part,
  type PartTensor,
  unsupportedKind,
} from './keys.js';
import {
  expertsChange,
  lohaChange,
  lokrChange,
  loraChange,
  type ModuleAdapter,
} from './low-rank.js';
import { type BaseNames, modulePaths, type Place } from './names.js';
import type { CheckedInput } from './options.js';
import { type Orientations, orientationOf } from './orientation.js';
import { type Replacement, replacements } from './replacements.js';
import { type DeclaredScale, declaredScales, scaleOfAlpha } from './scales.js';
import { addedTensor, ia3Change, replacedTensor, replacedTokens } from './simple-changes.js';

/** A change, and its weight. */
export interface AssignedChange {
  readonly name: string;
  readonly change: SourcedChange;
}

/** The base, as far as names and shapes go. */
export interface BaseWeights {
  readonly names: BaseNames;
  readonly entries: ReadonlyMap<string, TensorEntry>;
  readonly orientations: Orientations;
  readonly path: string | undefined;
  /** Whether the configuration ties the input embeddings to the head. */
  readonly isTied: boolean;
  /** Whether the parameters of experts are stored as `[in, out]`, where shapes don't show it. */
  readonly hasTransposedExperts: boolean;
}

/** Changes of replaced tensors come first: what is added, is added to them. */
const FIRST: readonly WeightChange['kind'][] = ['replaced', 'tokens'];

/** Advice for keys of several models. */
const COMPONENT: Advice = {
  option: 'component',
  text: "pass component, such as 'te2', or rename",
};

/** The changes of one adapter. */
export class Assignment {
  readonly changes: AssignedChange[] = [];
  /** Keys without a place in the base. */
  readonly unmatched: string[] = [];
  /** Weights of the base that the configuration lists, without factors in the file. */
  readonly missing: readonly string[];
  /** Whether any key is one of an adapter. */
  readonly isAdapter: boolean;
  readonly #adapter: Adapter;
  readonly #input: CheckedInput;
  readonly #base: BaseWeights;
  readonly #declaredOf: (path: string) => DeclaredScale | null;
  readonly #modules: readonly AdapterModule[];
  readonly #used = new Set<string>();
  #orientations: ReadonlySet<boolean> | undefined;

  /**
   * Looks up all modules.
   *
   * @throws SafetensorsError `SAFETENSORS_MERGE_MISMATCH`, `SAFETENSORS_MERGE_UNSUPPORTED`,
   *   `SAFETENSORS_INVALID_ADAPTER`
   */
  constructor(adapter: Adapter, input: CheckedInput, base: BaseWeights) {
    this.#adapter = adapter;
    this.#input = input;
    this.#base = base;
    this.#declaredOf = declaredScales(adapter);
    const { path } = adapter;
    for (const key of adapter.tensors.keys()) {
      const kind = unsupportedKind(key);
      if (kind !== undefined)
        throw unsupportedMerge(`${kind} adapters cannot be merged (${quoteName(key)})`, { path });
    }
    const { modules, others, duplicates } = groupKeys(
      adapter.tensors,
      adapter.config === null ? '' : PEFT_PREFIX,
    );
    if (duplicates !== null) {
      const message = `${quoteNames(duplicates)} are the same part of one module; save each adapter in a separate file`;
      throw invalidAdapter(message, { path });
    }
    this.#modules = modules;
    this.isAdapter = adapter.config !== null || modules.length > 0;
    for (const module of modules) if (this.#isOfComponent(module.path)) this.#addModule(module);
    if (adapter.config === null) {
      this.unmatched.push(...others.flatMap(({ key }) => (this.#isOfComponent(key) ? [key] : [])));
    } else this.#addReplaced(others);
    const rank = ({ change }: AssignedChange): number => (FIRST.includes(change.kind) ? 0 : 1);
    this.changes.sort((one, other) => rank(one) - rank(other));
    this.missing = this.#missing();
  }

  #isOfComponent(path: string): boolean {
    const { component } = this.#input;
    if (component === null) return true;
    const own = modulePaths(path).find((one) => one.component !== null)?.component;
    return own === undefined || own === component;
  }

  #pathOf({ path }: AdapterModule): string {
    return this.#input.rename?.(path) ?? path;
  }

  /** The only place of a parameter; undefined without one. */
  #find(path: string, parameter: string): Place | undefined {
    const { names } = this.#base;
    const places = names.find(path, parameter, this.#adapter.config !== null);
    if (places.length > 1) {
      const found = quoteNames(places.map(({ name }) => name));
      const message = `${quoteName(path)} of ${labelOf(this.#adapter)} may be each of ${found}; ${COMPONENT.text}`;
      throw new SafetensorsError('SAFETENSORS_MERGE_MISMATCH', message, {
        path: this.#adapter.path,
        advice: [COMPONENT],
      });
    }
    return places[0];
  }

  /** A place as rows of a matrix. */
  #slotOf({ name, part }: Place, isParameter = false): Slot {
    const entry = this.#base.entries.get(name) as TensorEntry;
    requireMergeDtype(entry.dtype, name, this.#base.path);
    const { shape } = entry;
    if (part !== null) {
      const [index, count] = part;
      const [all, columns] = matrixShape(shape);
      const rows = all / count;
      return { entry, rows, columns, shape: [rows, ...shape.slice(1)], begin: index * rows };
    }
    const last = shape.at(-1) ?? 1;
    const [rows, columns] = isParameter
      ? [shape.slice(0, -1).reduce((product, size) => product * size, 1), last]
      : matrixShape(shape);
    return { entry, rows, columns, shape, begin: 0 };
  }

  /** @param parts the tensors that the change may depend on */
  #add(slot: Slot, change: WeightChange, parts: Iterable<PartTensor>): void {
    const { entry, begin, rows, columns } = slot;
    const id = `${entry.name}\0${begin}\0${FIRST.includes(change.kind) || change.kind === 'bias' ? change.kind : ''}`;
    if (this.#used.has(id)) {
      const message = `two modules of ${labelOf(this.#adapter)} match ${quoteName(entry.name)}; ${COMPONENT.text}`;
      throw new SafetensorsError('SAFETENSORS_MERGE_MISMATCH', message, {
        path: this.#adapter.path,
        advice: [COMPONENT],
      });
    }
    this.#used.add(id);
    const { path } = this.#adapter;
    if (!Number.isFinite(change.scale)) {
      throw invalidAdapter(`the scale of ${quoteName(entry.name)} is ${change.scale}`, { path });
    }
    const isPart = rows * columns !== entry.shape.reduce((product, size) => product * size, 1);
    const open = (): ReturnType<WeightChange['open']> =>
      inRows(change.open(), begin, begin + rows, columns);
    const sourced = { ...change, label: labelOf(this.#adapter), path, parts: [...parts] };
    this.changes.push({ name: entry.name, change: isPart ? { ...sourced, open } : sourced });
  }

  #adapterOf(module: AdapterModule, weight: string): ModuleAdapter {
    return {
      module,
      context: { path: this.#adapter.path },
      strength: this.#input.strengthOf(weight),
      scaleOf: (rank) => this.#scaleOf(module, rank),
    };
  }

  /** Alpha / rank; a rank of 0 is that of the configuration. */
  #scaleOf(module: AdapterModule, rank: number): number {
    const { path } = this.#adapter;
    const declared = this.#declaredOf(module.path);
    if (declared !== null) {
      if (rank !== 0 && declared.rank !== rank) {
        const message = `${quoteName(module.path)} has factors of rank ${rank}, but the configuration lists ${declared.rank}`;
        throw invalidAdapter(message, { path });
      }
      return declared.scale;
    }
    const alpha = module.parts.get('alpha');
    if (alpha === undefined) return 1;
    const [value = Number.NaN] = valuesOf(alpha.tensor);
    return scaleOfAlpha(value, rank);
  }

  #addModule(module: AdapterModule): void {
    const { parts } = module;
    const path = this.#pathOf(module);
    const places: [Part, ParameterOf][] = [
      ['tokens', 'weight'],
      ['tokenDown', 'weight'],
      ['tokenUp', 'weight'],
      ['down', 'weight'],
      ['up', 'weight'],
      ['ia3', 'weight'],
      ['factors', 'weight'],
      ['diff', 'weight'],
      ['normWeight', 'weight'],
      ['upBias', 'bias'],
      ['diffBias', 'bias'],
      ['normBias', 'bias'],
    ];
    const isHadamard = [...parts.keys()].some((part) => part.startsWith('hada_'));
    const isKronecker = [...parts.keys()].some((part) => part.startsWith('lokr_'));
    const known = places.filter(([part]) => parts.has(part));
    if (known.length === 0 && !isHadamard && !isKronecker) {
      const [first] = parts.values();
      throw invalidAdapter(`${quoteName(first?.key ?? path)} belongs to no factors`, {
        path: this.#adapter.path,
      });
    }
    const done = new Set<Part>();
    if (isHadamard || isKronecker) {
      const place = this.#find(path, 'weight');
      if (place === undefined) this.#skip(module, (part) => !isBias(part));
      else {
        const slot = this.#slotOf(place);
        const adapter = this.#adapterOf(module, place.name);
        const isPeft = this.#adapter.config !== null;
        const change = isHadamard ? lohaChange(adapter, slot) : lokrChange(adapter, slot, isPeft);
        this.#add(slot, change, parts.values());
      }
    }
    for (const [part, parameter] of known) {
      if (done.has(part)) continue;
      if (part === 'down' || part === 'up') {
        done.add('down').add('up');
        this.#addLora(module, path);
        continue;
      }
      if (part === 'tokenDown' || part === 'tokenUp') done.add('tokenDown').add('tokenUp');
      const place = this.#find(path, parameter);
      if (place === undefined) {
        this.#skip(module, (one) => isBias(one) === (parameter === 'bias'));
        continue;
      }
      this.#addPart(module, part, place, path);
    }
  }

  #addPart(module: AdapterModule, part: Part, place: Place, path: string): void {
    const slot = this.#slotOf(place);
    const adapter = this.#adapterOf(module, place.name);
    const found = module.parts.get(part) as PartTensor;
    const { strength } = adapter;
    switch (part) {
      case 'tokens':
        this.#addTokens(module, found, slot);
        return;
      case 'tokenDown':
      case 'tokenUp':
        this.#add(slot, loraChange(adapter, slot, { isTransposed: true }), module.parts.values());
        return;
      case 'ia3':
        this.#addIa3(adapter, found, slot, path);
        return;
      case 'factors': {
        const onInput = module.parts.get('onInput')?.tensor;
        const byColumn = onInput !== undefined && valuesOf(onInput)[0] !== 0;
        const factorOf = (trained: number): number => 1 + strength * trained;
        this.#add(slot, ia3Change(adapter, slot, { tensor: found, byColumn, factorOf }), [found]);
        return;
      }
      case 'upBias': {
        const rank = module.parts.get('up')?.tensor.shape[1] ?? 0;
        const scale = adapter.scaleOf(rank) * strength;
        this.#add(slot, addedTensor('bias', found, slot, scale, adapter), [found]);
        return;
      }
      default:
        this.#add(slot, addedTensor('diff', found, slot, strength, adapter), [found]);
    }
  }

  #addIa3(adapter: ModuleAdapter, tensor: PartTensor, slot: Slot, path: string): void {
    const { config } = this.#adapter;
    const { strength, module } = adapter;
    const isFeedForward = config?.isFeedForward(module.path) ?? this.#isOfInput(tensor, slot);
    // A weight of [in, out] has its outputs in columns.
    const count = tensor.tensor.elementCount;
    const [height = 1, width = 1, ...kernel] = slot.shape;
    const isTransposed =
      kernel.length === 0 &&
      (height === width
        ? this.#isSquareTransposed(module)
        : count !== (isFeedForward ? width : height));
    const byColumn = isFeedForward !== isTransposed;
    const factorOf = (trained: number): number =>
      strength === 1 ? trained : 1 + strength * (trained - 1);
    this.#add(slot, ia3Change(adapter, slot, { tensor, byColumn, factorOf }), [tensor]);
    const bias = isFeedForward ? undefined : this.#find(path, 'bias');
    if (bias === undefined) return;
    const other = this.#slotOf(bias);
    this.#add(other, ia3Change(adapter, other, { tensor, byColumn: false, factorOf }), [tensor]);
  }

  /** Whether IA3 scales inputs, by the shape of its factors: `[1, in]`, of convolutions as `[1, out, 1, 1]`. */
  #isOfInput({ tensor, key }: PartTensor, { shape }: Slot): boolean {
    const [height = 1, width = 1, ...kernel] = shape;
    if (kernel.length === 0) return tensor.shape[0] === 1;
    if (height !== width) return tensor.elementCount === width;
    const message = `the configuration has no feedforward_modules, which shows whether ${quoteName(key)} scales inputs`;
    throw invalidAdapter(message, { path: this.#adapter.path });
  }

  #addTokens(module: AdapterModule, found: PartTensor, slot: Slot): void {
    const { config, path } = this.#adapter;
    const positions = config?.trainedTokens(module.path) ?? [];
    this.#add(slot, replacedTokens(found, slot, positions, path), [found]);
    const head = this.#base.isTied ? this.#base.entries.get('lm_head.weight') : undefined;
    if (head === undefined || head.name === slot.entry.name) return;
    const other = this.#slotOf({ name: head.name, part: null, component: null });
    this.#add(other, replacedTokens(found, other, positions, path), [found]);
  }

  #addLora(module: AdapterModule, path: string): void {
    const found = this.#placeOfLora(path);
    if (found === undefined) {
      this.#skip(module, (part) => !isBias(part));
      return;
    }
    const { place, isParameter } = found;
    const slot = this.#slotOf(place, isParameter);
    const adapter = this.#adapterOf(module, place.name);
    if (isParameter) {
      const up = module.parts.get('up')?.tensor.shape[0];
      const [height, width] = slot.shape.slice(-2);
      const isTransposed = height === width ? this.#base.hasTransposedExperts : up !== height;
      this.#add(slot, expertsChange(adapter, slot, { isTransposed }), module.parts.values());
    } else {
      this.#add(
        slot,
        loraChange(adapter, slot, { isTransposed: this.#isTransposed(module, slot) }),
        module.parts.values(),
      );
    }
  }

  /** The weight of a module, or one of its parameters: the later ones of the configuration wrap the earlier ones. */
  #placeOfLora(path: string): { readonly place: Place; readonly isParameter: boolean } | undefined {
    const parameters = this.#adapter.config?.targetParameters ?? [];
    const [owner, depth] = unwrapped(path);
    const own = parameters.flatMap((name) => {
      const at = name.lastIndexOf('.');
      const isOwn =
        at === -1 || owner === name.slice(0, at) || owner.endsWith(`.${name.slice(0, at)}`);
      const parameter = name.slice(at + 1);
      return isOwn && this.#find(owner, parameter) !== undefined ? [parameter] : [];
    });
    const parameter = own.at(-1 - depth);
    const isWeight = parameter === undefined || parameter === 'weight';
    const place = this.#find(isWeight ? path : owner, parameter ?? 'weight');
    return place && { place, isParameter: !isWeight };
  }

  /** Whether a weight is stored as `[in, out]`. */
  #isTransposed(module: AdapterModule, slot: Slot): boolean {
    if (this.#adapter.config === null || slot.shape.length !== 2) return false;
    return orientationOf(module, slot) ?? this.#isSquareTransposed(module);
  }

  #isSquareTransposed({ path }: AdapterModule): boolean {
    return this.#base.orientations.isTransposed(path, {
      ofAdapter: () => {
        this.#orientations ??= this.#findOrientations();
        return this.#orientations;
      },
      isDeclared: this.#adapter.config?.fanInFanOut === true,
    });
  }

  #findOrientations(): ReadonlySet<boolean> {
    const found = this.#modules.flatMap((module) => {
      const place = module.parts.has('down')
        ? this.#find(this.#pathOf(module), 'weight')
        : undefined;
      if (place === undefined) return [];
      const slot = this.#slotOf(place);
      const shown = slot.shape.length === 2 ? orientationOf(module, slot) : undefined;
      return shown === undefined ? [] : [shown];
    });
    return new Set(found);
  }

  #addReplaced(others: readonly PartTensor[]): void {
    const { path } = this.#adapter;
    const find = (name: string): Place | undefined => {
      const at = name.lastIndexOf('.');
      const module = name.slice(0, Math.max(at, 0));
      return this.#find(this.#input.rename?.(module) ?? module, name.slice(at + 1));
    };
    const found: readonly Replacement[] = replacements(others, find);
    for (const { place, tensor } of found) {
      if (place === undefined) {
        if (!this.#isTiedCopy(tensor, found)) this.unmatched.push(tensor.key);
        continue;
      }
      const slot = this.#slotOf(place);
      this.#add(slot, replacedTensor(tensor, slot, path), [tensor]);
    }
  }

  /** Whether a tensor is a copy of a replaced embedding, for a head that a tied base does not store. */
  #isTiedCopy({ key, tensor }: PartTensor, found: readonly Replacement[]): boolean {
    if (!this.#base.isTied || !/(?:^|\.)lm_head\.(?:modules_to_save\.)?weight$/.test(key))
      return false;
    return found.some(({ place, tensor: { tensor: other } }) => {
      if (place === undefined || other.byteLength !== tensor.byteLength) return false;
      const bytes = other.bytes;
      return tensor.bytes.every((byte, i) => byte === bytes[i]);
    });
  }

  #skip({ parts }: AdapterModule, isSkipped: (part: Part) => boolean): void {
    for (const [part, { key }] of parts) if (isSkipped(part)) this.unmatched.push(key);
  }

  #missing(): string[] {
    const { config } = this.#adapter;
    const targets = config?.targets ?? null;
    if (targets === null || config?.type !== 'LORA') return [];
    const changed = new Set(this.changes.map(({ name }) => name));
    const { names, entries } = this.#base;
    return Array.from(names.modulesWith('weight')).flatMap((module) => {
      const isTarget = targets.some((name) => module === name || module.endsWith(`.${name}`));
      const name = `${module}.weight`;
      const isMatrix = (entries.get(name)?.shape.length ?? 0) > 1;
      return isTarget && isMatrix && !changed.has(name) ? [name] : [];
    });
  }
}

type ParameterOf = 'weight' | 'bias';

function isBias(part: Part): boolean {
  return part === 'upBias' || part === 'diffBias' || part === 'normBias';
}

/** A path without `.base_layer` at its end, and how often that was there. */
function unwrapped(path: string): [owner: string, depth: number] {
  const owner = path.replace(/(?:\.base_layer)+$/, '');
  return [owner, (path.length - owner.length) / '.base_layer'.length];
}
