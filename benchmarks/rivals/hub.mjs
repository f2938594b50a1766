/** The rival of `parseSafetensorsMetadata`. */
export { parseSafetensorsMetadata } from '@huggingface/hub';
