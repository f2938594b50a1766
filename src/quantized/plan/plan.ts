/**
 * The plan of a checkpoint: which logical tensors it has, and how each is stored. By names, dtypes and shapes; reads no
 * weights. A weight is quantized exactly when its companions are next to it.
 */

import { QuantizationError } from '../../errors/errors.js';
import type { Dtype } from '../../header/dtype.js';
import { dtypeOfOtherName } from '../../header/dtype-names.js';
import { forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import { planFourBits } from './bitsandbytes.js';
import { type CheckpointTensors, MARKER_NAME, STATE_MARK } from './checkpoint-tensors.js';
import { planMarked } from './comfy.js';
import { type Configuration, fieldsOf, textOf } from './configuration.js';
import { planBlocks, planFourBitExpert, planModeloptE2M1, planPackedE2M1 } from './fp4.js';
import { planColumns } from './gptq-awq.js';
import type { LogicalPlan, StoredTensor } from './logical-plan.js';
import { isMarker, type Markers } from './markers.js';
import { foreignMember, methodOfMembers, methodOfModule, rotatedModule } from './members.js';
import { orphanWeightOf } from './orphans.js';
import { planMlx, planPacked } from './packed.js';
import { packedWeightOf } from './packed-weights.js';
import { isFloatScale, memberOf, moduleOf, planInt8, planScaled, scalesOf } from './scaled.js';
import { ASSUME, type Assumption, lacksMarker, undeclaredKind } from './undeclared.js';
import { UnknownCompanions } from './unknown-companions.js';
import { invalid, unsupported } from './unsupported.js';

/** The logical tensors of a checkpoint. */
export interface CheckpointPlan {
  /** The plans of quantized weights, by logical name. */
  readonly weights: ReadonlyMap<string, LogicalPlan>;
  /** Number of all other logical tensors, which are as they are stored. */
  readonly plainCount: number;
  /** Whether a stored tensor is one of these, by its name. */
  isPlain(name: string): boolean;
  /** Logical tensors that cannot be read, by name. */
  readonly problems: ReadonlyMap<string, QuantizationError>;
}

/** A tensor that has the codes of a weight: how to plan that. */
interface Weight {
  readonly name: string;
  plan(): LogicalPlan;
}

/** Methods of `quant_method` that are read. Without a method, names and shapes tell. */
const METHODS: ReadonlySet<string> = new Set([
  'fp8',
  'mxfp8',
  'fbgemm_fp8',
  'modelopt',
  'compressed-tensors',
  'bitsandbytes',
  'gptq',
  'awq',
  'mlx',
  'mxfp4',
]);

const FP8: ReadonlySet<Dtype> = new Set(['F8_E4M3', 'F8_E5M2', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ']);

/** Dtypes in which quantizers store codes. */
const CODES: ReadonlySet<Dtype> = new Set([...FP8, 'U8', 'I8', 'U16', 'I16', 'U32', 'I32', 'F4']);

/** Endings of weights that no scheme but a quantizer has. */
const PACKED_WEIGHT = /(?:^|[._])(?:qweight|weights?|weight_packed|blocks)$/;

/** Tensors of a stored format that is not `float-quantized` and the like, but sparse. */
const SPARSE = /(?:^|\.)(?:compressed|bitmask|row_offsets|meta)$/;

/** Endings of scales and the like, which are all that a shard may have of quantized weights. */
const COMPANION =
  /(?:^|[._])(?:scales|biases|qzeros|g_idx|SCB|absmax|scale_weight|qscale_weight|weight_(?:scale\w*|global_scale|zero_point|shape|g_idx))$/;

/**
 * Whether any tensor has a dtype in which quantizers store codes, or the name of a scale: without one nothing is
 * quantized.
 */
export function mayBeQuantized(
  tensors: Iterable<{ readonly dtype: string; readonly name?: string }>,
): boolean {
  // Names end in few ways: each is tested once.
  const endings = new Set<string>();
  for (const { dtype, name = '' } of tensors) {
    if (CODES.has(dtype as Dtype)) return true;
    endings.add(name.slice(name.lastIndexOf('.') + 1));
  }
  for (const ending of endings) if (COMPANION.test(ending)) return true;
  return false;
}

/** Plans every tensor of a checkpoint: there may be a hundred thousand. Collects problems of single ones. */
export function* planCheckpoint(
  tensors: CheckpointTensors,
  configuration: Configuration,
  markers: Markers,
  assumption?: Assumption,
): Work<CheckpointPlan> {
  return yield* new Planner(tensors, configuration, markers, assumption).plan();
}

class Planner {
  readonly #tensors: CheckpointTensors;
  readonly #configuration: Configuration;
  readonly #markers: Markers;
  readonly #assumption: Assumption | undefined;
  readonly #planned = new Map<string, LogicalPlan>();
  readonly #problems = new Map<string, QuantizationError>();
  /** Names that are not those of plain tensors: parts of quantized weights, and their logical names. */
  readonly #hidden = new Set<string>();
  /** Names of the tensors that planned weights consist of. */
  readonly #used = new Set<string>();
  /** Beginnings of the names below ComfyUI's older labels, where FP8 without a scale is unquantized. */
  readonly #labelled: string[] = [];
  readonly #dtypeOf = (name: string): Dtype | undefined => this.#tensors.find(name)?.dtype;
  readonly #hasMember = (member: string): boolean => this.#tensors.endings.has(member);

  constructor(
    tensors: CheckpointTensors,
    configuration: Configuration,
    markers: Markers,
    assumption: Assumption | undefined,
  ) {
    this.#tensors = tensors;
    this.#configuration = configuration;
    this.#markers = markers;
    this.#assumption = assumption;
  }

  *plan(): Work<CheckpointPlan> {
    const others: StoredTensor[] = [];
    yield* forEachYielding(this.#tensors, (tensor) => {
      const weight =
        this.#markedWeight(tensor) ?? weightOf(tensor, this.#tensors, this.#configuration);
      if (weight === undefined) others.push(tensor);
      else this.#addWeight(weight, tensor);
    });
    this.#addMissingMarked();
    const plain: StoredTensor[] = [];
    yield* forEachYielding(others, (tensor) => {
      if (!this.#hideCompanion(tensor)) plain.push(tensor);
    });
    yield* this.#rejectForeignMembers();
    yield* this.#rejectUndeclared();
    yield* this.#rejectRotated();
    yield* this.#rejectUnknownCodes(plain);
    const scale = this.#anyScale();
    let plainCount = 0;
    yield* forEachYielding(plain, (tensor) => {
      const { name } = tensor;
      // A companion that came later has told that it is a weight.
      if (this.#hidden.has(name)) return;
      try {
        const isPlain = this.#isUnlisted(tensor) || this.#isUnscaled(tensor);
        if (!isPlain) rejectCodes(tensor, this.#configuration, scale);
        plainCount++;
      } catch (error) {
        this.#problems.set(name, problemOf(name, error));
      }
    });
    const isPlain = (name: string): boolean => !this.#hidden.has(name) && !this.#problems.has(name);
    return { weights: this.#planned, plainCount, isPlain, problems: this.#problems };
  }

  /** The scale of any FP8; undefined when none has one. */
  #anyScale(): StoredTensor | undefined {
    for (const { name, dtype } of this.#tensors) {
      const [scale] = FP8.has(dtype) ? scalesOf(name, this.#tensors) : [];
      if (scale !== undefined) return scale;
    }
    return undefined;
  }

  /** The weight of a module with a marker, whose format the marker decides; undefined for all others. */
  #markedWeight(tensor: StoredTensor): Weight | undefined {
    if (this.#markers.isEmpty) return undefined;
    const { name } = tensor;
    const module = moduleOf(name);
    const marker = module === name ? undefined : this.#markers.find(module);
    if (marker === undefined) return undefined;
    if (isUnsupported(this.#configuration)) return unsupportedWeight(name, this.#configuration);
    return { name, plan: () => planMarked(tensor, marker, this.#tensors) };
  }

  /** Whether a marker decides about a weight, not the configuration. */
  #isMarked(name: string): boolean {
    return this.#markers.find(moduleOf(name)) !== undefined;
  }

  /** Reports markers of modules without a weight. */
  #addMissingMarked(): void {
    for (const [module, { source, problem }] of this.#markers) {
      const name = memberOf(module, 'weight');
      if (this.#tensors.has(name)) continue;
      const missing = problem ?? invalid(name, `${source}: ${JSON.stringify(name)} is missing`);
      this.#claim(brokenWeight(name, missing));
      this.#hidden.add(memberOf(module, 'input_scale'));
    }
  }

  /** Whether ComfyUI's list of quantized modules lacks a weight: that is what it holds. */
  #isUnlisted({ name, dtype }: StoredTensor): boolean {
    return (
      this.#markers.isList && FP8.has(dtype) && this.#markers.find(moduleOf(name)) === undefined
    );
  }

  /** Whether FP8 without a scale is below a label of ComfyUI: all that are quantized have one. */
  #isUnscaled({ name, dtype }: StoredTensor): boolean {
    return FP8.has(dtype) && this.#labelled.some((start) => name.startsWith(start));
  }

  /**
   * Rejects quantized weights whose module has a tensor that the scheme does not know, and hides these tensors: they
   * are parts of a weight, whatever their dtype.
   */
  *#rejectForeignMembers(): Work<void> {
    if (this.#planned.size + this.#problems.size === 0) return;
    const isQuantized = (name: string): boolean =>
      this.#planned.has(name) || this.#problems.has(name);
    const foreign = new Map<string, { names: string[]; members: string[] }>();
    yield* forEachYielding(this.#tensors, ({ name }) => {
      if (this.#used.has(name) || isQuantized(name)) return;
      const found = foreignMember(name, isQuantized);
      if (found === null) return;
      this.#hidden.add(name);
      const { names, members } = foreign.get(found.weight) ?? { names: [], members: [] };
      names.push(name);
      members.push(found.member);
      foreign.set(found.weight, { names, members });
    });
    for (const [weight, { names, members }] of foreign) {
      if (this.#planned.has(weight)) this.#refuse(weight, foreignProblem(weight, names, members));
    }
  }

  /**
   * Rejects codes whose basis or order only a configuration or a marker declares: of SDNQ, whose scales have no name
   * but `scale`, and of ComfyUI.
   */
  *#rejectUndeclared(): Work<void> {
    if (this.#configuration.method !== null) return;
    yield* forEachYielding([...this.#planned.values()], (plan) => {
      const { name, storedAs } = plan;
      const scale = this.#tensors.find(storedAs['scale'] ?? '');
      if (scale === undefined || this.#isMarked(name)) return;
      if (/(?:^|\.)scale$/.test(scale.name) && isFloatScale(scale)) {
        const found = `the codes of ${JSON.stringify(scale.name)} may be rotated`;
        this.#refuse(name, unsupported(name, `${found} by SDNQ: there is no configuration`));
        return;
      }
      const found = this.#assumption === undefined ? undeclaredKind(plan, scale) : null;
      if (found !== null) this.#refuse(name, unsupported(name, found, [ASSUME]));
    });
  }

  /** Rejects quantized weights below a module that has a rotation: which of them it applies to is not known. */
  *#rejectRotated(): Work<void> {
    if (this.#planned.size === 0) return;
    const rotations = new Map<string, string>();
    yield* forEachYielding(this.#tensors, (tensor) => {
      const module = rotatedModule(tensor);
      if (module !== null) rotations.set(module, tensor.name);
    });
    if (rotations.size === 0) return;
    yield* forEachYielding([...this.#planned.keys()], (weight) => {
      const rotation = modulesOf(weight).find((module) => rotations.has(module));
      if (rotation === undefined) return;
      const found = JSON.stringify(rotations.get(rotation));
      this.#refuse(weight, unsupported(weight, `the rotation ${found} is not applied`));
    });
  }

  /** Rejects codes that no scheme claims and that have a scale or the like, and hides that. */
  *#rejectUnknownCodes(plain: readonly StoredTensor[]): Work<void> {
    // Integers of one dimension are indices and the like; short floats are codes of any shape, and exponents as
    // weights.
    const isCodes = ({ name, dtype, shape }: StoredTensor): boolean =>
      CODES.has(dtype)
        ? shape.length > 1 || dtype.startsWith('F')
        : dtype === 'F8_E8M0' && PACKED_WEIGHT.test(name);
    const codes = plain.filter((tensor) => isCodes(tensor) && !this.#hidden.has(tensor.name));
    if (codes.length === 0) return;
    const companions = new UnknownCompanions(this.#tensors);
    yield* forEachYielding(codes, ({ name, dtype }) => {
      const companion = companions.find(name);
      if (companion === undefined || this.#used.has(companion)) return;
      this.#hidden.add(name).add(companion);
      const found = `${dtype} codes with ${JSON.stringify(companion)}: no supported scheme has it`;
      this.#problems.set(name, unsupported(name, found));
    });
  }

  /** Plans the weight whose codes are in `stored`. */
  #addWeight(weight: Weight, stored: StoredTensor): void {
    const { name } = weight;
    this.#hidden.add(stored.name);
    this.#claim(weight);
    // A tensor that has the logical name already may be the weight, or something else: nobody can tell.
    const isOwn = name === stored.name || stored.name.startsWith(`${name}.`);
    if (!isOwn && this.#tensors.has(name)) this.#refuse(name, taken(name));
  }

  #claim(weight: Weight): void {
    const { name } = weight;
    const isTaken = this.#planned.has(name) || this.#problems.has(name);
    this.#hidden.add(name);
    try {
      if (isTaken) throw taken(name);
      const plan = weight.plan();
      // After what the tensors themselves show.
      const { problem } = this.#configuration;
      if (problem !== null && !this.#isMarked(name)) throw problem;
      this.#planned.set(name, plan);
      for (const stored of Object.values(plan.storedAs)) {
        this.#hidden.add(stored);
        this.#used.add(stored);
      }
    } catch (error) {
      this.#refuse(name, problemOf(name, error));
    }
  }

  #refuse(name: string, problem: QuantizationError): void {
    this.#planned.delete(name);
    this.#problems.set(name, problem);
  }

  /** Hides a tensor that belongs to a quantized weight, and refuses that unless it is planned; else returns false. */
  #hideCompanion(tensor: StoredTensor): boolean {
    const { name } = tensor;
    if (this.#hidden.has(name)) return true;
    if (isMarker(name)) {
      this.#hidden.add(name);
      return true;
    }
    if (isLabel(tensor)) {
      this.#hidden.add(name);
      if (!this.#markers.isList) this.#labelled.push(name.slice(0, -LABEL.length));
      return true;
    }
    const owner =
      packedWeightOf(name, this.#dtypeOf, this.#hasMember) ??
      hqqWeightOf(name, this.#tensors) ??
      ownerByName(tensor) ??
      orphanWeightOf(tensor, this.#tensors, this.#configuration.method);
    if (owner === null) return false;
    const logical = logicalNameOf(owner);
    const isKnown = this.#hidden.has(owner) || this.#hidden.has(logical);
    const isThere = this.#tensors.has(owner);
    this.#hidden.add(name);
    this.#hidden.add(owner);
    if (isKnown) return true;
    if (isThere && name === memberOf(moduleOf(owner), 'scale_input')) {
      const missing = JSON.stringify(memberOf(moduleOf(owner), 'scale_weight'));
      this.#claim(brokenWeight(logical, invalid(logical, `${missing} is missing`)));
      return true;
    }
    this.#claim(
      isThere
        ? unsupportedWeight(logical, this.#configuration, owner, name)
        : missingWeight(logical),
    );
    return true;
  }
}

/** The name of ComfyUI's older label. */
const LABEL = 'scaled_fp8';

/** Whether a tensor is a label of ComfyUI. Its elements, two at most, choose how products are computed. */
function isLabel({ name, shape }: StoredTensor): boolean {
  const isNamed = name === LABEL || name.endsWith(`.${LABEL}`);
  return isNamed && shape.length < 2 && (shape[0] ?? 0) <= 2;
}

/** The modules that a weight is in, innermost first; the outermost one has an empty name. */
function modulesOf(name: string): string[] {
  const modules: string[] = [];
  for (let at = name.lastIndexOf('.'); at > 0; at = name.lastIndexOf('.', at - 1)) {
    modules.push(name.slice(0, at));
  }
  return [...modules, ''];
}

/** Limit for names in a message. */
const MAX_SHOWN_NAMES = 8;

/** The error for a weight whose module has unknown tensors. */
function foreignProblem(
  weight: string,
  names: readonly string[],
  members: readonly string[],
): QuantizationError {
  const shown = names
    .toSorted()
    .slice(0, MAX_SHOWN_NAMES)
    .map((name) => JSON.stringify(name));
  const rest = names.length - shown.length;
  if (rest > 0) shown.push(`${rest} more`);
  const last = shown.pop();
  const list = shown.length === 0 ? last : `${shown.join(', ')} and ${last}`;
  const method = methodOfMembers(members);
  if (method === undefined) return unsupported(weight, `the scheme does not have ${list}`);
  return unsupported(
    weight,
    `${method}'s ${list} ${names.length === 1 ? 'is' : 'are'} not applied`,
  );
}

/** The refusal of a tensor, by its name. */
function problemOf(name: string, error: unknown): QuantizationError {
  if (!(error instanceof QuantizationError)) throw error;
  return error.tensor === undefined
    ? new QuantizationError(error.code, error.message, { tensor: name })
    : error;
}

/** Endings of packed weights, of methods that are refused, too, and those of the weights that they stand for. */
const PACKED_ENDINGS: readonly (readonly [RegExp, string])[] = [
  [/(^|\.)(?:qweight|W_q|_weight_qdata)$/, '$1weight'],
  [/(^|\.)weight(?:_packed|_qdata|(?:\._data)+)$/, '$1weight'],
];

/** The logical name of packed weights. */
function logicalNameOf(name: string): string {
  return PACKED_ENDINGS.reduce((text, [ending, plain]) => text.replace(ending, plain), name);
}

/**
 * Methods that are refused, by the endings of their packed weights: a checkpoint without a configuration names none.
 */
const UNSUPPORTED_METHODS: readonly (readonly [ending: RegExp, method: string])[] = [
  [/(?:^|\.)W_q$/, 'HQQ'],
  [/(?:^|[._])weight_qdata$/, 'torchao'],
  [/(?:^|\.)weight(?:\._data)+$/, 'quanto'],
  [/(?:^|\.)codes$/, 'AQLM'],
  [/(?:^|\.)(?:outlier_)?indices$/, 'VPTQ'],
  [/(?:^|\.)Qidxs$/, 'QuIP#'],
  [/(?:^|\.)q_weight$/, 'EXL2'],
  [/(?:^|\.)trellis$/, 'EXL3'],
  [/(?:^|\.)B$/, 'Marlin'],
];

/** Packed weights that need no companion to be known as such: their own name, else null. */
function ownerByName({ name, dtype, shape }: StoredTensor): string | null {
  return CODES.has(dtype) && shape.length > 0 && logicalNameOf(name) !== name ? name : null;
}

/** HQQ stores all facts of a weight as tensors next to it: its name for any of them, else null. */
function hqqWeightOf(name: string, tensors: CheckpointTensors): string | null {
  const dot = name.lastIndexOf('.');
  const module = dot === -1 ? '' : name.slice(0, dot);
  const weight = tensors.member(module, 'W_q');
  if (weight === undefined || name.slice(dot + 1) === 'bias') return null;
  // Attention may have a plain matrix of that name; HQQ may store bytes as a plain dtype.
  const isPacked = CODES.has(weight.dtype) || tensors.member(module, 'nbits') !== undefined;
  return isPacked ? weight.name : null;
}

function taken(name: string): QuantizationError {
  return invalid(
    name,
    'the name is taken: there is a tensor of that name, and a quantized one that stands for it',
  );
}

/** Recognizes a tensor with codes, whatever is wrong with its companions; undefined for all others. */
function weightOf(
  tensor: StoredTensor,
  tensors: CheckpointTensors,
  configuration: Configuration,
): Weight | undefined {
  const { name, dtype } = tensor;
  const mark = name.lastIndexOf(STATE_MARK);
  if (mark !== -1) return { name: name.slice(0, mark), plan: () => planFourBits(tensor, tensors) };
  const isKnown = !isUnsupported(configuration);
  const refused = (logical: string): Weight => unsupportedWeight(logical, configuration);
  if (name === 'qweight' || name.endsWith('.qweight')) {
    const module = name.replace(/\.?qweight$/, '');
    const logical = memberOf(module, 'weight');
    if (!isKnown) return refused(logical);
    const other = methodOfModule(module, tensors);
    if (other !== undefined) return unsupportedBy(logical, other);
    return { name: logical, plan: () => planColumns(module, tensor, tensors, configuration) };
  }
  if ((dtype === 'I32' || dtype === 'U8') && /(?<=\w)_packed$/.test(name)) {
    const logical = name.slice(0, -'_packed'.length);
    if (!isKnown) return refused(logical);
    return {
      name: logical,
      plan: () =>
        dtype === 'U8'
          ? planPackedE2M1(logical, tensor, tensors, configuration)
          : planPacked(logical, tensor, tensors, configuration),
    };
  }
  const blocks = dtype === 'U8' ? /[._]blocks$/.exec(name) : null;
  if (blocks !== null) {
    return { name: name.slice(0, blocks.index), plan: () => planBlocks(tensor, tensors) };
  }
  return isKnown ? byCompanions(tensor, tensors, configuration) : undefined;
}

/** What bitsandbytes stores of a weight in 4 bits besides its state. */
const FOUR_BIT_PARTS: readonly string[] = ['absmax', 'quant_map'];
const STATES: readonly string[] = [`${STATE_MARK}nf4`, `${STATE_MARK}fp4`];

/** Recognizes weights whose names say nothing by the tensors next to them. */
function byCompanions(
  tensor: StoredTensor,
  tensors: CheckpointTensors,
  configuration: Configuration,
): Weight | undefined {
  const { name, dtype } = tensor;
  const module = moduleOf(name);
  const isWeight = module !== name;
  if (FOUR_BIT_PARTS.some((part) => tensors.member(name, part) !== undefined)) {
    if (STATES.some((state) => tensors.has(name + state))) return undefined;
    const missing = `"${name}${STATE_MARK}nf4" or "${name}${STATE_MARK}fp4" is missing`;
    return brokenWeight(name, invalid(name, missing));
  }
  if (dtype === 'U32' && isWeight) {
    const scale = tensors.find(memberOf(module, 'scales'));
    if (scale === undefined) return undefined;
    return { name, plan: () => planMlx(tensor, scale, tensors, configuration) };
  }
  if (configuration.method === null && isWeight && lacksMarker(tensor, tensors)) {
    const marker = JSON.stringify(memberOf(module, MARKER_NAME));
    return brokenWeight(name, invalid(name, `${marker} is missing`));
  }
  if (
    dtype === 'U8' &&
    tensors.has(`${name}_scale`) &&
    tensors.find(`${name}_scale`)?.dtype === 'F8_E4M3'
  ) {
    return { name, plan: () => planModeloptE2M1(tensor, tensors) };
  }
  if (dtype === 'I8' && isWeight) {
    const isInt8 = ['SCB', 'weight_format'].some(
      (one) => tensors.member(module, one) !== undefined,
    );
    if (isInt8) return { name, plan: () => planInt8(tensor, tensors) };
  }
  if (dtype !== 'I8' && !FP8.has(dtype)) return foreignWeight(tensor, tensors);
  // A scale of E4M3 has scales itself in some schemes, and so has no scale of its own here.
  const scales = scalesOf(name, tensors);
  if (scales.length === 0) return foreignWeight(tensor, tensors);
  return {
    name,
    plan: () => {
      const expert = dtype === 'I8' ? planFourBitExpert(tensor, tensors) : undefined;
      return expert ?? planScaled(tensor, scales, tensors, configuration);
    },
  };
}

/** Codes without a scale of a method that their siblings name; undefined for all others. */
function foreignWeight(
  { name, dtype, shape }: StoredTensor,
  tensors: CheckpointTensors,
): Weight | undefined {
  const module = moduleOf(name);
  if (module === name || !CODES.has(dtype) || shape.length < 2) return undefined;
  const other = methodOfModule(module, tensors);
  return other === undefined ? undefined : unsupportedBy(name, other);
}

/** A weight of a method that is not read; `stored` is the tensor with its codes, `companion` one of the others. */
function unsupportedWeight(
  name: string,
  configuration: Configuration,
  stored: string = name,
  companion?: string,
): Weight {
  return {
    name,
    plan: () => {
      throw unsupported(name, rejectionOf(configuration, stored, companion));
    },
  };
}

/** A weight that cannot be dequantized. */
function brokenWeight(name: string, problem: QuantizationError): Weight {
  return {
    name,
    plan: () => {
      throw problem;
    },
  };
}

/** A weight of a method that its siblings name. */
function unsupportedBy(
  name: string,
  { method, name: member }: { method: string; name: string },
): Weight {
  const message = `${method} is not dequantized here; found ${JSON.stringify(member)}`;
  return brokenWeight(name, unsupported(name, message));
}

/** What is said of a method that is not read: its name by the configuration, else by the names of tensors. */
function rejectionOf(configuration: Configuration, stored: string, companion?: string): string {
  const { method, fields } = configuration;
  if (hasTransforms(configuration)) {
    return 'the "transform_config" of compressed-tensors is not applied: weights are in a rotated basis';
  }
  if (isUnsupported(configuration))
    return `the method ${JSON.stringify(method)} is not dequantized here`;
  const byName = UNSUPPORTED_METHODS.find(([ending]) => ending.test(stored))?.[1];
  if (byName !== undefined) return `${byName} is not dequantized here`;
  const variant = textOf(fields['quant_algo']) ?? textOf(fields['format']);
  const found = variant === undefined ? '' : ` (${JSON.stringify(variant)})`;
  const shown = companion === undefined ? '' : `; found ${JSON.stringify(companion)}`;
  return `the method of these codes is not dequantized here${found}${shown}`;
}

/** Whether the configuration names a method that is not read. */
function isUnsupported(configuration: Configuration): boolean {
  const { method } = configuration;
  if (hasTransforms(configuration)) return true;
  return method !== null && method !== 'unknown' && !METHODS.has(method);
}

/** Whether compressed-tensors has transforms, of weights or of activations. */
function hasTransforms({ method, fields }: Configuration): boolean {
  if (method !== 'compressed-tensors') return false;
  const { config_groups: groups, ...others } = fieldsOf(fields['transform_config']);
  return Object.keys(fieldsOf(groups)).length > 0 || Object.keys(others).length > 0;
}

/** A weight that is not there, unlike its scales. */
function missingWeight(name: string): Weight {
  return brokenWeight(name, invalid(name, 'the weight of these scales is missing'));
}

/** Whether a weight of a plain dtype has the form in which bitsandbytes stores codes of 4 bits. */
function isFourBitStorage(
  name: string,
  dtype: Dtype,
  shape: readonly number[],
  { method, fields, isExcluded }: Configuration,
): boolean {
  if (method !== 'bitsandbytes' || fields['load_in_4bit'] !== true) return false;
  const storage = dtypeOfOtherName(textOf(fields['bnb_4bit_quant_storage']) ?? 'uint8');
  const isStored = dtype === storage && dtype !== 'U8' && shape.length === 2 && shape[1] === 1;
  return isStored && moduleOf(name) !== name && !isExcluded(moduleOf(name));
}

/** Throws for a tensor without companions that holds codes; `scale` is that of another weight. */
function rejectCodes(
  { name, dtype, shape }: StoredTensor,
  configuration: Configuration,
  scale: StoredTensor | undefined,
): void {
  const { method } = configuration;
  if (method === 'compressed-tensors' && SPARSE.test(name)) {
    throw unsupported(name, 'sparse formats of compressed-tensors are not read');
  }
  if (isFourBitStorage(name, dtype, shape, configuration)) {
    throw invalid(name, `${dtype} codes without a state of bitsandbytes (quant_state)`);
  }
  // SpQR stores codes in integers of 64 bits.
  const isWide = dtype === 'I64' && isUnsupported(configuration) && PACKED_WEIGHT.test(name);
  if (!(CODES.has(dtype) || isWide) || shape.length === 0) return;
  const isFp8 = FP8.has(dtype);
  // What tensors of an unknown method hold cannot be told by their names.
  const mayBeCodes = shape.length > 1 && (isUnsupported(configuration) || PACKED_WEIGHT.test(name));
  if (!isFp8 && (method === null || !mayBeCodes)) return;
  // Without a configuration FP8 may be plain numbers, unless others of the same checkpoint have scales.
  if (method === null && scale === undefined) return;
  if (configuration.isExcluded(moduleOf(name))) return;
  if (isUnsupported(configuration)) throw unsupported(name, rejectionOf(configuration, name));
  const names = [`${name}_scale_inv`, `${name}_scale`];
  if (scale?.name.endsWith('.scale_weight'))
    names.unshift(memberOf(moduleOf(name), 'scale_weight'));
  const looked = isFp8 ? `; looked for ${names.join(', ')} and the like` : '';
  throw invalid(name, `${dtype} codes without a scale${looked}`);
}
