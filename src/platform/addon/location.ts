/** Finds the addon's file. */

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** The environment variable that names the file, for programs whose bundler leaves it behind. */
export const ADDON_VARIABLE = 'SAFETENSORS_MMAP_ADDON';

/** Operating system and processor, as the folders of `prebuilds/` are called. */
export const PLATFORM: string = `${process.platform}-${process.arch}`;

/** The platforms with a file in the package. The file for Linux fits GNU's C library and musl. */
export const SHIPPED_PLATFORMS: readonly string[] = [
  'linux-x64',
  'linux-arm64',
  'darwin-x64',
  'darwin-arm64',
  'win32-x64',
  'win32-arm64',
];

/** The file's default name, in a bundle as in the package. */
const FILE = 'safetensors-mmap.node';

/** From this module to the file. scripts/bundle.mjs changes all such paths: lib/ is two folders less deep. */
const SHIPPED_FILE: string = `../../../prebuilds/${PLATFORM}/${FILE}`;

/**
 * The file, for bundlers and file tracers: they recognise `new URL` of a literal and `import.meta.url`, take the file
 * along, and put its new address here. Every literal names a file that the package may have. A missing file must not
 * stop a build, as in a package made from a clone: Turbopack asks for `try` in this very function; webpack has no
 * such way, so it is told to ignore these and uses `webpackFile`.
 */
function literalFile(): URL | undefined {
  try {
    switch (PLATFORM) {
      case 'linux-x64':
        return new URL(
          /* webpackIgnore: true */ '../../../prebuilds/linux-x64/safetensors-mmap.node',
          import.meta.url,
        );
      case 'linux-arm64':
        return new URL(
          /* webpackIgnore: true */ '../../../prebuilds/linux-arm64/safetensors-mmap.node',
          import.meta.url,
        );
      case 'darwin-x64':
        return new URL(
          /* webpackIgnore: true */ '../../../prebuilds/darwin-x64/safetensors-mmap.node',
          import.meta.url,
        );
      case 'darwin-arm64':
        return new URL(
          /* webpackIgnore: true */ '../../../prebuilds/darwin-arm64/safetensors-mmap.node',
          import.meta.url,
        );
      case 'win32-x64':
        return new URL(
          /* webpackIgnore: true */ '../../../prebuilds/win32-x64/safetensors-mmap.node',
          import.meta.url,
        );
      case 'win32-arm64':
        return new URL(
          /* webpackIgnore: true */ '../../../prebuilds/win32-arm64/safetensors-mmap.node',
          import.meta.url,
        );
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}

declare const __webpack_require__: unknown;

/**
 * Whether the program is a bundle of webpack or of a compatible bundler. Not by `import.meta.webpack`, which
 * transforms to CommonJS, as in Jest, leave in place.
 */
const IN_WEBPACK: boolean = typeof __webpack_require__ === 'function';

/**
 * As above for webpack, since 5.100: for a computed path it takes all existing files, and throws here for others. The
 * result is a path from the bundle's folder, or an address.
 */
function webpackFile(): URL | undefined {
  if (!IN_WEBPACK) return undefined;
  try {
    const file = new URL(`../../../prebuilds/${PLATFORM}/safetensors-mmap.node`, import.meta.url);
    return new URL(/* webpackIgnore: true */ file, import.meta.url);
  } catch {
    return undefined;
  }
}

/** Returns the file next to a bundle, for bundlers that did not take it along. */
function siblingUrl(here: string): URL {
  try {
    // Only this form has the address of a webpack bundle.
    return new URL(/* webpackIgnore: true */ 'safetensors-mmap.node', import.meta.url);
  } catch {
    return new URL(FILE, here);
  }
}

/**
 * Returns the package's file if this is the package's own module. A user's bundle must not load native code from
 * folders around its own, which others may write.
 */
function fileOfPackage(here: string): URL | undefined {
  // webpack gives the module's place at build time.
  if (IN_WEBPACK) return undefined;
  if (!/\/(?:lib\/(?:core|cli)|addon\/location)\.[jt]s$/.test(new URL(here).pathname))
    return undefined;
  try {
    const { name } = JSON.parse(readFileSync(new URL('../../../package.json', here), 'utf8'));
    return name === 'safetensors-mmap' ? new URL(SHIPPED_FILE, here) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The address of this module, or of the bundle that it is in. esbuild leaves `import.meta` empty in CommonJS,
 * where there is a file name instead.
 */
function ownAddress(): string | undefined {
  if (import.meta.url !== undefined) return import.meta.url;
  return typeof __filename === 'string' ? pathToFileURL(__filename).href : undefined;
}

/** Returns the file named by the environment. Deno throws without permission to read the environment. */
export function namedFile(): string | undefined {
  try {
    return process.env[ADDON_VARIABLE];
  } catch {
    return undefined;
  }
}

/**
 * Returns the addon's path, even if the file is missing: that of the environment, of a bundler that took the file
 * along, of the package, or next to a bundle. Undefined in a bundle that does not know its own place.
 */
export function addonPath(): string | undefined {
  const named = namedFile();
  if (named) return resolve(named);
  const here = ownAddress();
  if (here === undefined) return undefined;
  try {
    const sibling = siblingUrl(here);
    const unmoved = [new URL(SHIPPED_FILE, here).href, new URL(SHIPPED_FILE, sibling).href];
    const moved = (file: URL | undefined): boolean =>
      file !== undefined && !unmoved.includes(file.href);
    const followed = [literalFile(), webpackFile()].find(moved);
    return fileURLToPath(followed ?? fileOfPackage(here) ?? sibling);
  } catch {
    // Such as a module with an address outside of the file system.
    return undefined;
  }
}
