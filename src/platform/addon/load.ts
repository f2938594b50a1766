/** Loads the addon; no other module does. */

import { existsSync } from 'node:fs';
import process from 'node:process';
import { type Addon, type AddonExports, bind } from './binding.js';
import { ADDON_VARIABLE, addonPath, namedFile, PLATFORM, SHIPPED_PLATFORMS } from './location.js';
import { type BufferCounting, uncountBuffers } from './uncounted-buffers.js';
import { VERSION } from './version.js';

export type { Addon, ConversionLevel, Mapping } from './binding.js';

/** The reason for a missing addon, and the remedy. */
export interface AddonUnavailable {
  /** A clause that can follow "because". */
  readonly reason: string;
  /** A sentence without its full stop. */
  readonly remedy: string;
}

/** The addon, its file, and how it makes buffers; or the reason for its absence. */
export type AddonLoad =
  | { readonly addon: Addon; readonly path: string; readonly buffers: BufferCounting }
  | AddonUnavailable;

const BUNDLED = `If the program is bundled, ship the addon with it and set ${ADDON_VARIABLE} to its path: see docs/bundlers.md of safetensors-mmap`;

const INSTALL_AGAIN = `Install safetensors-mmap again; if the program is bundled, copy the addon there, or set ${ADDON_VARIABLE} to its path: see docs/bundlers.md of safetensors-mmap`;

const NAMED = `${ADDON_VARIABLE} has this path: copy the addon there, or unset it; see docs/bundlers.md of safetensors-mmap`;

const NOT_SHIPPED = `The package has one for ${SHIPPED_PLATFORMS.join(', ')}. Elsewhere compile it in a clone, and set ${ADDON_VARIABLE} to its path`;

/** The system's message about a file, without the path: Deno adds it in a second line. */
function firstLine(message: string, path: string): string {
  return message.replace(`${path}: `, '').replace(/\n.*/s, '');
}

/** Explains why a file could not be loaded. */
function explain(error: unknown, path: string): AddonUnavailable {
  const { code, message = String(error) } = error as NodeJS.ErrnoException;
  if (code === 'ERR_DLOPEN_DISABLED') {
    return {
      reason: 'Node was started with --permission, which forbids addons',
      remedy: 'Start it with --allow-addons as well',
    };
  }
  if (process.versions['deno'] !== undefined && /\bffi\b/i.test(message)) {
    return { reason: 'Deno forbids addons', remedy: 'Start it with --allow-ffi' };
  }
  if (existsSync(path)) {
    const remedy = `It must be the addon for ${PLATFORM} and the system's C library; "Platforms" in docs/guarantees.md names those that it was built for`;
    return {
      reason: `the addon at ${path} cannot be loaded: ${firstLine(message, path)}`,
      remedy,
    };
  }
  const missing = SHIPPED_PLATFORMS.includes(PLATFORM) ? INSTALL_AGAIN : NOT_SHIPPED;
  const remedy = namedFile() ? NAMED : missing;
  return { reason: `found no addon for ${PLATFORM} at ${path}`, remedy };
}

let loaded: AddonLoad | undefined;

/**
 * Loads the addon on first use, not at import, so that a program can name the file before. Later calls return the
 * same answer, but a file that failed to load is tried again, because the cause (such as a lack of descriptors) may
 * pass. Never throws.
 */
export function loadAddon(): AddonLoad {
  if (loaded !== undefined) return loaded;
  const path = addonPath();
  if (path === undefined) {
    return { reason: 'the bundle does not know where it lies', remedy: BUNDLED };
  }
  // Making a `require` function takes ten times as long as this.
  const module = { exports: {} as AddonExports };
  try {
    process.dlopen(module, path);
  } catch (error) {
    return explain(error, path);
  }
  loaded = use(module.exports, path);
  return loaded;
}

function use(exports: AddonExports, path: string): AddonLoad {
  // A new bundle may lie next to an old addon, or next to a different one.
  if (typeof exports.version !== 'function' || exports.version() !== VERSION) {
    return {
      reason: `the addon at ${path} is not that of safetensors-mmap ${VERSION}`,
      remedy: 'Copy the addon of the same package version there',
    };
  }
  if (!exports.externalBuffersAllowed()) {
    return {
      reason: 'this runtime does not allow ArrayBuffers over foreign memory',
      remedy: 'Run the program in Node',
    };
  }
  if (!exports.descriptorsWork()) {
    return {
      reason: 'this runtime does not let addons use its file descriptors on Windows',
      remedy: 'Run the program in Node or Bun',
    };
  }
  const { bun, deno } = process.versions;
  // These two count external memory in their own ways, which the addon does not change.
  if (bun === undefined && deno === undefined) exports.compensateExternalMemory();
  return { addon: bind(exports), path, buffers: uncountBuffers(exports) };
}
