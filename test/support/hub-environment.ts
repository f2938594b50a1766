/** Removes the machine's Hub settings from the environment of a test. */
import { vi } from 'vitest';
import { temporaryPath } from './make-file.js';

/**
 * Removes all settings of the Hub from the environment, tokens too, and names the Hub. `vi.unstubAllEnvs` puts it
 * back.
 */
export function useHub(endpoint: string): void {
  for (const name of Object.keys(process.env)) {
    if (/^(?:HF|HUGGING_?FACE|TRANSFORMERS)_/.test(name)) vi.stubEnv(name, undefined);
  }
  vi.stubEnv('HF_HOME', temporaryPath('hub-home'));
  vi.stubEnv('HF_ENDPOINT', endpoint);
}
