/** The byte order of the machine, which has to be that of the format. */

import { endianness } from 'node:os';
import { SafetensorsError } from './errors.js';

/** Throws `SAFETENSORS_BIG_ENDIAN_HOST` where numbers have their high byte first. */
export function requireLittleEndianHost(path?: string): void {
  if (endianness() === 'LE') return;
  const message = 'safetensors files are little endian, and this machine is not';
  throw new SafetensorsError('SAFETENSORS_BIG_ENDIAN_HOST', message, { path });
}
