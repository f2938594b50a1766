/** `merge` of models: by a recipe, or by a method and its parameters. */

import type { AnyCheckpoint, MergeMethod, MergeModelsRecipe, ModelChange } from '../../index.js';
import { plural } from '../../inspect/format.js';
import type { mergeModelFiles } from '../../open/merge-models.js';
import { placeOf } from '../sources/open-source.js';
import {
  type CommandContext,
  type CommandOptions,
  type OptionValues,
  optionValues,
  requireChoice,
  requireDtypeChoice,
  UsageError,
} from './command.js';
import { relativeSize } from './relative-size.js';
import { type SavedResult, saveMerged } from './save-merged.js';

/** A method on the command line. */
interface MethodFlags {
  /** Whether it measures changes from a base, by default the first model. */
  readonly usesBase: boolean;
  /** The flag that it needs. */
  readonly needs?: 't' | 'weight' | 'alpha';
}

const METHODS: Readonly<Record<MergeMethod, MethodFlags>> = {
  linear: { usesBase: false, needs: 'weight' },
  slerp: { usesBase: true, needs: 't' },
  task_arithmetic: { usesBase: true, needs: 'weight' },
  ties: { usesBase: true, needs: 'weight' },
  dare_linear: { usesBase: true, needs: 'weight' },
  dare_ties: { usesBase: true, needs: 'weight' },
  model_stock: { usesBase: true },
  passthrough: { usesBase: false },
  weighted_sum: { usesBase: false, needs: 'alpha' },
  add_difference: { usesBase: false, needs: 'alpha' },
};

const METHOD_NAMES = Object.keys(METHODS) as readonly MergeMethod[];

/** Parameters of the method, by their flags. */
const NUMBERS = ['t', 'alpha', 'lambda', 'seed'] as const;

/** Parameters of models, by their flags. */
const NUMBERS_OF_MODELS = ['weight', 'density'] as const;

const DTYPES = ['F64', 'F32', 'F16', 'BF16'] as const;

export const MODEL_OPTIONS: CommandOptions = {
  method: {
    type: 'string',
    value: 'METHOD',
    choices: METHOD_NAMES,
    help: `merge models: ${METHOD_NAMES.join(', ')}`,
  },
  base: {
    type: 'string',
    value: 'MODEL',
    help: 'the base of the models; the first of them by default, for methods that need one',
  },
  t: {
    type: 'string',
    short: 't',
    value: 'NUMBER',
    help: 'slerp: from 0, the base, to 1, the other model',
  },
  weight: {
    type: 'string',
    multiple: true,
    value: 'NUMBER',
    help: 'weight of a model; repeat for each model except the base',
  },
  density: {
    type: 'string',
    multiple: true,
    value: 'NUMBER',
    help: 'ties, dare: fraction of changes to keep; repeat for each model',
  },
  alpha: {
    type: 'string',
    value: 'NUMBER',
    help: 'weighted_sum, add_difference: weight of the second model',
  },
  lambda: {
    type: 'string',
    value: 'NUMBER',
    help: 'factor of the sum of all changes; 1 by default',
  },
  seed: { type: 'string', value: 'NUMBER', help: 'dare: seed of the choice; 0 by default' },
  dtype: {
    type: 'string',
    value: 'DTYPE',
    choices: DTYPES,
    help: 'the dtype of merged weights; that of the models by default',
  },
};

/** A tensor of the result. */
interface ModelChangeResult extends ModelChange {
  /**
   * Norm of the difference from the base, or from the first model, relative to the norm of that. Null except in a dry
   * run of local models, and for another shape.
   */
  readonly relativeSize: number | null;
}

/** The result, for `--json`. */
export interface ModelsResult extends SavedResult {
  readonly source: string | readonly string[];
  readonly changes: readonly ModelChangeResult[];
  readonly warnings: readonly string[];
}

/** Merges models by the recipe that is the only source, or by `--method`. */
export async function mergeModelsInto(
  context: CommandContext,
  options: OptionValues,
  sources: readonly string[],
  target: string,
): Promise<ModelsResult> {
  const { signal } = context;
  const unmatched = requireChoice('unmatched', options['unmatched'] ?? 'error', ['error', 'skip']);
  const recipe = recipeOf(options, sources);
  const { mergeModelFiles } = await import('../../open/merge-models.js');
  const { mergedFiles } = await import('../../open/merged-files.js');
  const merged = await mergeModelFiles(recipe as MergeModelsRecipe, { unmatched, signal });
  const view = merged.view as unknown as AnyCheckpoint;
  try {
    const others = await mergedFiles(merged, signal);
    const saved = await saveMerged(context, options, target, view, others);
    const { warnings } = merged.view;
    const changes: ModelChangeResult[] = [];
    for (const change of merged.view.changes) {
      const size = saved.dryRun ? await sizeOf(merged, change, signal) : null;
      changes.push({ ...change, relativeSize: size });
    }
    const [only, second] = sources;
    const source = second === undefined ? (only as string) : sources;
    const { replaced, deleted, ...facts } = saved;
    return { source, ...facts, changes, warnings, replaced, deleted };
  } finally {
    view.close();
  }
}

async function sizeOf(
  { view, firstOf }: Awaited<ReturnType<typeof mergeModelFiles>>,
  { name, kind }: ModelChange,
  signal: AbortSignal,
): Promise<number | null> {
  if (kind === 'copied') return 0;
  const before = firstOf(name);
  const merged = view as unknown as AnyCheckpoint;
  // Of remote models the dry run would fetch all weights.
  if (before === null || !merged.local) return null;
  const after = merged.getTensor(name);
  const isSame = String(before.shape) === String(after.shape);
  return isSame ? await relativeSize(before, after, signal) : null;
}

function recipeOf(options: OptionValues, sources: readonly string[]): unknown {
  if (options['method'] === undefined) {
    const flags = Object.keys(MODEL_OPTIONS).filter((flag) => options[flag] !== undefined);
    if (flags[0] !== undefined) throw new UsageError(`--${flags[0]} needs --method`);
    const [file, second] = sources;
    if (second !== undefined) throw new UsageError('several models need --method');
    if (/\.(?:ya?ml|json)$/i.test(file ?? '')) return file;
    throw new UsageError(
      '--adapter or --method is missing; a recipe is a .yml, .yaml or .json file',
    );
  }
  const method = requireChoice('method', options['method'], METHOD_NAMES);
  const { usesBase: isFirst, needs } = METHODS[method];
  if (needs !== undefined && optionValues(options, needs).length === 0) {
    throw new UsageError(`--method ${method} needs ${needs === 't' ? '-t' : `--${needs}`}`);
  }
  if (options['seed'] !== undefined && !method.startsWith('dare_')) {
    throw new UsageError(`--seed has no effect with --method ${method}`);
  }
  const [first = '', ...others] = sources;
  const given = options['base'];
  const takesFirst = given === undefined && isFirst;
  const base = takesFirst ? first : given;
  const models = takesFirst ? others : sources;
  if (models.length === 0) {
    throw new UsageError(`--method ${method} needs a model besides the base, which is the first`);
  }
  const own: Record<string, readonly number[]> = {};
  for (const flag of NUMBERS_OF_MODELS) {
    const numbers = optionValues(options, flag).map((text) => numberOf(flag, text));
    if (numbers.length > 0) own[flag] = numbers;
    if (numbers.length === 0 || numbers.length === models.length) continue;
    const besides = takesFirst ? ' besides the base' : '';
    throw new UsageError(
      `--${flag} is given ${plural(numbers.length, 'time')} for ${plural(models.length, 'model')}${besides}`,
    );
  }
  const settings = NUMBERS.flatMap((flag) => {
    const text = options[flag];
    return text === undefined ? [] : [[flag, numberOf(flag, String(text))] as const];
  });
  const dtype = options['dtype'];
  return {
    method,
    ...(base === undefined ? {} : { base: placeOf(String(base)) }),
    models: models.map((source, i) => ({
      source: placeOf(source),
      ...Object.fromEntries(Object.entries(own).map(([flag, numbers]) => [flag, numbers[i]])),
    })),
    ...Object.fromEntries(settings),
    ...(dtype === undefined ? {} : { dtype: requireDtypeChoice('dtype', String(dtype), DTYPES) }),
  };
}

function numberOf(flag: string, text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw new UsageError(`--${flag} takes a number`);
}
