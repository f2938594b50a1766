/** A checkpoint as the model means it: which logical tensors it has in place of codes, scales and zero points. */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireOptions,
  requireSignal,
} from '../errors/arguments.js';
import { tagOf } from '../errors/brand-checks.js';
import type { QuantizationError } from '../errors/errors.js';
import type { Quantization, TensorEntry } from '../file/source/tensor-info.js';
import type { Tensor } from '../tensor/tensor.js';
import { runAsync } from '../work/work.js';
import { LogicalTensor } from './logical-tensor.js';
import { blockTypesIn, planBlocks } from './plan/blocks.js';
import { CheckpointTensors, namesToRead } from './plan/checkpoint-tensors.js';
import {
  type Configuration,
  configurationOf,
  OTHER_CONFIGS,
  SDNQ_CONFIG,
} from './plan/configuration.js';
import { parsedConfig } from './plan/dequantized-config.js';
import type { LogicalPlan } from './plan/logical-plan.js';
import { type FileMetadata, Markers } from './plan/markers.js';
import { packedWeightOf } from './plan/packed-weights.js';
import { type CheckpointPlan, mayBeQuantized, planCheckpoint } from './plan/plan.js';
import type { Assumption } from './plan/undeclared.js';
import { inFile, invalid } from './plan/unsupported.js';
import { quantizationOf, storedNamesOf } from './quantization.js';
import { type ReadableSource, StoredTensors } from './source.js';

/** Options of `dequantize`. */
export interface DequantizeOptions {
  /**
   * The model's configuration: the parsed `config.json`; null for none. By default it is read next to the weights, or
   * the file that older tools wrote: `hf_quant_config.json`, `quantize_config.json`, `quant_config.json`.
   */
  readonly config?: unknown;
  /**
   * What to take of weights that neither a configuration nor a marker describes, and that tools store in more than one
   * way: `'plain'` for codes and scales in row order that are not rotated, as an unmarked int8 weight of ComfyUI may
   * be. By default they are problems.
   */
  readonly assume?: Assumption | undefined;
  /** Ends reading names and configuration early. */
  readonly signal?: AbortSignal | undefined;
}

const DEQUANTIZE_OPTIONS: OptionNames<DequantizeOptions> = {
  assume: true,
  config: true,
  signal: true,
};

/** The logical tensors of a source, and how each is stored. */
export class LogicalModel {
  /** Errors of tensors that cannot be dequantized, each with the logical name as `tensor`. */
  readonly problems: readonly QuantizationError[];
  /** The `quant_method` of the configuration, or what it implies, such as `mlx`; null without one. */
  readonly method: string | null;
  /** The stored tensors, in the order of their bytes. */
  readonly entries: readonly TensorEntry[];
  readonly #stored: StoredTensors;
  readonly #tensors: CheckpointTensors;
  readonly #plan: CheckpointPlan;

  private constructor(
    entries: readonly TensorEntry[],
    stored: StoredTensors,
    tensors: CheckpointTensors,
    plan: CheckpointPlan,
    method: string | null,
  ) {
    this.entries = entries;
    this.method = method;
    this.#stored = stored;
    this.#tensors = tensors;
    this.#plan = plan;
    this.problems = Array.from(plan.problems.values(), (problem) => inFile(problem, stored.path));
  }

  /**
   * Reads names, the configuration and the tensors that plans need.
   *
   * @throws As `dequantize`
   */
  static async of(source: ReadableSource, options: DequantizeOptions): Promise<LogicalModel> {
    requireOptions(options, DEQUANTIZE_OPTIONS);
    const { config, assume, signal } = options;
    if (assume !== undefined && assume !== 'plain') {
      throw argumentRangeError('assume', "'plain'", assume);
    }
    if (config !== undefined && config !== null && tagOf(config) !== 'Object') {
      throw argumentTypeError('config', 'the parsed config.json, or null for none', config);
    }
    requireSignal(signal);
    const stored = new StoredTensors(source);
    const call = signal === undefined ? {} : { signal };
    const entries = await source.tensors(call);
    const blockTypes = blockTypesIn(entries);
    if (blockTypes.size > 0) {
      const { blockKernels } = await import('./blocks/kernels.js');
      const kernels = await blockKernels(blockTypes);
      const plan = await runAsync(planBlocks(entries, kernels), signal);
      const tensors = new CheckpointTensors(entries, new Map());
      return new LogicalModel(entries, stored, tensors, plan, 'gguf');
    }
    const names = namesToRead(entries);
    const read = names.length === 0 ? new Map() : await source.readTensors(names, call);
    const bytes = new Map(
      [...read].map(([name, tensor]) => [name as string, (tensor as Tensor).bytes]),
    );
    const tensors = new CheckpointTensors(entries, bytes);
    const configuration = await readConfiguration(stored, tensors, options);
    const markers = markersOf(tensors, await stored.metadataOfFiles(signal), stored.path);
    const plan = await runAsync(planCheckpoint(tensors, configuration, markers, assume), signal);
    return new LogicalModel(entries, stored, tensors, plan, configuration.method);
  }

  /** Number of logical tensors, without those of `problems`. */
  get size(): number {
    return this.#plan.weights.size + this.#plan.plainCount;
  }

  /** Whether a stored tensor is a logical tensor as it is, by its name. */
  isPlain(name: string): boolean {
    return this.#plan.isPlain(name);
  }

  /** The plans of all quantized weights. */
  get weights(): LogicalPlan[] {
    return [...this.#plan.weights.values()];
  }

  /** How a weight is stored, given the names of its stored tensors; a new frozen object. */
  quantizationOf(plan: LogicalPlan, names: readonly string[]): Quantization {
    return quantizationOf(plan, names, this.#tensors);
  }

  /** The values of a weight, which are read from the source between other events. */
  open(plan: LogicalPlan): LogicalTensor {
    return new LogicalTensor(plan, storedNamesOf(plan), this.#stored);
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
  const hasMember = (member: string): boolean => tensors.endings.has(member);
  return [...tensors].some(
    ({ name }) =>
      packedWeightOf(name, dtypeOf, hasMember) !== null || /(?:^|\.)(?:scales|g_idx)$/.test(name),
  );
}

/** The configuration that is given, or the one next to the weights. Without codes none is read: none can matter. */
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
