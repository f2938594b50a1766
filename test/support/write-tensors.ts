/** Writes a file of tensors before it returns. */
import { writeFileSync } from 'node:fs';
import { serialize } from './api.js';

/** As `saveFile`, on this thread, and not in one step. */
export function writeTensors(
  path: string,
  tensors: Parameters<typeof serialize>[0],
  options: Parameters<typeof serialize>[1] = {},
): void {
  writeFileSync(path, serialize(tensors, options));
}
