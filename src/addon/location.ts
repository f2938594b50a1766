/** Where the addon's file is. */

import { resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** The environment variable that names the file, for programs whose bundler leaves it behind. */
export const ADDON_VARIABLE = 'SAFETENSORS_MMAP_ADDON';

/** Operating system and processor, as the folders of `prebuilds/` are called. */
export const PLATFORM: string = `${process.platform}-${process.arch}`;

/** The platforms that the package has a file for. That for Linux fits GNU's C library and musl. */
export const SHIPPED_PLATFORMS: readonly string[] = [
  'linux-x64',
  'linux-arm64',
  'darwin-x64',
  'darwin-arm64',
  'win32-x64',
  'win32-arm64',
];

/**
 * The file of the package, or of a clone. Bundlers and file tracers recognise `new URL` of a literal and
 * `import.meta.url`, and take the file along. webpack stops when such a file is missing: every literal
 * names a file that the package ships, and every file that it ships has one.
 */
function shippedFile(): URL {
  switch (PLATFORM) {
    case 'linux-x64':
      return new URL('../../prebuilds/linux-x64/safetensors-mmap.node', import.meta.url);
    case 'linux-arm64':
      return new URL('../../prebuilds/linux-arm64/safetensors-mmap.node', import.meta.url);
    case 'darwin-x64':
      return new URL('../../prebuilds/darwin-x64/safetensors-mmap.node', import.meta.url);
    case 'darwin-arm64':
      return new URL('../../prebuilds/darwin-arm64/safetensors-mmap.node', import.meta.url);
    case 'win32-x64':
      return new URL('../../prebuilds/win32-x64/safetensors-mmap.node', import.meta.url);
    case 'win32-arm64':
      return new URL('../../prebuilds/win32-arm64/safetensors-mmap.node', import.meta.url);
    default: {
      // Compiled in a clone, for a platform that the package has no file for. Not for bundlers.
      const here = import.meta.url;
      return new URL(`../../prebuilds/${PLATFORM}/safetensors-mmap.node`, here);
    }
  }
}

/** The file that the environment names. Deno throws where it forbids to read the environment. */
export function namedFile(): string | undefined {
  try {
    return process.env[ADDON_VARIABLE];
  } catch {
    return undefined;
  }
}

/**
 * The addon's path, whether or not there is a file. Undefined in a bundle that does not know its own
 * place: in CommonJS, `import.meta` is empty.
 */
export function addonPath(): string | undefined {
  const named = namedFile();
  if (named) return resolve(named);
  try {
    return fileURLToPath(shippedFile());
  } catch {
    return undefined;
  }
}
