/** Repositories as the Hub has them, each with the requests that reading takes. */
import type { Content, Files, HubRepository } from '../../support/hub-server.js';
import { type Entry, type FileOptions, fileBytes } from '../../support/make-file.js';

/** Parameters of a call, without the address of the Hub. */
export interface CallParams {
  readonly path?: string;
  readonly revision?: string;
  readonly library?: string;
  readonly accessToken?: string;
  readonly computeParametersCount?: boolean;
}

/** A repository and the calls to make about it. */
export interface RepositoryCase extends HubRepository {
  readonly calls?: readonly CallParams[];
}

/** `{ 'a.weight': 'F32 2x3' }` as a file; `''` is a scalar's shape. */
export function tensorFile(
  tensors: Readonly<Record<string, string>>,
  options?: FileOptions,
): Uint8Array {
  const entries = Object.entries(tensors).map(([name, text]): Entry => {
    const [dtype, shape = ''] = text.split(' ');
    const dimensions = shape === '' ? [] : shape.split('x').map(Number);
    return { name, dtype: dtype as Entry['dtype'], shape: dimensions };
  });
  return fileBytes(entries, options);
}

/** A file with this text as its header, and so many bytes of it. */
export function rawFile(header: string, dataByteLength = 0): Uint8Array {
  const json = new TextEncoder().encode(header);
  const file = new Uint8Array(8 + json.length + dataByteLength);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(json, 8);
  return file;
}

/** An index and its shards, below a folder; the index may have further members. */
export function shardedFiles(
  shards: Readonly<Record<string, Readonly<Record<string, string>>>>,
  members: object = {},
  prefix = 'model.safetensors.index.json',
): Files {
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  const weightMap = Object.entries(shards).flatMap(([shard, tensors]) =>
    Object.keys(tensors).map((name) => [name, shard]),
  );
  const files: Record<string, Content> = {
    [prefix]: JSON.stringify({ ...members, weight_map: Object.fromEntries(weightMap) }),
  };
  for (const [shard, tensors] of Object.entries(shards)) {
    files[folder + shard] = tensorFile(tensors, { metadata: { format: 'pt' } });
  }
  return files;
}

function withConfig(files: Files, config: object): Files {
  return { ...files, 'config.json': JSON.stringify(config) };
}

/** A small model. */
export const PLAIN = {
  'a.weight': 'F32 2x3',
  'b.weight': 'BF16 4',
  scalar: 'F32',
  empty: 'F16 0x7',
};

/** A model in two files. */
export const TWO_SHARDS = shardedFiles(
  {
    'model-00001-of-00002.safetensors': { 'a.weight': 'BF16 8x4', 'a.bias': 'F32 8' },
    'model-00002-of-00002.safetensors': { 'b.weight': 'BF16 4x4', ids: 'I64 3' },
  },
  {
    metadata: { total_size: 160, total_parameters: 40, format: 'pt', nested: { a: 1 } },
    dtype: 'bfloat16',
  },
);

const COMPUTED: CallParams = { computeParametersCount: true };
const ALL = [{}, COMPUTED];

/** A module that GPTQ has packed. */
function gptqModule(name: string): Record<string, string> {
  return {
    [`${name}.qweight`]: 'I32 4x8',
    [`${name}.qzeros`]: 'I32 2x1',
    [`${name}.scales`]: 'F16 2x8',
    [`${name}.g_idx`]: 'I32 32',
    [`${name}.bias`]: 'F16 8',
  };
}

/** A module that MLX has packed. */
function mlxModule(name: string): Record<string, string> {
  return {
    [`${name}.weight`]: 'U32 8x4',
    [`${name}.scales`]: 'F16 8x1',
    [`${name}.biases`]: 'F16 8x1',
  };
}

/** A header that is longer than what the first request brings. */
const LONG_HEADER = Object.fromEntries(
  Array.from({ length: 3000 }, (_, i) => [`model.layers.${i}.weight`, 'U8 1']),
);

/** Repositories for which both functions must give the same results. */
export const ACCEPTED: Readonly<Record<string, RepositoryCase>> = {
  'test/single': {
    files: {
      'model.safetensors': tensorFile(PLAIN, { metadata: { format: 'pt', total_parameters: '7' } }),
      'README.md': '# A model',
    },
    formerNames: ['test/renamed'],
    calls: ALL,
  },
  gpt2: { files: { 'model.safetensors': tensorFile(PLAIN) }, calls: ALL },
  'test/sharded': { files: withConfig(TWO_SHARDS, { model_type: 'llama' }), calls: ALL },
  'test/both': {
    files: { ...TWO_SHARDS, 'model.safetensors': tensorFile({ only: 'U8 3' }) },
    calls: [...ALL, { path: 'model.safetensors.index.json', ...COMPUTED }],
  },
  'test/revisions': {
    files: { 'model.safetensors': tensorFile(PLAIN) },
    revisions: {
      'refs/pr/1': { 'model.safetensors': tensorFile({ changed: 'F64 3' }) },
      'v1.0': TWO_SHARDS,
    },
    calls: [{ revision: 'refs/pr/1' }, { revision: 'v1.0', ...COMPUTED }, { revision: 'main' }],
  },
  'test/paths': {
    files: {
      'sub folder/ünï.safetensors': tensorFile(PLAIN),
      'other/x.safetensors': tensorFile({ other: 'I8 5' }),
      ...shardedFiles(
        { 'w/1.safetensors': { a: 'F32 2' }, '2.safetensors': { b: 'F32 3' } },
        {},
        'deep/er/m.safetensors.index.json',
      ),
    },
    calls: [
      { path: 'other/x.safetensors', ...COMPUTED },
      { path: 'sub folder/ünï.safetensors' },
      { path: 'deep/er/m.safetensors.index.json', ...COMPUTED },
    ],
  },
  'test/odd-names': {
    files: {
      'model.safetensors': rawFile(
        '{"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"10":{"shape":[1],"data_offsets":' +
          '[2,3],"dtype":"I8","note":"kept"},"\\u0061\\"":{"dtype":"BOOL","shape":[],"data_offsets":' +
          '[3,4]},"__metadata__":{"constructor":"x","é":"\\ud83d\\ude00"}}  ',
        4,
      ),
    },
    calls: ALL,
  },
  'test/proto': {
    files: {
      'model.safetensors': rawFile(
        '{"__proto__":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"__metadata__":{"__proto__":"x"}}',
        2,
      ),
    },
  },
  'test/metadata-null': {
    files: {
      'model.safetensors': rawFile(
        '{"__metadata__":null,"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        1,
      ),
    },
    calls: ALL,
  },
  'test/no-tensors': { files: { 'model.safetensors': rawFile('{}') }, calls: ALL },
  'test/total-too-large': {
    files: shardedFiles(
      { 'a.safetensors': { a: 'F32 2' } },
      { metadata: { total_parameters: '1000000', list: [1] } },
    ),
    calls: ALL,
  },
  'test/gptq': {
    files: withConfig(
      {
        'model.safetensors': tensorFile({
          ...gptqModule('m.q'),
          ...gptqModule('lm_head'),
          'norm.weight': 'F16 8',
        }),
      },
      {
        quantization_config: { quant_method: 'gptq', bits: 4, modules_to_not_convert: ['lm_head'] },
      },
    ),
    calls: ALL,
  },
  'test/awq': {
    files: withConfig(
      shardedFiles({
        'a.safetensors': gptqModule('m.q'),
        'b.safetensors': { ...gptqModule('m.k'), 'embed.weight': 'BF16 16x4' },
      }),
      { quantization_config: { quant_method: 'awq', bits: 8 } },
    ),
    calls: ALL,
  },
  'test/bitsandbytes': {
    files: withConfig(
      {
        'model.safetensors': tensorFile({
          'm.weight': 'U8 64x1',
          'm.weight.absmax': 'U8 2',
          'm.weight.quant_map': 'F32 16',
          'm.weight.nested_absmax': 'F32 1',
          'm.weight.nested_quant_map': 'F32 256',
          'm.weight.quant_state.bitsandbytes__nf4': 'U8 90',
          'norm.weight': 'F16 8',
        }),
      },
      { quantization_config: { quant_method: 'bitsandbytes', load_in_4bit: true } },
    ),
    calls: ALL,
  },
  'test/mxfp4': {
    files: withConfig(
      {
        'model.safetensors': tensorFile({
          'mlp.experts.gate_up_proj_blocks': 'U8 2x4x2x16',
          'mlp.experts.gate_up_proj_scales': 'U8 2x4x2',
          'mlp.experts.gate_up_proj_bias': 'BF16 2x4',
          learned_scales: 'BF16 4',
        }),
      },
      { quantization_config: { quant_method: 'mxfp4', modules_to_not_convert: ['*.self_attn'] } },
    ),
    calls: ALL,
  },
  'test/compressed-tensors': {
    files: withConfig(
      {
        'model.safetensors': tensorFile({
          'm.q.weight_packed': 'I32 4x3',
          'm.q.weight_scale': 'BF16 4x1',
          'm.q.weight_shape': 'I64 2',
          'm.k.weight_packed': 'U8 4x3',
          'm.k.weight_zero_point': 'I8 4',
          'lm_head.weight': 'I32 4x4',
          'norm.weight': 'BF16 4',
        }),
      },
      {
        quantization_config: {
          quant_method: 'compressed-tensors',
          format: 'pack-quantized',
          ignore: ['re:.*head$'],
          config_groups: {
            a: { targets: ['re:.*\\.q$'], weights: { num_bits: 3 } },
            b: { targets: ['Linear'], format: 'nvfp4-pack-quantized' },
          },
        },
      },
    ),
    calls: ALL,
  },
  'test/fp8': {
    files: withConfig(
      {
        'model.safetensors': tensorFile({
          'm.q.weight': 'F8_E4M3 8x4',
          'm.q.weight_scale_inv': 'F32 1x1',
          'm.experts.0.w1.weight': 'I8 8x2',
          'm.experts.0.w1.scale': 'F8_E8M0 8x1',
          'm.shared_experts.w1.weight': 'I8 8x2',
          'gate.tid2eid': 'I32 4x2',
        }),
      },
      { quantization_config: { quant_method: 'fp8' }, text_config: { expert_dtype: 'fp4' } },
    ),
    calls: ALL,
  },
  'test/mlx': {
    files: withConfig(
      shardedFiles({
        'a.safetensors': { 'm.q.weight': 'U32 8x4', 'm.q.scales': 'F16 8x1', ...mlxModule('m.v') },
        'b.safetensors': { 'm.q.biases': 'F16 8x1', 'm.k.weight': 'U32 8x4', ...mlxModule('m.o') },
      }),
      {
        quantization: { bits: 4, group_size: 64, 'm.o': false, 'm.v': { bits: 6, group_size: 32 } },
      },
    ),
    calls: ALL,
  },
  'test/config-is-broken': {
    files: { ...TWO_SHARDS, 'config.json': '{"quantization_config": ' },
    calls: ALL,
  },
  'test/diffusers': {
    files: {
      ...shardedFiles(
        { 'diffusion_pytorch_model-00001-of-00001.safetensors': { 'proj.weight': 'F16 4x4' } },
        { metadata: { total_size: 32 } },
        'transformer/diffusion_pytorch_model.safetensors.index.json',
      ),
      'transformer/config.json':
        '{"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true}}',
      'vae/diffusion_pytorch_model.safetensors': tensorFile({ vae: 'F32 2' }),
      'model_index.json': '{"_class_name":"FluxPipeline"}',
    },
    calls: [
      { library: 'diffusers' },
      { library: 'diffusers', ...COMPUTED },
      { library: 'diffusers', path: 'vae/diffusion_pytorch_model.safetensors' },
    ],
  },
  'test/unet': {
    files: {
      'unet/diffusion_pytorch_model.safetensors': tensorFile({ unet: 'F16 2x2' }),
      'diffusion_pytorch_model.safetensors': tensorFile({ root: 'F16 2' }),
    },
    calls: [{ library: 'diffusers' }],
  },
  'test/controlnet': {
    files: { 'diffusion_pytorch_model.safetensors': tensorFile({ control: 'F16 2' }) },
    calls: [{ library: 'diffusers', ...COMPUTED }],
  },
  'test/long-header': { files: { 'model.safetensors': tensorFile(LONG_HEADER) }, calls: ALL },
  'test/private': {
    files: { 'model.safetensors': tensorFile(PLAIN) },
    access: 'private',
    calls: [{ accessToken: 'hf_reader' }],
  },
  'test/gated': {
    files: withConfig(TWO_SHARDS, {}),
    access: 'gated',
    calls: [{ accessToken: 'hf_reader', ...COMPUTED }],
  },
};
