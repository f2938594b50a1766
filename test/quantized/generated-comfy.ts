/** Random weights of ComfyUI's formats: tensors and markers as its tools write them. */
import type { Dtype } from 'safetensors-mmap';
import { serialize } from '../support/api.js';
import type { Random } from '../support/random.js';
import {
  cd,
  codes,
  FLOATS,
  type MadeCheckpoint,
  type MadeTensor,
  NAME,
  scales,
  WEIGHT,
} from './generated-tensors.js';
import type { RuleTensor } from './rules.js';

/** A weight, and what its rule needs besides the tensors. */
export interface ComfyWeight extends MadeCheckpoint {
  readonly scheme: string;
  /** The format of the marker; null where there is none. */
  readonly format: string | null;
  /** The keys of the marker besides the format. */
  readonly keys: Readonly<Record<string, unknown>>;
  /** Whether the marker is in the metadata. */
  readonly isListed: boolean;
  /** The shape of the values. */
  readonly shape: readonly number[];
  /** Rows and columns that share a scale. */
  readonly block: readonly [rows: number, columns: number];
  /** Columns of a group of the rotation; null without one. */
  readonly rotation: number | null;
}

type ComfyMaker = (random: Random) => ComfyWeight;

/** Its parts by default. */
const PLAIN = { config: null, keys: {}, rotation: null } as const;

const scaled = (tensor: MadeTensor, scale: MadeTensor, name = 'weight_scale') => ({
  [WEIGHT]: tensor,
  [`${NAME}.${name}`]: scale,
});
const expertsOf = (random: Random): number[] => (random.chance(0.3) ? [random.from(1, 4)] : []);
const bankKeys = ([experts]: readonly number[]): Record<string, unknown> =>
  experts === undefined ? {} : { num_experts: experts };

const fp8: ComfyMaker = (random) => {
  const lead = expertsOf(random);
  const [R, K] = [random.from(1, 40), random.from(1, 40)];
  const dtype = random.pick(['F8_E4M3', 'F8_E5M2'] as const);
  const scaleShape = lead.length > 0 ? random.pick([[], lead]) : random.pick([[], [1]]);
  const format = dtype === 'F8_E4M3' ? 'float8_e4m3fn' : 'float8_e5m2';
  return {
    ...PLAIN,
    tensors: {
      ...scaled(codes(dtype, [...lead, R, K]), scales('F32', scaleShape)),
      [`${NAME}.input_scale`]: scales('F32', []),
    },
    scheme: 'fp8',
    format,
    keys: { ...bankKeys(lead), full_precision_matrix_mult: random.chance(0.5) },
    isListed: random.chance(0.5),
    shape: [...lead, R, K],
    block: [R, K],
  };
};

const scaledFp8: ComfyMaker = (random) => {
  const [R, K] = [random.from(1, 40), random.from(1, 40)];
  const weight = codes(random.pick(['F8_E4M3', 'F8_E5M2']), [R, K]);
  return {
    ...PLAIN,
    tensors: {
      ...scaled(weight, scales(random.pick(FLOATS), random.pick([[], [1]])), 'scale_weight'),
      [`${NAME}.scale_input`]: scales('F32', []),
      [random.pick(['scaled_fp8', 'model.scaled_fp8'])]: codes(
        random.pick(['F8_E4M3', 'F8_E5M2', 'F32']),
        random.pick([[0], [1], [2], []]),
      ),
    },
    scheme: 'fp8',
    format: null,
    isListed: false,
    shape: [R, K],
    block: [R, K],
  };
};

const kohya: ComfyMaker = (random) => {
  const isBlocks = random.chance(0.5);
  const [R, nb, width] = [random.from(2, 20), random.from(1, 4), random.pick([1, 8, 64])];
  const K = nb * width;
  return {
    ...PLAIN,
    tensors: scaled(
      codes(random.pick(['F8_E4M3', 'F8_E5M2']), [R, K]),
      scales(random.pick(FLOATS), isBlocks ? [R, nb, 1] : [R, 1]),
      'scale_weight',
    ),
    scheme: 'fp8',
    format: null,
    isListed: false,
    shape: [R, K],
    block: [1, isBlocks ? width : K],
  };
};

const blocked: ComfyMaker = (random) => {
  const isRows = random.chance(0.3);
  const isInt = !isRows && random.chance(0.5);
  const b = random.pick([2, 8, 32]);
  const [R, K] = [b * random.from(1, 4), b * random.from(1, 4)];
  return {
    ...PLAIN,
    tensors: scaled(
      codes(isInt ? 'I8' : 'F8_E4M3', [R, K]),
      scales('F32', isRows ? [R] : [R / b, K / b]),
    ),
    scheme: isInt ? 'int8' : 'fp8',
    format: isInt ? 'int8_blockwise' : `float8_e4m3fn_${isRows ? 'rowwise' : 'blockwise'}`,
    keys: isRows ? {} : { group_size: b },
    isListed: random.chance(0.5),
    shape: [R, K],
    block: isRows ? [1, K] : [b, b],
  };
};

/** A power of 4, and how a marker has it. */
function rotationOf(random: Random): readonly [length: number, keys: Record<string, unknown>] {
  const length = random.pick([4, 16, 64, 256, 1024]);
  return [length, length === 256 && random.chance(0.5) ? {} : { convrot_groupsize: length }];
}

const int8: ComfyMaker = (random) => {
  const lead = expertsOf(random);
  const isRotated = random.chance(0.6);
  const [n, sizes] = rotationOf(random);
  const [R, K] = [random.from(1, 6), isRotated ? n * random.from(1, 3) : random.from(1, 40)];
  const isOne = random.chance(0.3);
  const rows = lead.length > 0 ? [[...lead, R, 1]] : [[R, 1], [R]];
  const keys = { convrot: isRotated, ...(isRotated ? sizes : {}) };
  return {
    ...PLAIN,
    tensors: scaled(codes('I8', [...lead, R, K]), scales('F32', isOne ? [] : random.pick(rows))),
    scheme: isRotated ? 'int8-convrot' : 'int8',
    format: 'int8_tensorwise',
    keys: { ...bankKeys(lead), ...(random.chance(0.3) ? { params: keys } : keys) },
    isListed: random.chance(0.5),
    shape: [...lead, R, K],
    block: [isOne ? R : 1, K],
    rotation: isRotated ? n : null,
  };
};

/** NVFP4 and MXFP8: padded, in tiles, banks. */
function tiled(random: Random, isFour: boolean): ComfyWeight {
  const step = isFour ? 16 : 32;
  const lead = expertsOf(random);
  const [R, K] = [step * random.from(1, 12), step * random.from(1, 7)];
  const isPadded = random.chance(0.4);
  const shape = [
    ...lead,
    isPadded ? R - random.below(step) : R,
    isPadded ? K - random.below(step) : K,
  ];
  const grid = [...lead, 128 * cd(R, 128), 4 * cd(K / step, 4)];
  const hasFactors = isFour && random.chance(0.3);
  return {
    ...PLAIN,
    tensors: {
      ...scaled(
        isFour ? codes('U8', [...lead, R, K / 2]) : codes('F8_E4M3', [...lead, R, K]),
        scales(random.pick(['U8', isFour ? 'F8_E4M3' : 'F8_E8M0'] as const), grid),
      ),
      ...(isFour
        ? { [`${WEIGHT}_scale_2`]: scales('F32', random.pick([[], lead.length > 0 ? lead : []])) }
        : {}),
      ...(hasFactors
        ? { [`${NAME}.pre_quant_scale`]: scales(random.pick(FLOATS), shape.slice(-1)) }
        : {}),
    },
    scheme: isFour ? 'nvfp4' : 'mxfp8',
    format: isFour ? 'nvfp4' : 'mxfp8',
    keys: {
      ...bankKeys(lead),
      ...(isPadded ? { orig_shape: shape, orig_dtype: 'torch.bfloat16' } : {}),
      ...(random.chance(0.5) ? { group_size: step } : {}),
    },
    isListed: random.chance(0.5),
    shape,
    block: [1, step],
  };
}

const w4a4: ComfyMaker = (random) => {
  const [n, keys] = rotationOf(random);
  const [R, K] = [random.from(1, 6), n * random.from(1, 3)];
  return {
    ...PLAIN,
    tensors: scaled(codes('I8', [R, K / 2]), scales('F32', [R])),
    scheme: 'convrot_w4a4',
    format: 'convrot_w4a4',
    keys: { ...keys, linear_dtype: random.pick(['int4', 'int8']) },
    isListed: random.chance(0.5),
    shape: [R, K],
    block: [1, K],
    rotation: n,
  };
};

const w4a8: ComfyMaker = (random) => {
  const lead = expertsOf(random);
  const [n, sizes] = rotationOf(random);
  const [R, K] = [random.from(1, 6), Math.max(n, 16) * random.from(1, 3)];
  const g = random.pick([2, 4, 16, 8]);
  const hasBook = random.chance(0.5);
  const dtype = random.pick(['F8_E4M3', 'U8', 'F32'] as const);
  const relative = [...lead, R, K / g];
  // Scales of codes without a book are at most 64.
  const content =
    dtype === 'F32' ? { below: hasBook ? 600 : 193 } : { below: hasBook ? 126 : 0x69 };
  const book = Array.from({ length: 16 }, () => random.from(-5, 6));
  return {
    ...PLAIN,
    tensors: {
      [WEIGHT]: codes('I8', [...lead, R, K / 2]),
      [`${WEIGHT}_s_rel`]: { dtype, shape: relative, content },
      [`${WEIGHT}_s_channel`]: scales('F32', [...lead, R]),
      ...(hasBook ? { [`${WEIGHT}_codebook`]: { dtype: 'F32', shape: [16], content: book } } : {}),
    },
    scheme: 'asym_w4a8_int8',
    format: 'asym_w4a8_int8',
    keys: {
      ...bankKeys(lead),
      ...sizes,
      ...(g === 16 && random.chance(0.5) ? {} : { group_size: g }),
    },
    isListed: random.chance(0.5),
    shape: [...lead, R, K],
    block: [1, g],
    rotation: n,
  };
};

const awq: ComfyMaker = (random) => {
  const g = random.pick([2, 32, 64]);
  const [R, G] = [random.from(1, 40), random.from(1, 4)];
  const grid = [G, R];
  return {
    ...PLAIN,
    tensors: {
      ...scaled(codes('I8', [R, (g * G) / 2]), scales(random.pick(FLOATS), grid)),
      [`${WEIGHT}_zeros`]: scales(random.pick(FLOATS), grid),
    },
    scheme: 'awq_w4a16',
    format: 'awq_w4a16',
    keys: g === 64 && random.chance(0.5) ? {} : { group_size: g },
    isListed: random.chance(0.5),
    shape: [R, g * G],
    block: [1, g],
  };
};

/** Makers by the name of what they make. */
export const COMFY_MAKERS: Readonly<Record<string, ComfyMaker>> = {
  fp8,
  scaledFp8,
  kohya,
  blocked,
  int8,
  nvfp4: (random) => tiled(random, true),
  mxfp8: (random) => tiled(random, false),
  w4a4,
  w4a8,
  awq,
};

/** The bytes of a file with these tensors and the marker. */
export function comfyFile(
  { format, keys, isListed }: ComfyWeight,
  stored: ReadonlyMap<string, RuleTensor & { readonly dtype: Dtype }>,
): Uint8Array<ArrayBuffer> {
  const tensors = Array.from(
    stored,
    ([name, { dtype, shape, bytes }]) => [name, { dtype, shape, data: bytes }] as const,
  );
  if (format === null) return serialize(new Map(tensors));
  const marker = { format, ...keys };
  if (isListed) {
    const list = JSON.stringify({ format_version: '1.0', layers: { [NAME]: marker } });
    return serialize(new Map(tensors), { metadata: { _quantization_metadata: list } });
  }
  const data = new TextEncoder().encode(JSON.stringify(marker));
  const text = { dtype: 'U8', shape: [data.length], data } as const;
  return serialize(new Map([...tensors, [`${NAME}.comfy_quant`, text] as const]));
}
