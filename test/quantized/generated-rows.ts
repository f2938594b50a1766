/** Random weights of a byte or four bits per value, row by row. */
import { cd, codes, FLOATS, group, type Maker, NAME, scales, WEIGHT } from './generated-tensors.js';

export const fp8Block: Maker = (random) => {
  const [R, K] = [random.from(1, 70), random.from(1, 70)];
  const [br, bc] = [random.pick([16, 32, 128]), random.pick([16, 32, 128])];
  const E = random.chance(0.3) ? random.from(1, 3) : 0;
  const lead = E === 0 ? [] : [E];
  const scale = random.pick([`${WEIGHT}_scale_inv`, `${WEIGHT}_scale`, `${NAME}.scale`]);
  const shape = [...lead, R, K];
  return {
    name: WEIGHT,
    config: { quantization_config: { quant_method: 'fp8', weight_block_size: [br, bc] } },
    tensors: {
      [WEIGHT]: codes(random.pick(['F8_E4M3', 'F8_E5M2']), shape),
      [scale]: scales(random.pick([...FLOATS, 'F8_E8M0']), [...lead, cd(R, br), cd(K, bc)]),
      [`${NAME}.input_scale`]: scales('F32', []),
    },
    facts: { shape, scheme: 'fp8', bits: 8, block: [br, bc] },
    storedAs: { weight: WEIGHT, scale },
  };
};

export const byRow: Maker = (random) => {
  const [R, K] = [random.from(2, 60), random.from(2, 60)];
  const isTensor = random.chance(0.4);
  const dtype = random.pick(['F8_E4M3', 'I8'] as const);
  const scaleShape = isTensor ? random.pick([[], [1], [1, 1]]) : [R, 1];
  const zero = dtype === 'I8' && random.chance(0.5);
  const zeros = { [`${WEIGHT}_zero_point`]: codes('I8', scaleShape) };
  return {
    name: WEIGHT,
    config: group({ strategy: isTensor ? 'tensor' : 'channel', num_bits: 8 }),
    tensors: {
      [WEIGHT]: codes(dtype, [R, K]),
      [`${WEIGHT}_scale`]: scales(random.pick(FLOATS), scaleShape),
      ...(zero ? zeros : {}),
    },
    facts: {
      shape: [R, K],
      scheme: dtype === 'I8' ? 'int8' : 'fp8',
      bits: 8,
      block: isTensor ? null : [1, K],
    },
    storedAs: {
      weight: WEIGHT,
      scale: `${WEIGHT}_scale`,
      ...(zero ? { zeroPoint: `${WEIGHT}_zero_point` } : {}),
    },
  };
};

export const byGroup: Maker = (random) => {
  const g = random.pick([4, 16, 32]);
  const [R, G] = [random.from(1, 20), random.from(2, 4)];
  const K = g * G;
  const isOrdered = random.chance(0.5);
  return {
    name: WEIGHT,
    config: group({
      strategy: 'group',
      group_size: g,
      num_bits: 8,
      actorder: isOrdered ? 'group' : null,
    }),
    tensors: {
      [WEIGHT]: codes('I8', [R, K]),
      [`${WEIGHT}_scale`]: scales(random.pick(FLOATS), [R, G]),
      ...(isOrdered
        ? { [`${WEIGHT}_g_idx`]: { dtype: 'I32', shape: [K], content: { below: G } } }
        : {}),
    },
    facts: { shape: [R, K], scheme: 'int8', bits: 8, block: [1, g] },
    storedAs: {
      weight: WEIGHT,
      scale: `${WEIGHT}_scale`,
      ...(isOrdered ? { columnGroups: `${WEIGHT}_g_idx` } : {}),
    },
  };
};

export const mxfp8: Maker = (random) => {
  const [R, G] = [random.from(1, 20), random.from(1, 4)];
  return {
    name: WEIGHT,
    config: { quantization_config: { quant_method: 'mxfp8' } },
    tensors: { [WEIGHT]: codes('F8_E4M3', [R, 32 * G]), [`${WEIGHT}_scale`]: scales('U8', [R, G]) },
    facts: {
      shape: [R, 32 * G],
      scheme: 'mxfp8',
      bits: 8,
      block: R === 1 && G === 1 ? null : [1, 32],
    },
    storedAs: { weight: WEIGHT, scale: `${WEIGHT}_scale` },
  };
};

export const int8: Maker = (random) => {
  const [R, K] = [random.from(1, 40), random.from(1, 40)];
  return {
    name: WEIGHT,
    config: { quantization_config: { quant_method: 'bitsandbytes', load_in_8bit: true } },
    tensors: {
      [WEIGHT]: codes('I8', [R, K]),
      [`${NAME}.SCB`]: scales('F32', [R]),
      [`${NAME}.weight_format`]: { dtype: 'U8', shape: [], content: [0] },
    },
    facts: { shape: [R, K], scheme: 'bitsandbytes-int8', bits: 8, block: [1, K] },
    storedAs: { weight: WEIGHT, scale: `${NAME}.SCB`, format: `${NAME}.weight_format` },
  };
};

export const nvfp4: Maker = (random) => {
  const [R, G] = [random.from(1, 20), random.from(1, 5)];
  const isModelopt = random.chance(0.5);
  const weight = isModelopt ? WEIGHT : `${WEIGHT}_packed`;
  const global = isModelopt ? `${WEIGHT}_scale_2` : `${WEIGHT}_global_scale`;
  return {
    name: WEIGHT,
    config: isModelopt
      ? { quantization_config: { quant_method: 'modelopt' } }
      : group({ strategy: 'tensor_group' }),
    tensors: {
      [weight]: codes('U8', [R, 8 * G]),
      [`${WEIGHT}_scale`]: scales('F8_E4M3', [R, G]),
      [global]: scales('F32', isModelopt ? [] : [1]),
    },
    facts: { shape: [R, 16 * G], scheme: 'nvfp4', bits: 4, block: [1, 16], divides: !isModelopt },
    storedAs: { weight, scale: `${WEIGHT}_scale`, globalScale: global },
  };
};

export const mxfp4: Maker = (random) => {
  const [E, R, G] = [random.from(1, 3), random.from(1, 70), random.from(1, 3)];
  const kind = random.pick(['exchanged', 'own', 'packed', 'expert'] as const);
  const block = [1, 32];
  if (kind === 'packed' || kind === 'expert') {
    const isPacked = kind === 'packed';
    const weight = isPacked ? `${WEIGHT}_packed` : WEIGHT;
    const scale = isPacked ? `${WEIGHT}_scale` : `${NAME}.scale`;
    return {
      name: WEIGHT,
      config: isPacked
        ? group({ strategy: 'group', group_size: 32 })
        : { quantization_config: { quant_method: 'fp8' }, expert_dtype: 'fp4' },
      tensors: {
        [weight]: codes(isPacked ? 'U8' : 'I8', [R, 16 * G]),
        [scale]: scales(isPacked ? 'U8' : 'F8_E8M0', [R, G]),
      },
      facts: { shape: [R, 32 * G], scheme: 'mxfp4', bits: 4, block },
      storedAs: { weight, scale },
    };
  }
  const isExchanged = kind === 'exchanged';
  const dot = isExchanged ? '_' : '.';
  return {
    name: NAME,
    config: { quantization_config: { quant_method: 'mxfp4' } },
    tensors: {
      [`${NAME}${dot}blocks`]: codes('U8', [E, R, G, 16]),
      [`${NAME}${dot}scales`]: scales('U8', [E, R, G]),
    },
    facts: {
      shape: isExchanged ? [E, 32 * G, R] : [E, R, 32 * G],
      scheme: 'mxfp4',
      bits: 4,
      block: isExchanged ? [32, 1] : block,
      isExchanged,
    },
    storedAs: { weight: `${NAME}${dot}blocks`, scale: `${NAME}${dot}scales` },
  };
};
