/** Quantized weights as float32, against each scheme's rule in torch. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { serialize } from 'safetensors-mmap';
import { pick } from '../contenders.mjs';

const WAYS = pick('dequantize dequantizeTorch');

/** Rows and columns: 117 MB of float32, more than caches hold. */
const [ROWS, COLUMNS] = [4096, 7168];

/** Codes in no order, none of FP8 that is NaN. */
function codes(length) {
  let next = 1;
  return Uint8Array.from({ length }, () => {
    next = (Math.imul(next, 1103515245) + 12345) | 0;
    return (next >>> 16) & 0x77;
  });
}

/** Exponents around those of weights: products with smaller ones are subnormal, which processors are slow with. */
const exponents = (length) => codes(length).map((code) => code | 0x70);

const words = (length) => new Int32Array(codes(4 * length).buffer);
const some = (Type, length, value) => new Type(length).fill(value);
const bfloat16 = (length) => some(Uint16Array, length, 0x3c00);

/** ComfyUI's marker. */
function marker(format, keys = {}) {
  const data = new TextEncoder().encode(JSON.stringify({ format, ...keys }));
  return { 'm.comfy_quant': ['U8', [data.length], data] };
}

const int8 = (rows, keys) => [
  {
    'm.weight': ['I8', [rows, COLUMNS], codes(rows * COLUMNS)],
    'm.weight_scale': ['F32', [rows, 1], some(Float32Array, rows, 0.01)],
    ...marker('int8_tensorwise', keys),
  },
];

/** Each scheme's tensors and configuration, of so many rows. Those without one are ComfyUI's. */
const SCHEMES = {
  fp8: (rows) => [
    {
      'm.weight': ['F8_E4M3', [rows, COLUMNS], codes(rows * COLUMNS)],
      'm.weight_scale_inv': [
        'F32',
        [rows / 128, COLUMNS / 128],
        some(Float32Array, (rows * COLUMNS) / 128 ** 2, 0.01),
      ],
    },
    { quant_method: 'fp8', weight_block_size: [128, 128] },
  ],
  nf4: (rows) => [
    {
      'm.weight': ['U8', [(rows * COLUMNS) / 2, 1], codes((rows * COLUMNS) / 2)],
      'm.weight.absmax': [
        'F32',
        [(rows * COLUMNS) / 64],
        some(Float32Array, (rows * COLUMNS) / 64, 0.5),
      ],
      'm.weight.quant_map': ['F32', [16], Float32Array.from({ length: 16 }, (_, i) => i / 8 - 1)],
      'm.weight.quant_state.bitsandbytes__nf4': (() => {
        const shape = [rows, COLUMNS];
        const state = { quant_type: 'nf4', blocksize: 64, dtype: 'bfloat16', shape };
        const data = new TextEncoder().encode(JSON.stringify(state));
        return ['U8', [data.length], data];
      })(),
    },
    { quant_method: 'bitsandbytes' },
  ],
  mxfp4: (rows) => [
    {
      'm.weight_packed': ['U8', [rows, COLUMNS / 2], codes((rows * COLUMNS) / 2)],
      'm.weight_scale': ['U8', [rows, COLUMNS / 32], exponents((rows * COLUMNS) / 32)],
    },
    { quant_method: 'compressed-tensors' },
  ],
  gptq: (rows) => [
    {
      'm.qweight': ['I32', [COLUMNS / 8, rows], words((rows * COLUMNS) / 8)],
      'm.qzeros': ['I32', [COLUMNS / 128, rows / 8], words((COLUMNS / 128) * (rows / 8))],
      'm.scales': ['BF16', [COLUMNS / 128, rows], bfloat16((COLUMNS / 128) * rows)],
      'm.g_idx': ['I32', [COLUMNS], Int32Array.from({ length: COLUMNS }, (_, i) => i >> 7)],
    },
    { quant_method: 'gptq', bits: 4, group_size: 128 },
  ],
  int8: (rows) => int8(rows),
  convrot: (rows) => int8(rows, { convrot: true }),
  nvfp4: (rows) => [
    {
      'm.weight': ['U8', [rows, COLUMNS / 2], codes((rows * COLUMNS) / 2)],
      'm.weight_scale': ['F8_E4M3', [rows, COLUMNS / 16], codes((rows * COLUMNS) / 16)],
      'm.weight_scale_2': ['F32', [], some(Float32Array, 1, 0.01)],
      ...marker('nvfp4'),
    },
  ],
  mxfp8: (rows) => [
    {
      'm.weight': ['F8_E4M3', [rows, COLUMNS], codes(rows * COLUMNS)],
      'm.weight_scale': ['U8', [rows, COLUMNS / 32], exponents((rows * COLUMNS) / 32)],
      ...marker('mxfp8'),
    },
  ],
};

const isNode20 = process.versions.node.startsWith('20.');

export const quantized = {
  name: 'dequantize',
  prepare: ({ folder, size }) => {
    const path = join(folder, 'quantized');
    for (const [scheme, make] of Object.entries(SCHEMES)) {
      const [tensors, quantization_config] = make(size(ROWS, 128));
      const entries = Object.entries(tensors).map(([name, [dtype, shape, data]]) => [
        name,
        { dtype, shape, data },
      ]);
      mkdirSync(join(path, scheme), { recursive: true });
      writeFileSync(join(path, scheme, 'model.safetensors'), serialize(new Map(entries)));
      writeFileSync(join(path, scheme, 'config.json'), JSON.stringify({ quantization_config }));
    }
    return { path };
  },
  legs: ({ rounds }, { path }) => ({
    all: { contenders: WAYS, path, rounds, trusted: pick('dequantize') },
  }),
  page: `
    ## Quantized weights as float32, for 1 GB of it, one thread
    | way | FP8 in blocks = fp8 | NF4 = nf4 | MXFP4 = mxfp4 | GPTQ, 4 bits = gptq | ComfyUI's INT8 = int8 | rotated = convrot | NVFP4 = nvfp4 | MXFP8 = mxfp8 |
    - medians of 7 in an array used again; both have the same bits
    - {reasons}
    > FP8 in blocks, 1 GB of float32 | at most ${isNode20 ? 400 : 286} ms | dequantize.fp8 | torch = dequantizeTorch.fp8
    > NF4, 1 GB of float32 | at most ${isNode20 ? 417 : 256} ms | dequantize.nf4 | torch = dequantizeTorch.nf4
    > MXFP4, 1 GB of float32 | at most ${isNode20 ? 500 : 278} ms | dequantize.mxfp4 | torch = dequantizeTorch.mxfp4
    > GPTQ of 4 bits, 1 GB of float32 | at most ${isNode20 ? 417 : 313} ms | dequantize.gptq | torch = dequantizeTorch.gptq
    > ComfyUI's INT8, 1 GB of float32 | at most 400 ms | dequantize.int8 | torch = dequantizeTorch.int8
    > ComfyUI's rotated INT8, 1 GB of float32 | at most 1000 ms | dequantize.convrot | torch = dequantizeTorch.convrot
    > ComfyUI's NVFP4, 1 GB of float32 | at most 400 ms | dequantize.nvfp4 | torch = dequantizeTorch.nvfp4
    > ComfyUI's MXFP8, 1 GB of float32 | at most 400 ms | dequantize.mxfp8 | torch = dequantizeTorch.mxfp8`,
};
