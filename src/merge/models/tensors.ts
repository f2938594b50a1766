/** The tensors of the result: dtypes, shapes, and how each is computed. */

import type { Advice } from '../../errors/advice.js';
import { quoteName, SafetensorsError } from '../../errors/errors.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import { type Computation, renamed, type ViewTensor } from '../../file/source/view.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { Tensor } from '../../tensor/tensor.js';
import { filePath, type OwnMergeSource, sliceOf } from '../base.js';
import { type MergeDtype, type NonFiniteInput, requireMergeDtype } from '../values.js';
import { recipeError } from './errors.js';
import { mergedMatrix, type RowSource, StoredRows } from './inputs.js';
import { isOfVocabulary } from './layers.js';
import { weightedSum } from './methods/combination.js';
import type { Kernel, KernelInputs } from './methods/kernel.js';
import { seededDraw } from './methods/random.js';
import { divisorOf } from './methods/task-vectors.js';
import { type Model, modelLabel } from './model.js';
import { parameterAt } from './parameters.js';
import type { PlannedInput, PlannedTensor } from './plan.js';
import type { Recipe } from './recipe.js';
import { MergedModelWeight } from './weight.js';

/** What is drawn for an input of a tensor. */
export type DrawFor = (
  tensor: string,
  input: number,
  density: number,
) => ReturnType<KernelInputs['draw']>;

/** How the tensors are merged. */
export interface TensorContext {
  readonly recipe: Recipe;
  /** The checkpoint that the view is of. */
  readonly anchor: OwnMergeSource;
  readonly unmatched: 'error' | 'skip';
  readonly mustBeFinite: boolean;
  readonly draw: DrawFor;
  readonly vocabulary: VocabularyRows | null;
}

/** Makes rows of one vocabulary from those of others. */
export interface VocabularyRows {
  /** Number of rows of the result. */
  readonly size: number;
  /** The inputs with the rows of the result. */
  inputsOf(inputs: readonly PlannedInput[], columns: number): readonly RowSource[];
}

/** A tensor of the result. */
export interface ResultTensor {
  readonly view: ViewTensor;
  /** Whether it is merged; else it is that of the first model. */
  readonly isMerged: boolean;
  /** The models that it is merged from. */
  readonly models: readonly Model[];
  /** What was left out of it, as texts. */
  readonly warnings: readonly string[];
}

const SKIP_SHAPES: Advice = {
  option: 'unmatched',
  text: "pass unmatched: 'skip' to cut vocabularies to their common rows, and to leave other tensors out",
};

/** Advice for weights whose sum is 0. */
const NORMALIZE: Advice = { option: 'normalize', text: 'or normalize: false' };

/** The only key of A1111's models that has the word `model`, and no weights. */
const POSITIONS = 'cond_stage_model.transformer.text_model.embeddings.position_ids';

/** Whether A1111 merges a tensor of a single-file checkpoint. */
function isPartOfModel(name: string, planned: PlannedTensor): boolean {
  const { isSingleFile } = (planned.inputs[0] as PlannedInput).model;
  return !isSingleFile || (name.includes('model') && name !== POSITIONS);
}

/**
 * Returns a tensor of the result.
 *
 * @throws SafetensorsError `SAFETENSORS_MERGE_MISMATCH` for inputs of different shapes, `SAFETENSORS_MERGE_UNSUPPORTED`
 *   for dtypes that cannot be merged, `SAFETENSORS_INVALID_RECIPE` for a parameter that is missing
 */
export function resultTensor(planned: PlannedTensor, context: TensorContext): ResultTensor {
  const { recipe } = context;
  const { method } = recipe;
  const [first] = planned.inputs as [PlannedInput, ...PlannedInput[]];
  const isCopied =
    /^(?:BOOL|[IU]\d+)$/.test(first.entry.dtype) ||
    (method.isPartial === true &&
      (planned.inputs.length < 2 ||
        planned.inputs[1]?.position !== 1 ||
        !isPartOfModel(planned.name, planned)));
  if (isCopied) {
    const view = copied(planned.name, first, context);
    const models = planned.inputs.map(({ model }) => model);
    return { view, isMerged: false, models, warnings: [] };
  }
  const warnings: string[] = [];
  const { inputs, shape, sources } = fitted(planned, context, warnings);
  const dtype = resultDtype(planned.name, inputs, recipe);
  const makeKernel = kernelMaker({ ...planned, inputs }, shape, context);
  const [only] = inputs as [PlannedInput];
  const isStored =
    recipe.methodName === 'passthrough' &&
    context.vocabulary === null &&
    only.entry.dtype === dtype &&
    parameterOf(planned, only, 'scale', recipe) === 1;
  const used = inputs.map(({ model }) => model);
  if (isStored) {
    return { view: copied(planned.name, only, context), isMerged: false, models: used, warnings };
  }
  const { mustBeFinite, anchor } = context;
  const { rows, columns } = mergedMatrix(shape);
  const { path } = only.model.handle;
  const merged = { name: planned.name, dtype, shape, columns, path, mustBeFinite };
  const entry = viewEntry(planned.name, only.entry, { dtype, shape });
  const own = inputs.filter(({ model }) => model.handle === anchor).map(({ entry }) => entry.name);
  const nameOf = (input: number): NonFiniteInput => {
    const { model, entry } = inputs[input] as PlannedInput;
    return { label: modelLabel(model), path: filePath(model.handle, entry), tensor: entry.name };
  };
  const computation = new MergedModelWeight(merged, rows, sources, nameOf, makeKernel);
  const view = { entry, sources: [...new Set(own)], computation };
  return { view, isMerged: true, models: used, warnings };
}

function viewEntry(
  name: string,
  { file, dataOffsets }: TensorEntry,
  { dtype, shape }: Pick<TensorEntry, 'dtype' | 'shape'>,
): TensorEntry {
  const byteLength = tensorByteLength({ dtype, shape });
  return Object.freeze({ name, file, dtype, shape, dataOffsets, byteLength });
}

/** The stored tensor, under another name. */
function copied(
  name: string,
  { model, entry }: PlannedInput,
  { anchor }: TensorContext,
): ViewTensor {
  const { handle } = model;
  const own = viewEntry(name, entry, entry);
  if (handle === anchor) return { entry: own, sources: [entry.name], computation: null };
  const computation: Computation = {
    compute: () => renamed(handle.getTensor(entry.name) as Tensor, name),
    fetch: async (index, options) => {
      return renamed(await sliceOf(handle, entry.name, index, options), name);
    },
  };
  return { entry: own, sources: [], computation };
}

/** Inputs of one shape. */
interface FittedInputs {
  readonly inputs: readonly PlannedInput[];
  readonly shape: readonly number[];
  readonly sources: readonly RowSource[];
}

function fitted(
  { name, inputs }: PlannedTensor,
  { recipe, unmatched, vocabulary }: TensorContext,
  warnings: string[],
): FittedInputs {
  const [first] = inputs as [PlannedInput];
  const { shape } = first.entry;
  const isRows = isOfVocabulary(name, shape);
  if (isRows && vocabulary !== null) {
    const { columns } = mergedMatrix(shape);
    requireShapes(inputs, (other) => isSame(other.slice(1), shape.slice(1)), SKIP_SHAPES);
    const sources = vocabulary.inputsOf(inputs, columns);
    return { inputs, shape: shape.with(0, vocabulary.size), sources };
  }
  if (inputs.every(({ entry }) => isSame(entry.shape, shape))) {
    return { inputs, shape, sources: storedRows(inputs, shape) };
  }
  if (recipe.method.isPartial === true && isInpainting(inputs)) {
    return { inputs, shape, sources: storedRows(inputs, shape) };
  }
  if (unmatched === 'error' || recipe.method.isPartial === true) {
    requireShapes(inputs, (other) => isSame(other, shape), SKIP_SHAPES);
  }
  // Vocabularies differ in their rows; models of another width have other tensors.
  const fits = (other: readonly number[]): boolean =>
    isRows ? isSame(other.slice(1), shape.slice(1)) : isSame(other, shape);
  const left = inputs.filter(({ entry }) => fits(entry.shape));
  for (const input of inputs) {
    if (left.includes(input)) continue;
    warnings.push(`${describeInput(input)}, which is left out: ${describeInput(first)}`);
  }
  if (!isRows) return { inputs: left, shape, sources: storedRows(left, shape) };
  const rows = Math.min(...left.map(({ entry }) => entry.shape[0] as number));
  const common = shape.with(0, rows);
  if (left.some(({ entry }) => entry.shape[0] !== rows)) {
    const counts = left.map(({ model, entry }) => `${modelLabel(model)} has ${entry.shape[0]}`);
    warnings.push(`${quoteName(name)} is cut to ${rows} rows: ${counts.join(', ')}`);
  }
  return { inputs: left, shape: common, sources: storedRows(left, common) };
}

function storedRows(inputs: readonly PlannedInput[], shape: readonly number[]): RowSource[] {
  const { columns } = mergedMatrix(shape);
  const [first, ...others] = inputs as [PlannedInput, ...PlannedInput[]];
  const filler = new StoredRows(first.model.handle, first.entry, columns);
  return [
    filler,
    ...others.map(({ model, entry }) => new StoredRows(model.handle, entry, columns, filler)),
  ];
}

function isSame(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((size, i) => size === other[i]);
}

/** Whether the first model has additional input channels, for masks, or for images to edit. */
function isInpainting(inputs: readonly PlannedInput[]): boolean {
  const shapes = inputs.map(({ entry }) => entry.shape);
  const [own] = shapes as [readonly number[]];
  return (
    own.length === 4 &&
    (own[1] === 8 || own[1] === 9) &&
    shapes.every((shape) => isSame(shape, own) || isSame(shape, own.with(1, 4)))
  );
}

function requireShapes(
  inputs: readonly PlannedInput[],
  fits: (shape: readonly number[]) => boolean,
  advice: Advice,
): void {
  const [first] = inputs as [PlannedInput];
  const other = inputs.find(({ entry }) => !fits(entry.shape));
  if (other === undefined) return;
  const message = `${describeInput(first)}, but ${describeInput(other)}; ${advice.text}`;
  throw new SafetensorsError('SAFETENSORS_MERGE_MISMATCH', message, {
    path: other.model.handle.path,
    tensor: other.entry.name,
    advice: [advice],
  });
}

function describeInput({ model, entry: { name, shape } }: PlannedInput): string {
  return `${modelLabel(model)} has ${quoteName(name)} of shape [${shape.join(', ')}]`;
}

/** The dtype of the recipe; by default that of the base, or one that holds the values of all inputs. */
function resultDtype(name: string, inputs: readonly PlannedInput[], recipe: Recipe): MergeDtype {
  const dtypes = inputs.map(({ model, entry }) => {
    return requireMergeDtype(entry.dtype, entry.name, model.handle.path);
  });
  if (recipe.dtype !== null) return recipe.dtype;
  const [first] = dtypes;
  if (first === undefined) throw recipeError(`nothing is merged into ${name}`, recipe.path);
  if (recipe.method.base === 'first' || dtypes.every((dtype) => dtype === first)) return first;
  return dtypes.includes('F64') ? 'F64' : 'F32';
}

/** Returns what makes kernels for a tensor, with all parameters. */
function kernelMaker(
  planned: PlannedTensor,
  shape: readonly number[],
  { recipe, draw }: TensorContext,
): () => Kernel {
  const { inputs, name } = planned;
  const { method } = recipe;
  const settings: Record<string, number> = {};
  for (const [parameter, { ofModel }] of Object.entries(method.parameters)) {
    if (!ofModel) settings[parameter] = parameterOf(planned, null, parameter, recipe);
  }
  const parameters = inputs.map((input) => {
    const own: Record<string, number> = {};
    if (method.base === 'first' && input.position === 0) return own;
    for (const [parameter, { ofModel }] of Object.entries(method.parameters)) {
      if (ofModel) own[parameter] = parameterOf(planned, input, parameter, recipe);
    }
    return own;
  });
  const sum = parameters.reduce((sum, { weight = 0 }) => sum + weight, 0);
  if (recipe.methodName === 'linear' && settings['normalize'] !== 0 && divisorOf(sum) !== sum) {
    const message = `the weights of ${quoteName(name)} add up to ${sum}; use others, ${NORMALIZE.text}`;
    throw recipeError(message, recipe.path, [NORMALIZE]);
  }
  const others = inputs.length - (method.base === 'first' ? 1 : 0);
  // Too few models have the tensor: it stays that of the first.
  if (others < method.models[0] && method.isPartial !== true) {
    return () => weightedSum([1]);
  }
  const kernelInputs: KernelInputs = {
    count: inputs.length,
    parameters,
    settings,
    elementCount: shape.reduce((product, size) => product * size, 1),
    rowLength: shape.length < 2 ? (shape[0] ?? 1) : (shape.at(-1) as number),
    draw: (input, density) => draw(name, (inputs[input] as PlannedInput).position, density),
  };
  return () => method.kernel(kernelInputs);
}

/** A parameter of a tensor, or of one of its inputs. */
function parameterOf(
  { name, slice, t }: PlannedTensor,
  input: PlannedInput | null,
  parameter: string,
  { method, methodName, parameters, path }: Recipe,
): number {
  const own = input === null ? [] : [input.source.parameters];
  const tensor = input === null ? name : input.entry.name;
  const rule = method.parameters[parameter];
  const value =
    parameterAt([...own, slice.parameters, parameters], parameter, tensor, t) ?? rule?.default;
  const of = input === null ? '' : ` of ${modelLabel(input.model)}`;
  const subject = `${parameter}${of} for ${quoteName(tensor)}`;
  if (value === undefined) throw recipeError(`${methodName} needs ${subject}`, path);
  if (value >= (rule?.min ?? Number.NEGATIVE_INFINITY)) return value;
  throw recipeError(`${subject} must be above 0, found ${value}`, path);
}

/** What is drawn by default. */
export function drawWith(seed: number): DrawFor {
  return (tensor, input, density) => seededDraw(seed, tensor, input, density);
}
