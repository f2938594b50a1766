/** The addon, for those who can do without it; its kernels become those of `float32`. */

import { provideKernels } from '../float32/kernels.js';
import type { NativeBinding } from './binding.js';
import { loadNative } from './load.js';

/** The addon, where there is one. */
export function addon(): NativeBinding | undefined {
  const native = loadNative();
  return 'binding' in native ? native.binding : undefined;
}

provideKernels(addon);
