/** The addon for callers that can do without it. Provides its kernels to `float32`. */

import { provideKernels } from '../../tensor/float32/kernels.js';
import type { Addon } from './binding.js';
import { loadAddon } from './load.js';

/** Returns the addon, if it can be loaded. */
export function addon(): Addon | undefined {
  const load = loadAddon();
  return 'addon' in load ? load.addon : undefined;
}

provideKernels(addon);
