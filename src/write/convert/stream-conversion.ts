/** `convertStream`. Its code loads on the first call. */

import type { ConversionStreamOptions, StreamedConversion } from './convert-stream.js';

/**
 * As `convert`, into a stream of one file's bytes: for the standard output, an upload, or an answer by HTTP. The
 * length is known before the first piece, and memory holds some pieces of 1 MiB.
 *
 * Names, dtypes and shapes are checked before the promise resolves. With `verify` the checksums of an archive are
 * compared: those that go with a tensor's bytes while the stream is read, the others before. Nothing can be read back.
 *
 * @throws As `convert`; in the stream as `serializeStream`, and `SAFETENSORS_CHECKSUM_MISMATCH`
 *
 * @example
 * ```ts
 * const { stream, root } = await convertStream('model.ckpt', { dtype: 'BF16' });
 * const response = new Response(stream.readable());
 * console.log(stream.byteLength === (await response.arrayBuffer()).byteLength, root); // → true [ 'state_dict' ]
 * ```
 */
export async function convertStream(
  source: string | URL,
  options?: ConversionStreamOptions,
): Promise<StreamedConversion> {
  const { convertStream: stream } = await import('./convert-stream.js');
  return await stream(source, options);
}
