/** The files of a pipeline of diffusers: two shards with an index, a model with a variant, a folder without weights. */
import { countedBytes, fileBytes } from '../../support/make-file.js';

export const UNET: Uint8Array = fileBytes([
  { name: 'wide', dtype: 'F32', shape: [300, 4], bytes: countedBytes(4800) },
  { name: 'odd', dtype: 'U8', shape: [3], bytes: Buffer.from('odd') },
]);

const INDEX = {
  metadata: { total_size: 8 },
  weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
};

export const FILES = {
  'model_index.json': JSON.stringify({
    _class_name: 'Pipeline',
    scheduler: ['diffusers', 'EulerDiscreteScheduler'],
    text_encoder: ['transformers', 'CLIPTextModel'],
    unet: ['diffusers', 'UNet2DConditionModel'],
  }),
  'scheduler/scheduler_config.json': '{}',
  'text_encoder/config.json': '{}',
  'text_encoder/model-00001-of-00002.safetensors': fileBytes([
    { name: 'a', dtype: 'U8', shape: [4] },
  ]),
  'text_encoder/model-00002-of-00002.safetensors': fileBytes([
    { name: 'b', dtype: 'U8', shape: [4] },
  ]),
  'text_encoder/model.safetensors.index.json': JSON.stringify(INDEX),
  'unet/config.json': '{}',
  'unet/diffusion_pytorch_model.safetensors': UNET,
  'unet/diffusion_pytorch_model.fp16.safetensors': fileBytes([
    { name: 'half', dtype: 'U8', shape: [4] },
  ]),
} satisfies Readonly<Record<string, string | Uint8Array>>;
