/** Takes what the machine is told about the Hub out of the environment of a test. */
import { vi } from 'vitest';
import { temporaryPath } from './make-file.js';

/**
 * Takes everything that the machine is told about the Hub out of the environment, tokens too, and names the
 * Hub. `vi.unstubAllEnvs` puts it back.
 */
export function useHub(endpoint: string): void {
  for (const name of Object.keys(process.env)) {
    if (/^(?:HF|HUGGING_?FACE|TRANSFORMERS)_/.test(name)) vi.stubEnv(name, undefined);
  }
  vi.stubEnv('HF_HOME', temporaryPath('hub-home'));
  vi.stubEnv('HF_ENDPOINT', endpoint);
}
