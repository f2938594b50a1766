/** Random weights in words of 32 bits, and of bitsandbytes in 4 bits. */
import { cd, codes, FLOATS, group, type Maker, NAME, scales, WEIGHT } from './generated-tensors.js';

export const pack: Maker = (random) => {
  const bits = random.from(1, 8);
  const g = random.pick([32, 64]);
  const [R, G] = [random.from(1, 40), random.from(1, 3)];
  const K = g * G;
  const isPadded = 32 % bits !== 0 && random.chance(0.5);
  const perWord = Math.floor(32 / bits);
  const words = isPadded ? cd(K, perWord) : cd(K * bits, 32);
  const isAmbiguous = 32 % bits !== 0 && cd(K, perWord) === cd(K * bits, 32);
  if (isAmbiguous) return pack(random);
  const isAsymmetric = random.chance(0.5);
  const zeroWords = isPadded ? cd(R, perWord) : cd(R * bits, 32);
  return {
    name: WEIGHT,
    config: group(
      { num_bits: bits, type: 'int', strategy: 'group', group_size: g, symmetric: !isAsymmetric },
      'pack-quantized',
    ),
    tensors: {
      [`${WEIGHT}_packed`]: codes('I32', [R, words]),
      [`${WEIGHT}_scale`]: scales(random.pick(FLOATS), [R, G]),
      [`${WEIGHT}_shape`]: { dtype: random.pick(['I64', 'I32']), shape: [2], content: [R, K] },
      ...(isAsymmetric ? { [`${WEIGHT}_zero_point`]: codes('I32', [zeroWords, G]) } : {}),
    },
    facts: {
      shape: [R, K],
      scheme: 'pack-quantized',
      bits,
      block: R === 1 && G === 1 ? null : [1, g],
      ...(isPadded ? { perWord } : {}),
    },
    storedAs: {
      weight: `${WEIGHT}_packed`,
      scale: `${WEIGHT}_scale`,
      ...(isAsymmetric ? { zeroPoint: `${WEIGHT}_zero_point` } : {}),
    },
  };
};

export const bitsandbytes: Maker = (random) => {
  const [R, K] = [random.from(1, 25), random.from(1, 41)];
  const shape = random.chance(0.2) ? [2, R, K] : [R, K];
  const n = shape.reduce((a, b) => a * b, 1);
  const blockLength = random.pick([32, 64, 4096]);
  const kind = random.pick(['nf4', 'fp4']);
  const blocks = cd(n, blockLength);
  const isNested = random.chance(0.5);
  const nestedLength = random.pick([2, 256]);
  const state = {
    quant_type: kind, blocksize: blockLength, dtype: 'bfloat16', shape,
    ...(isNested ? { nested_blocksize: nestedLength, nested_dtype: 'float32', nested_offset: 0.0123 } : {}),
  }; // biome-ignore format: one object
  const text = JSON.stringify(state);
  const isBF16 = random.chance(0.3);
  return {
    name: WEIGHT,
    config: { quantization_config: { quant_method: 'bitsandbytes', load_in_4bit: true } },
    tensors: {
      [WEIGHT]: codes(isBF16 ? 'BF16' : 'U8', [cd(cd(n, 2), isBF16 ? 2 : 1), 1]),
      [`${WEIGHT}.absmax`]: isNested ? codes('U8', [blocks]) : scales('F32', [blocks]),
      [`${WEIGHT}.quant_map`]: scales('F32', [16]),
      [`${WEIGHT}.quant_state.bitsandbytes__${kind}`]: {
        dtype: 'U8',
        shape: [text.length],
        content: { text },
      },
      ...(isNested
        ? {
            [`${WEIGHT}.nested_absmax`]: scales('F32', [cd(blocks, nestedLength)]),
            [`${WEIGHT}.nested_quant_map`]: scales('F32', [256]),
          }
        : {}),
    },
    facts: {
      shape,
      scheme: `bitsandbytes-${kind}`,
      bits: 4,
      block: [blockLength],
      ...(isNested ? { nested: { blockLength: nestedLength, offset: 0.0123 } } : {}),
    },
    storedAs: {
      weight: WEIGHT, scale: `${WEIGHT}.absmax`, codeBook: `${WEIGHT}.quant_map`, state: `${WEIGHT}.quant_state.bitsandbytes__${kind}`,
      ...(isNested ? { nestedScale: `${WEIGHT}.nested_absmax`, nestedCodeBook: `${WEIGHT}.nested_quant_map` } : {}),
    }, // biome-ignore format: one object
  };
};

export const gptq: Maker = (random) => {
  const bits = random.pick([2, 3, 4, 8]);
  const [K, N] = [32 * random.from(1, 3), 32 * random.from(1, 2)];
  const g = random.pick([16, 32, -1]);
  const G = g === -1 ? 1 : K / g;
  const hasOrder = random.chance(0.7);
  const isV2 = random.chance(0.4);
  const regular = Array.from({ length: K }, (_, k) => Math.floor(k / (g === -1 ? K : g)));
  return {
    name: WEIGHT,
    config: {
      quantization_config: {
        quant_method: 'gptq',
        bits,
        group_size: g,
        desc_act: false,
        sym: false,
        checkpoint_format: isV2 ? 'gptq_v2' : 'gptq',
      },
    },
    tensors: {
      [`${NAME}.qweight`]: codes('I32', [(K * bits) / 32, N]),
      [`${NAME}.qzeros`]: codes('I32', [G, (N * bits) / 32]),
      [`${NAME}.scales`]: scales(random.pick(FLOATS), [G, N]),
      ...(hasOrder
        ? {
            [`${NAME}.g_idx`]: {
              dtype: 'I32',
              shape: [K],
              content: random.chance(0.5) ? { below: G } : regular,
            },
          }
        : {}),
    },
    facts: {
      shape: [N, K],
      scheme: 'gptq',
      bits,
      block: [1, g === -1 ? K : g],
      offset: isV2 ? 0 : 1,
    },
    storedAs: {
      weight: `${NAME}.qweight`,
      scale: `${NAME}.scales`,
      zeroPoint: `${NAME}.qzeros`,
      ...(hasOrder ? { columnGroups: `${NAME}.g_idx` } : {}),
    },
  };
};

export const awq: Maker = (random) => {
  const g = random.pick([8, 16, 32]);
  const [G, N] = [random.from(1, 4), 8 * random.from(1, 5)];
  const K = g * G;
  return {
    name: WEIGHT,
    config: {
      quantization_config: {
        quant_method: 'awq',
        bits: 4,
        group_size: g,
        version: random.pick(['gemm', 'GEMM']),
      },
    },
    tensors: {
      [`${NAME}.qweight`]: codes('I32', [K, N / 8]),
      [`${NAME}.qzeros`]: codes('I32', [G, N / 8]),
      [`${NAME}.scales`]: scales('F16', [G, N]),
    },
    facts: { shape: [N, K], scheme: 'awq', bits: 4, block: [1, g] },
    storedAs: { weight: `${NAME}.qweight`, scale: `${NAME}.scales`, zeroPoint: `${NAME}.qzeros` },
  };
};

export const mlx: Maker = (random) => {
  const [R, G] = [random.from(1, 20), random.from(1, 3)];
  const lead = random.chance(0.3) ? [random.from(1, 3)] : [];
  const mode = random.pick(['affine', 'affine', 'mxfp4', 'nvfp4', 'mxfp8'] as const);
  const g = mode === 'affine' ? random.pick([32, 64, 128]) : mode === 'nvfp4' ? 16 : 32;
  const bits = mode === 'affine' ? random.pick([2, 3, 4, 5, 6, 8]) : mode === 'mxfp8' ? 8 : 4;
  const K = g * G;
  if ((K * bits) % 32 !== 0) return mlx(random);
  const isAffine = mode === 'affine';
  const dtype = isAffine ? random.pick(FLOATS) : 'U8';
  return {
    name: WEIGHT,
    config: { quantization: { group_size: 64, bits: 4, [NAME]: { group_size: g, bits, mode } } },
    tensors: {
      [WEIGHT]: codes('U32', [...lead, R, (K * bits) / 32]),
      [`${NAME}.scales`]: scales(dtype, [...lead, R, G]),
      ...(isAffine ? { [`${NAME}.biases`]: scales(dtype, [...lead, R, G]) } : {}),
    },
    facts: { shape: [...lead, R, K], scheme: `mlx-${mode}`, bits, block: [1, g] },
    storedAs: {
      weight: WEIGHT,
      scale: `${NAME}.scales`,
      ...(isAffine ? { bias: `${NAME}.biases` } : {}),
    },
  };
};
