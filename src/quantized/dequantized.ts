/** A checkpoint as the model means it: logical tensors in place of codes, scales and zero points. */

import {
  argumentTypeError,
  type OptionNames,
  requireOptions,
  requireSignal,
  requireString,
} from '../errors/arguments.js';
import { tagOf } from '../errors/brand-checks.js';
import { type QuantizationError, TensorNotFoundError } from '../errors/errors.js';
import { nearNames } from '../errors/near-names.js';
import { uncloneable } from '../errors/uncloneable.js';
import { sortByName } from '../header/json/code-point-order.js';
import { INSPECT, type Inspect, showFacts } from '../tensor/inspection.js';
import type { Tensor } from '../tensor/tensor.js';
import { runAsync } from '../work/work.js';
import { infoOf, type LogicalInfo } from './info.js';
import { LogicalTensor } from './logical-tensor.js';
import { CheckpointTensors, namesToRead } from './plan/checkpoint-tensors.js';
import {
  type Configuration,
  configurationOf,
  OTHER_CONFIGS,
  SDNQ_CONFIG,
} from './plan/configuration.js';
import type { LogicalPlan, StoredTensor } from './plan/logical-plan.js';
import { type FileMetadata, Markers } from './plan/markers.js';
import { packedWeightOf } from './plan/packed-weights.js';
import { parsedConfig } from './plan/plain-config.js';
import { type CheckpointPlan, mayBeQuantized, planCheckpoint } from './plan/plan.js';
import { inFile, invalid } from './plan/refusals.js';
import { type ReadableSource, StoredTensors } from './source.js';

/** Options of `dequantize`. */
export interface DequantizeOptions {
  /**
   * The model's configuration: the parsed `config.json`; null for none. By default it is read beside the weights, or the
   * file that older tools wrote: `hf_quant_config.json`, `quantize_config.json`, `quant_config.json`.
   */
  readonly config?: unknown;
  /** Ends reading names and configuration early. */
  readonly signal?: AbortSignal | undefined;
}

const DEQUANTIZE_OPTIONS: OptionNames<DequantizeOptions> = { config: true, signal: true };

const UNCLONEABLE = uncloneable('A DequantizedCheckpoint', 'post its path, and open that there');

/**
 * The logical tensors of an open checkpoint, made by `dequantize`. It reads by the handle that it was made of,
 * which stays the caller's to close.
 *
 * @example
 * ```ts
 * const model = await dequantize(safeOpen('quantized'));
 * console.log(model.keys(), model.info('up_proj.weight').scheme); // → [ 'norm.weight', 'up_proj.weight' ] fp8
 * ```
 */
export class DequantizedCheckpoint {
  /** @internal */
  readonly uncloneable: symbol = UNCLONEABLE;
  /**
   * Errors of tensors that cannot be dequantized, each with the logical name as `tensor`; `getTensor` of that name
   * throws it. Scales and zero points are looked at only when values are read.
   */
  readonly problems: readonly QuantizationError[];
  /** The `quant_method` of the configuration, or what it implies, such as `mlx`; null without one. */
  readonly method: string | null;
  readonly #stored: StoredTensors;
  readonly #tensors: CheckpointTensors;
  readonly #plan: CheckpointPlan['tensors'];
  readonly #problems: ReadonlyMap<string, QuantizationError>;
  readonly #names: readonly string[];

  private constructor(
    stored: StoredTensors,
    tensors: CheckpointTensors,
    plan: CheckpointPlan,
    method: string | null,
  ) {
    this.#stored = stored;
    this.#tensors = tensors;
    this.#plan = plan.tensors;
    this.#problems = new Map(
      Array.from(plan.problems, ([name, problem]) => [name, inFile(problem, stored.path)]),
    );
    const names = [...plan.tensors.keys()];
    sortByName(names, (name) => name);
    this.#names = names;
    this.problems = Object.freeze([...this.#problems.values()]);
    this.method = method;
  }

  /** @internal Reads names, the configuration and the tensors that plans need. */
  static async of(
    source: ReadableSource,
    options: DequantizeOptions,
  ): Promise<DequantizedCheckpoint> {
    requireOptions(options, DEQUANTIZE_OPTIONS);
    const { config, signal } = options;
    if (config !== undefined && config !== null && tagOf(config) !== 'Object') {
      throw argumentTypeError('config', 'the parsed config.json, or null for none', config);
    }
    requireSignal(signal);
    const stored = new StoredTensors(source);
    const call = signal === undefined ? {} : { signal };
    const entries = await source.tensors(call);
    const wanted = namesToRead(entries);
    const read = wanted.length === 0 ? new Map() : await source.readTensors(wanted, call);
    const bytes = new Map(
      [...read].map(([name, tensor]) => [name as string, (tensor as Tensor).bytes]),
    );
    const tensors = new CheckpointTensors(entries, bytes);
    const configuration = await readConfiguration(stored, tensors, options);
    const markers = markersOf(tensors, await stored.metadataOfFiles(signal), stored.path);
    const plan = await runAsync(planCheckpoint(tensors, configuration, markers), signal);
    return new DequantizedCheckpoint(stored, tensors, plan, configuration.method);
  }

  /** Number of logical tensors, without those of `problems`. */
  get size(): number {
    return this.#names.length;
  }

  /** Logical names sorted by their UTF-8 bytes; a new array. Scales, zero points and the like are not among them. */
  keys(): string[] {
    return [...this.#names];
  }

  /** Whether there is a logical tensor of that name, or of one whose metadata say that it is the same. */
  has(name: string): boolean {
    requireString('name', name);
    return this.#plan.has(name) || this.#plan.has(this.#stored.keptName(name) ?? name);
  }

  /**
   * How a logical tensor is stored; a new frozen object. Reads nothing.
   *
   * @throws TensorNotFoundError; QuantizationError for a tensor of `problems`
   *
   * @example
   * ```ts
   * const { shape, bits, block } = (await dequantize(safeOpen('quantized'))).info('up_proj.weight');
   * console.log(shape, bits, block); // → [ 4, 8 ] 8 [ 2, 4 ]
   * ```
   */
  info(name: string): LogicalInfo {
    return infoOf(this.#find(name), this.#tensors);
  }

  /**
   * A logical tensor, a new object on every call. Reads nothing. One that is not quantized has the handle's own `Tensor`
   * as its `tensor`.
   *
   * @throws As `info`
   *
   * @example
   * ```ts
   * const model = await dequantize(safeOpen('quantized'));
   * for (const name of model.keys()) console.log(name, model.getTensor(name).toFloat32().length);
   * // → norm.weight 4
   * // → up_proj.weight 32
   * ```
   */
  getTensor(name: string): LogicalTensor {
    const tensor = this.#find(name);
    return LogicalTensor.of(tensor, infoOf(tensor, this.#tensors), this.#stored);
  }

  /** The facts for `JSON.stringify`, without tensors. */
  toJSON(): Pick<DequantizedCheckpoint, 'method' | 'size'> {
    const { method, size } = this;
    return { method, size };
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    const { length } = this.problems;
    const facts = length === 0 ? this.toJSON() : { ...this.toJSON(), problems: length };
    return showFacts('DequantizedCheckpoint', facts, depth, options, inspect);
  }

  #find(name: string): LogicalPlan | StoredTensor {
    requireString('name', name);
    const tensor = this.#plan.get(name) ?? this.#plan.get(this.#stored.keptName(name) ?? name);
    if (tensor !== undefined) return tensor;
    const problem = this.#problems.get(name);
    if (problem !== undefined) throw problem;
    throw new TensorNotFoundError(name, nearNames(name, this.#names), { path: this.#stored.path });
  }
}

/** The markers of the tensors and the metadata. Errors name the file. */
function markersOf(
  tensors: CheckpointTensors,
  metadata: readonly FileMetadata[],
  path: string | undefined,
): Markers {
  try {
    return new Markers(tensors, metadata);
  } catch (error) {
    throw inFile(error, path);
  }
}

/** Whether any tensor belongs to a quantized weight, by its name. */
function isAnyPacked(tensors: CheckpointTensors): boolean {
  const dtypeOf = (name: string): string | undefined => tensors.find(name)?.dtype;
  return [...tensors].some(
    ({ name }) => packedWeightOf(name, dtypeOf) !== null || /(?:^|\.)(?:scales|g_idx)$/.test(name),
  );
}

/** The configuration that is given, or the one beside the weights. Without codes none is read: none can matter. */
async function readConfiguration(
  stored: StoredTensors,
  tensors: CheckpointTensors,
  { config, signal }: DequantizeOptions,
): Promise<Configuration> {
  if (config !== undefined) return configurationAt(config, stored.path);
  if (!mayBeQuantized(tensors)) return configurationOf(undefined);
  const found = await readConfig(stored, 'config.json', signal);
  if (found.method !== null || !isAnyPacked(tensors)) return found;
  const isSdnq = [...tensors].some(({ name }) => /(?:^|\.)scale$/.test(name));
  for (const name of isSdnq ? [...OTHER_CONFIGS, SDNQ_CONFIG] : OTHER_CONFIGS) {
    const other = await readConfig(stored, name, signal);
    if (other.method !== null) return other;
  }
  return found;
}

async function readConfig(
  stored: StoredTensors,
  name: string,
  signal: AbortSignal | undefined,
): Promise<Configuration> {
  const file = await stored.sibling(name, { signal });
  if (file === undefined) return configurationOf(undefined);
  const { path, bytes, byteLength } = file;
  if (bytes.length < byteLength) {
    const message = `expected a configuration of at most ${bytes.length} bytes, found ${byteLength}`;
    throw inFile(invalid(undefined, message), path);
  }
  return configurationAt(parsedConfig(bytes, path), path);
}

/** What a configuration declares. Errors name its file. */
function configurationAt(config: unknown, path: string | undefined): Configuration {
  try {
    return configurationOf(config);
  } catch (error) {
    throw inFile(error, path);
  }
}
