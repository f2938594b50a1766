/** The file that makes a folder a pipeline of diffusers: of a text encoder, a U-Net, and a scheduler without weights. */
export const MODEL_INDEX: string = JSON.stringify({
  _class_name: 'Pipeline',
  scheduler: ['diffusers', 'EulerDiscreteScheduler'],
  text_encoder: ['transformers', 'CLIPTextModel'],
  unet: ['diffusers', 'UNet2DConditionModel'],
});
