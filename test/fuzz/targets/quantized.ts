/** Configurations and shapes of quantized checkpoints: a refusal, or the values of the rule; never codes. */
import { type Dtype, dequantize, parse, type Quantization, serialize } from 'safetensors-mmap';
import {
  type MadeCheckpoint,
  type MadeTensor,
  storedTensors,
} from '../../quantized/generated-tensors.js';
import { MAKERS } from '../../quantized/generated-weights.js';
import { patternsOf, type RuleFacts, type RuleTensor, ruleValues } from '../../quantized/rules.js';
import { Random } from '../../support/random.js';
import { type Corpus, codeOf, Problem, type Target } from '../target.js';
import { inputOf, TREE, type Tree, treeOf } from '../tree.js';

const WORDS: readonly string[] = [
  'quant_method', 'fp8', 'gptq', 'awq', 'mlx', 'bitsandbytes', 'compressed-tensors', 'modelopt', 'mxfp4', 'hqq', 'bits',
  'group_size', 'weight_block_size', 'sym', 'checkpoint_format', 'gptq_v2', 'strategy', 'channel', 'group', 'block',
  'num_bits', 'F8_E4M3', 'U8', 'I8', 'I32', 'U32', 'BF16', 'F32', 'F8_E8M0', 'scales', 'random', 're:.*', 'Linear', 'mode',
  'model.layers.0.mlp.down_proj', 'model.layers.0.mlp.down_proj.weight', 'model.layers.0.mlp.down_proj.weight_scale',
]; // biome-ignore format: a table

/** A test of values takes time for each of them. */
const MAX_VALUES = 2 ** 15;
const MAX_BYTES = 2 ** 18;

const DTYPES: readonly Dtype[] = [
  'F8_E4M3', 'F8_E5M2', 'F8_E8M0', 'U8', 'I8', 'I32', 'U32', 'I64', 'F32', 'F16', 'BF16', 'BOOL', 'F4', 'C64',
]; // biome-ignore format: a table

const ENDINGS: readonly string[] = [
  '_scale', '_scale_inv', '_scale_2', '_global_scale', '_zero_point', '_shape', '_g_idx', '_packed', '_blocks', '_scales',
  '.scale', '.scales', '.biases', '.SCB', '.qweight', '.qzeros', '.g_idx', '.weight', '.W_q', '.zero', '.pre_quant_scale',
  '.absmax', '.quant_state.bitsandbytes__nf4', '.codes', '.codebooks', '.k_scale', '.weight_scale', '',
]; // biome-ignore format: a table

/** What codes are never stored as, but for marks that say so. */
const PLAIN_DTYPES: ReadonlySet<string> = new Set([
  'F64', 'F32', 'F16', 'BF16', 'BOOL', 'C64', 'I64', 'U64',
]); // biome-ignore format: a table

/** Whether a tensor that is returned as it is has scales: then it was codes. */
function isCodes(name: string, tensors: ReadonlyMap<string, RuleTensor>): boolean {
  if (PLAIN_DTYPES.has(tensors.get(name)?.dtype ?? '')) return false;
  const module = name.replace(/(^|\.)weight$/, '$1');
  const own = ['_scale_inv', '_scale'].map((ending) => name + ending);
  const others = ['scale', 'scales', 'SCB'].map((ending) => module + ending);
  return [...own, ...(module === name ? [] : others)].some((one) => tensors.has(one));
}

function changedShape(shape: readonly number[], random: Random): number[] {
  if (shape.length === 0) return [random.pick([0, 1, 2])];
  const at = random.below(shape.length);
  const size = shape[at] ?? 1;
  return random.do(
    () => shape.with(at, random.pick([0, 1, size + 1, Math.max(size - 1, 0), 2 * size, size >> 1])),
    () => [...shape, random.pick([1, 2, 16])],
    () => shape.slice(1),
    () => shape.toReversed(),
  );
}

/** Changes a tensor or the configuration of a checkpoint that is right. */
function changed(made: MadeCheckpoint, random: Random, corpus: Corpus): MadeCheckpoint {
  const { config, tensors } = made;
  const [name, tensor] = random.pick(Object.entries(tensors)) ?? [];
  if (name === undefined || tensor === undefined) return made;
  const { [name]: _, ...others } = tensors;
  const withTensor = (one: MadeTensor): MadeCheckpoint => ({
    config,
    tensors: { ...tensors, [name]: one },
  });
  const start = name.replace(/[._][^._]*$/, '');
  return random.do(
    () => withTensor({ ...tensor, shape: changedShape(tensor.shape, random) }),
    () => withTensor({ ...tensor, dtype: random.pick(DTYPES) }),
    () => ({ config, tensors: others }),
    () => ({ config, tensors: { ...others, [start + random.pick(ENDINGS)]: tensor } }),
    () => ({ config, tensors: { ...tensors, [start + random.pick(ENDINGS)]: tensor } }),
    () => {
      const tree = inputOf(config as Tree);
      return { config: treeOf(TREE.mutate(tree, corpus.pick(random), random, WORDS)), tensors };
    },
    () => ({ config: random.pick(Object.values(MAKERS))(random).config, tensors }),
    () => ({ config: null, tensors }),
  );
}

function make(random: Random, corpus: Corpus): Buffer {
  const { config, tensors } = random.pick(Object.values(MAKERS))(random);
  let made: MadeCheckpoint = { config, tensors };
  const changes = random.below(4);
  for (let i = 0; i < changes && Object.keys(made.tensors).length > 0; i++) {
    made = changed(made, random, corpus);
  }
  const input = inputOf(made as unknown as Tree);
  return random.chance(0.1) ? TREE.mutate(input, corpus.pick(random), random, WORDS) : input;
}

function isContent(content: unknown): boolean {
  if (content === 'random' || content === 'scales' || Array.isArray(content)) return true;
  const { below, text } = Object(content) as { below?: unknown; text?: unknown };
  return typeof text === 'string' || Number.isInteger(below);
}

/** The input as a checkpoint; undefined when it is none, or too large to compare. */
function checkpointOf(input: Buffer): MadeCheckpoint | undefined {
  const { config = null, tensors } = Object(treeOf(input)) as Partial<MadeCheckpoint>;
  if (typeof tensors !== 'object' || tensors === null || Array.isArray(tensors)) return undefined;
  // Another configuration is a mistake of the caller.
  if (typeof config !== 'object' || Array.isArray(config)) return undefined;
  let total = 0;
  for (const tensor of Object.values(tensors) as MadeTensor[]) {
    const { shape, content } = Object(tensor) as MadeTensor;
    if (!Array.isArray(shape) || !isContent(content)) return undefined;
    const isShape = shape.length < 9 && shape.every((one) => Number.isInteger(one) && one >= 0);
    if (!isShape) return undefined;
    total += 8 * shape.reduce((a, b) => a * b, 1);
    if (!(total <= MAX_BYTES)) return undefined;
  }
  return { config, tensors };
}

/** Facts of the rule that only the configuration or the tensors tell. */
function factsOf(
  info: Quantization & { readonly shape: readonly number[] },
  config: unknown,
  tensors: ReadonlyMap<string, RuleTensor>,
): RuleFacts {
  const parts = Object.fromEntries(
    Object.entries(info.storedAs).map(([role, name]) => [role, tensors.get(name) as RuleTensor]),
  );
  const { quantization_config: section, quantization } = Object(config) as Record<string, unknown>;
  const fields = Object(section ?? quantization) as Record<string, unknown>;
  const words = parts['weight']?.shape[1] ?? 0;
  const columns = info.shape.at(-1) ?? 1;
  const isPadded =
    info.scheme === 'pack-quantized' && words !== Math.ceil((columns * info.bits) / 32);
  const state = parts['state'];
  const text = state === undefined ? '{}' : Buffer.from(state.bytes).toString();
  const { nested_blocksize: blockLength, nested_offset: offset } = JSON.parse(text) as {
    nested_blocksize: number;
    nested_offset: number;
  };
  const isNested = parts['nestedScale'] !== undefined;
  const given = fields['checkpoint_format'];
  const format = typeof given === 'string' ? given.toLowerCase() : '';
  return {
    ...info,
    parts,
    ...(isPadded ? { perWord: Math.floor(32 / info.bits) } : {}),
    ...(isNested ? { nested: { blockLength, offset } } : {}),
    offset: format === 'gptq_v2' ? 0 : 1,
    isExchanged: info.block?.[0] === 32 && info.scheme === 'mxfp4',
    divides: info.storedAs['globalScale']?.endsWith('_global_scale') === true,
  };
}

/** Where symmetric zero points decide, the values tell whether the offset was right: both are rules. */
function compare(facts: RuleFacts, values: Float32Array): void {
  const found = patternsOf(values);
  const offsets = facts.scheme === 'gptq' ? [facts.offset ?? 1, 0] : [0];
  let at = -1;
  for (const offset of offsets) {
    const expected = patternsOf(ruleValues({ ...facts, offset }));
    at = expected.findIndex((pattern, i) => pattern !== found[i]);
    if (at === -1 && expected.length === found.length) return;
  }
  throw new Problem(`${facts.scheme} of shape [${facts.shape}]: value ${at} is ${values[at]}`);
}

async function check(input: Buffer): Promise<string> {
  const made = checkpointOf(input);
  if (made === undefined) return 'no checkpoint';
  let stored: ReturnType<typeof storedTensors>;
  let file: ReturnType<typeof parse>;
  try {
    stored = storedTensors(made, input.length);
    const tensors = Array.from(stored, ([name, { dtype, shape, bytes }]) => {
      return [name, { dtype, shape, data: bytes }] as const;
    });
    file = parse(serialize(new Map(tensors)));
  } catch {
    return 'no checkpoint';
  }
  let result = 'plain';
  try {
    const model = await dequantize(file, { config: made.config });
    for (const { code } of model.problems) result = code;
    for (const name of model.keys()) {
      const tensor = model.getTensor(name);
      const { quantization } = model.info(name);
      if (quantization === undefined) {
        if (tensor !== file.getTensor(name)) throw new Problem(`${name} is another tensor`);
        if (isCodes(name, stored)) throw new Problem(`${name} has scales, and is given as plain`);
        continue;
      }
      if (tensor.elementCount > MAX_VALUES) return 'large';
      const values = tensor.toFloat32();
      compare(factsOf({ ...quantization, shape: tensor.shape }, made.config, stored), values);
      result = quantization.scheme;
    }
    return result;
  } catch (error) {
    if (error instanceof Problem) throw error;
    return codeOf(error);
  }
}

export const quantized: Target = {
  name: 'quantized',
  about: 'configurations and shapes of quantized checkpoints, with rules written once more',
  sources: /^quantized\//,
  form: TREE,
  budget: { milliseconds: 1000, byteLength: 64 * 2 ** 20 },
  batchLength: 200,
  outcomes: [
    'SAFETENSORS_QUANTIZATION_INVALID',
    'SAFETENSORS_QUANTIZATION_UNSUPPORTED',
    'plain',
    'fp8',
    'int8',
    'pack-quantized',
    'nvfp4',
    'mxfp4',
    'gptq',
    'awq',
    'mlx-affine',
  ],
  asksPythonOf: 0,
  seeds: () =>
    Object.values(MAKERS).map((maker, i) => {
      const { config, tensors } = maker(new Random(1, i));
      return inputOf({ config, tensors } as unknown as Tree);
    }),
  make,
  check,
};
