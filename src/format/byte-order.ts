/** The byte order of the machine, which has to be that of the format. */

import { SafetensorsError } from '../errors/errors.js';

/** Throws `SAFETENSORS_BIG_ENDIAN_HOST` where numbers have their high byte first. */
export function requireLittleEndianHost(path?: string): void {
  if (new Uint8Array(Uint16Array.of(1).buffer)[0] === 1) return;
  const message = 'safetensors files are little endian, and this machine is not';
  throw new SafetensorsError('SAFETENSORS_BIG_ENDIAN_HOST', message, { path });
}
