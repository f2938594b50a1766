/** Whether work can have a separate thread. */

import process from 'node:process';
import { IS_DENO } from './file-calls.js';

/** False in Deno, and with `--permission` unless Node was told otherwise. */
export function mayStartThread(): boolean {
  return !IS_DENO && (process.permission?.has('worker') ?? true);
}
