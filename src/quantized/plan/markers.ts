/**
 * ComfyUI's markers: JSON that names the format of a module's weight, in a tensor `comfy_quant` of the module or in the
 * metadata of the file. Formats of the same shapes differ in the order of codes and scales: only the marker decides.
 */

import { QuantizationError } from '../../errors/errors.js';
import { type CheckpointTensors, MARKER_NAME } from './checkpoint-tensors.js';
import { type Fields, fieldsOf } from './configuration.js';
import { memberOf } from './scaled.js';
import { invalid, shownValue, unsupported } from './unsupported.js';

/** The key of the metadata with the markers of all modules. */
export const MARKERS_KEY = '_quantization_metadata';

/** The only version of the metadata. */
const VERSION = '1.0';

/** The key whose members count as keys of the marker itself, unless that has them. */
const NESTED = 'params';

/** Limit for comparisons of listed modules with names of weights. Real files need none, or as many as weights. */
const MAX_COMPARISONS = 1e7;

/** Metadata of a file. */
export type FileMetadata = ReadonlyMap<string, string>;

/** The marker of a module. */
export interface Marker {
  /** Where it is, for messages. */
  readonly source: string;
  /** Its keys, those of `params` among them. */
  readonly fields: Fields;
  /** Why it cannot be read; null for a marker that can. */
  readonly problem: QuantizationError | null;
}

/** The markers of a checkpoint, by module. */
export class Markers {
  readonly #byModule = new Map<string, Marker>();
  /** Whether the metadata list the quantized modules of a file: all other weights of it are unquantized. */
  readonly isList: boolean;

  /**
   * @param metadata of the index and of all files
   * @throws QuantizationError for metadata from which no module can be read
   */
  constructor(tensors: CheckpointTensors, metadata: readonly FileMetadata[]) {
    for (const { name } of tensors.endings.has(MARKER_NAME) ? tensors : []) {
      if (isMarker(name)) this.#byModule.set(moduleOfMarker(name), readMarker(name, tensors));
    }
    const texts = new Set(metadata.flatMap((one) => one.get(MARKERS_KEY) ?? []));
    this.isList = texts.size > 0;
    const names = new ModuleNames(tensors);
    for (const text of texts) {
      for (const [listed, value] of Object.entries(layersOf(text))) {
        const module = names.find(listed);
        this.#add(module ?? listed, listedMarker(listed, value, module));
      }
    }
  }

  /** Whether no module has one. */
  get isEmpty(): boolean {
    return this.#byModule.size === 0;
  }

  /** The marker of a module. */
  find(module: string): Marker | undefined {
    return this.#byModule.get(module);
  }

  [Symbol.iterator](): IterableIterator<[module: string, Marker]> {
    return this.#byModule.entries();
  }

  #add(module: string, marker: Marker): void {
    const other = this.#byModule.get(module);
    this.#byModule.set(module, other === undefined ? marker : joined(module, other, marker));
  }
}

/** Whether a tensor is a marker, by its name. */
export function isMarker(name: string): boolean {
  return name === MARKER_NAME || name.endsWith(`.${MARKER_NAME}`);
}

function moduleOfMarker(name: string): string {
  return name.slice(0, -MARKER_NAME.length).replace(/\.$/, '');
}

function readMarker(name: string, tensors: CheckpointTensors): Marker {
  const source = JSON.stringify(name);
  const weight = memberOf(moduleOfMarker(name), 'weight');
  const failed = (message: string): Marker => ({
    source,
    fields: {},
    problem: invalid(weight, message),
  });
  const tensor = tensors.need(name, weight);
  if (tensor.dtype !== 'U8') return failed(`expected ${source} to be U8, found ${tensor.dtype}`);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(tensors.bytesOf(tensor, weight));
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return { source, fields: flatFields(value), problem: null };
  } catch (cause) {
    if (cause instanceof QuantizationError) return { source, fields: {}, problem: cause };
  }
  return failed(`${source} is not a JSON object`);
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The keys of a marker; those of `params` only where the marker itself lacks them. */
function flatFields(value: Fields): Fields {
  const { [NESTED]: nested, ...fields } = value;
  // Anything but an object stays, as an unknown key.
  return isObject(nested) ? { ...nested, ...fields } : value;
}

/** The members of `layers`. */
function layersOf(text: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {}
  const fields = fieldsOf(value);
  if (!isObject(value) || !isObject(fields['layers'])) {
    throw invalid(undefined, `${MARKERS_KEY} of the metadata is not a JSON object with layers`);
  }
  const version = fields['format_version'] ?? VERSION;
  if (version !== VERSION) {
    const found = JSON.stringify(version).slice(0, 100);
    throw unsupported(undefined, `${MARKERS_KEY} of version ${found} is not supported`);
  }
  return fields['layers'];
}

function listedMarker(listed: string, value: unknown, module: string | null): Marker {
  const source = `${MARKERS_KEY} for ${JSON.stringify(listed)}`;
  const weight = memberOf(module ?? listed, 'weight');
  const failed = (message: string): Marker => ({
    source,
    fields: {},
    problem: invalid(weight, message),
  });
  if (module === null) {
    return failed(`${MARKERS_KEY} lists ${JSON.stringify(listed)}: no single weight has that name`);
  }
  return isObject(value)
    ? { source, fields: flatFields(value), problem: null }
    : failed(`${source} is not a JSON object`);
}

/** Two markers of one module: keys of either, which must not contradict each other. */
function joined(module: string, one: Marker, other: Marker): Marker {
  const source = `${one.source} and ${other.source}`;
  const fields = { ...one.fields, ...other.fields };
  const contradicting = Object.keys(one.fields).find((key) => {
    const isBoth = Object.hasOwn(other.fields, key);
    return isBoth && JSON.stringify(one.fields[key]) !== JSON.stringify(other.fields[key]);
  });
  const found =
    contradicting === undefined
      ? null
      : invalid(
          memberOf(module, 'weight'),
          `${source} disagree about ${JSON.stringify(contradicting)}: ` +
            `${shownValue(one.fields[contradicting])} and ${shownValue(other.fields[contradicting])}`,
        );
  return { source, fields, problem: one.problem ?? other.problem ?? found };
}

/** Finds modules by names that may lack a prefix, such as `model.diffusion_model.`. */
class ModuleNames {
  readonly #tensors: CheckpointTensors;
  /** Modules with a weight by the last part of their names. */
  #byEnd: Map<string, string[]> | null = null;
  #comparisons = 0;

  constructor(tensors: CheckpointTensors) {
    this.#tensors = tensors;
  }

  /** The module of that name, or the only one whose name ends with it; null without one. */
  find(listed: string): string | null {
    if (this.#tensors.has(memberOf(listed, 'weight'))) return listed;
    this.#byEnd ??= this.#group();
    const candidates = this.#byEnd.get(lastPart(listed)) ?? [];
    this.#comparisons += candidates.length;
    if (this.#comparisons > MAX_COMPARISONS) {
      throw invalid(undefined, `${MARKERS_KEY} lists too many names that no weight has`);
    }
    const found = candidates.filter((module) => module.endsWith(`.${listed}`));
    return found.length === 1 ? (found[0] as string) : null;
  }

  #group(): Map<string, string[]> {
    const groups = new Map<string, string[]>();
    for (const { name } of this.#tensors) {
      if (!name.endsWith('.weight')) continue;
      const module = name.slice(0, -'.weight'.length);
      const group = groups.get(lastPart(module));
      if (group === undefined) groups.set(lastPart(module), [module]);
      else group.push(module);
    }
    return groups;
  }
}

function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}
