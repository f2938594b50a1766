/** Finds and loads the addon; no other module does. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { type Addon, type AddonExports, bind } from './binding.js';

export type { Addon, ConversionLevel, Mapping } from './binding.js';

/** The addon, or why there is none: a clause that can follow "because". */
export type AddonLoad = { readonly addon: Addon } | { readonly unavailable: string };

/** A build in a clone comes first; the published package has only the prebuilt file. */
const ADDON_FILES: readonly string[] = [
  'build/Release/safetensors-mmap.node',
  `prebuilds/${process.platform}-${process.arch}/safetensors-mmap.node`,
];

/** Bun and Deno count external memory in ways of their own, which the addon leaves alone. */
const isNode: boolean =
  process.versions['bun'] === undefined && process.versions['deno'] === undefined;

function findAddon(): string | undefined {
  const paths = ADDON_FILES.map((name) => join(import.meta.dirname, '../..', name));
  return paths.find((path) => existsSync(path));
}

function use(exports: AddonExports): AddonLoad {
  if (!exports.externalBuffersAllowed()) {
    return { unavailable: 'this runtime does not allow ArrayBuffers over foreign memory' };
  }
  if (isNode) exports.compensateExternalMemory();
  return { addon: bind(exports) };
}

let loaded: AddonLoad | undefined;

/**
 * Loads the addon once; later calls return the same answer. Only a failure to load it is not
 * remembered: it may pass, such as when the process is out of descriptors. Never throws.
 */
export function loadAddon(): AddonLoad {
  if (loaded !== undefined) return loaded;
  const file = findAddon();
  if (file === undefined) {
    loaded = { unavailable: `there is no addon for ${process.platform}-${process.arch}` };
    return loaded;
  }
  // Making a `require` function takes ten times as long as this.
  const module = { exports: {} as AddonExports };
  try {
    process.dlopen(module, file);
  } catch (error) {
    return { unavailable: `the addon could not be loaded: ${String(error)}` };
  }
  loaded = use(module.exports);
  return loaded;
}
