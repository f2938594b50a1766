/** The merge methods: their names, inputs and parameters. */

import { weightedSum } from './combination.js';
import type { Kernel, KernelInputs } from './kernel.js';
import { modelStock, modelStockByRow } from './model-stock.js';
import { slerp } from './slerp.js';
import { divisorOf, sumOf, type TaskVectorRules, taskVectors } from './task-vectors.js';

/** The names of methods. */
export type MergeMethod =
  | 'linear'
  | 'slerp'
  | 'task_arithmetic'
  | 'ties'
  | 'dare_linear'
  | 'dare_ties'
  | 'model_stock'
  | 'passthrough'
  | 'weighted_sum'
  | 'add_difference';

/** A parameter of a method. */
export interface ParameterRule {
  /** Whether each model has its own value. */
  readonly ofModel: boolean;
  /** Undefined for a parameter that must be given. */
  readonly default?: number | undefined;
  readonly min?: number | undefined;
}

/** A merge method. */
export interface Method {
  /**
   * What the base is: `first` puts it before the other inputs, whether it is listed or not; `listed` leaves it out
   * unless it is one of the models.
   */
  readonly base: 'first' | 'listed';
  /** The fewest and the most models, without a base that comes first. */
  readonly models: readonly [min: number, max: number];
  readonly parameters: Readonly<Record<string, ParameterRule>>;
  /** Whether it merges only what all models have, as A1111 does, and copies the rest from the first one. */
  readonly isPartial?: boolean;
  kernel(inputs: KernelInputs): Kernel;
}

const WEIGHT: ParameterRule = { ofModel: true };
const ALPHA: ParameterRule = { ofModel: false };

const setting = (value: number): ParameterRule => ({ ofModel: false, default: value });

/** Adds up task vectors; `defaults` are those of mergekit. */
function ofTaskVectors(
  rules: TaskVectorRules,
  defaults: { readonly normalize: number; readonly rescale: number },
): Method {
  return {
    base: 'first',
    models: [1, Number.POSITIVE_INFINITY],
    parameters: {
      weight: WEIGHT,
      density: { ofModel: true, default: 1, min: Number.MIN_VALUE },
      normalize: setting(defaults.normalize),
      rescale: setting(defaults.rescale),
      lambda: setting(1),
    },
    kernel: (inputs) => taskVectors(inputs, rules),
  };
}

/** All methods. */
export const METHODS: Readonly<Record<MergeMethod, Method>> = {
  linear: {
    base: 'listed',
    models: [1, Number.POSITIVE_INFINITY],
    parameters: { weight: WEIGHT, normalize: setting(1) },
    kernel: ({ parameters, settings }) => {
      const weights = parameters.map(({ weight = 0 }) => weight);
      const sum = settings['normalize'] === 0 ? 1 : sumOf(weights);
      return weightedSum(weights.map((one) => one / sum));
    },
  },
  slerp: {
    base: 'first',
    models: [1, 1],
    parameters: { t: { ofModel: false } },
    kernel: ({ settings }) => slerp(settings['t'] as number),
  },
  task_arithmetic: {
    base: 'first',
    models: [1, Number.POSITIVE_INFINITY],
    parameters: { weight: WEIGHT, normalize: setting(0), lambda: setting(1) },
    // The base counts as much as the changes leave of it: a sum of stored rows, which kernels add up.
    kernel: ({ parameters, settings }) => {
      const weights = parameters.slice(1).map(({ weight = 0 }) => weight);
      const divisor = settings['normalize'] === 0 ? 1 : divisorOf(sumOf(weights));
      const factors = weights.map((one) => ((settings['lambda'] as number) * one) / divisor);
      return weightedSum([1 - sumOf(factors), ...factors]);
    },
  },
  ties: ofTaskVectors({ by: 'magnitude', isVoted: true }, { normalize: 1, rescale: 0 }),
  dare_linear: ofTaskVectors({ by: 'chance', isVoted: false }, { normalize: 0, rescale: 1 }),
  dare_ties: ofTaskVectors({ by: 'chance', isVoted: true }, { normalize: 0, rescale: 1 }),
  model_stock: {
    base: 'first',
    models: [2, Number.POSITIVE_INFINITY],
    parameters: { filterWise: setting(0) },
    kernel: ({ count, settings, rowLength, elementCount }) =>
      settings['filterWise'] !== 0 && rowLength < elementCount
        ? modelStockByRow(count, rowLength)
        : modelStock(count),
  },
  passthrough: {
    base: 'listed',
    models: [1, 1],
    parameters: { scale: { ofModel: true, default: 1 } },
    kernel: ({ parameters }) => weightedSum([parameters[0]?.['scale'] as number]),
  },
  weighted_sum: {
    base: 'listed',
    models: [2, 2],
    parameters: { alpha: ALPHA },
    isPartial: true,
    kernel: ({ settings }) => {
      const alpha = settings['alpha'] as number;
      return weightedSum([1 - alpha, alpha]);
    },
  },
  add_difference: {
    base: 'listed',
    models: [3, 3],
    parameters: { alpha: ALPHA },
    isPartial: true,
    // Without a counterpart of the third model, there is no difference.
    kernel: ({ count, settings }) => {
      const alpha = settings['alpha'] as number;
      return weightedSum(count < 3 ? [1] : [1, alpha, -alpha]);
    },
  },
};
