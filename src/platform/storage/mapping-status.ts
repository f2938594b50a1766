/** `mappingStatus`: whether files are mapped here, and the reason if not. */

import process from 'node:process';
import { loadAddon } from '../addon/load.js';
import type { BufferCounting } from '../addon/uncounted-buffers.js';

/** Whether files can be mapped. */
export type MappingStatus =
  | {
      /** Files are mapped. */
      readonly available: true;
      /** Path of the addon's file. */
      readonly addon: string;
      /** Whether V8 counts the buffers over a mapping as its own memory, with the reason. */
      readonly buffers: BufferCounting;
    }
  | {
      /** Files are read. */
      readonly available: false;
      /** The reason, as in "because …". */
      readonly reason: string;
      /** The remedy. */
      readonly remedy: string;
    };

/**
 * Whether this process can map files. Loads the addon if nothing has yet; opens no file. A file system
 * without mappings shows only when a file on it is opened. Where mapping is not available, files are
 * read into memory, and the first of them gives a warning: call this at the start of a program that
 * must not run that way.
 *
 * @example
 * ```ts
 * const status = mappingStatus();
 * console.log(status.available ? 'files are mapped' : status.reason); // → files are mapped
 * ```
 */
export function mappingStatus(): MappingStatus {
  const load = loadAddon();
  if ('addon' in load) return { available: true, addon: load.path, buffers: load.buffers };
  return { available: false, ...load };
}

const warned = new Set<string>();

/** Warns once per thread and reason when a file is read without `storage: 'read'`. */
export function warnOfReading(path: string, reason: string, remedy: string): void {
  if (warned.has(reason)) return;
  warned.add(reason);
  process.emitWarning(
    `${path} is read into memory instead of mapped, because ${reason}. ${remedy}. To read it on purpose, open it with { storage: 'read' }.`,
    { type: 'SafetensorsWarning', code: 'SAFETENSORS_MAPPING_UNAVAILABLE' },
  );
}
