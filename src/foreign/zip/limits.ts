/** Limits of reading an archive. */

import type { OptionNames } from '../../errors/arguments.js';

/** Limits of archives; each has a default that no real checkpoint reaches. */
export interface ArchiveLimits {
  /** Most entries, folders among them; 200 000 by default, 40 000 of an `.npz`, whose entries cost more. */
  readonly maxEntries?: number | undefined;
  /** Longest directory, in bytes; 32 MiB by default. */
  readonly maxDirectoryByteLength?: number | undefined;
  /** Longest entry that is inflated, in bytes; 4 GiB by default. */
  readonly maxInflatedByteLength?: number | undefined;
}

/** Most bytes that one deflated byte becomes: deflate writes at least one bit for 129, two for a copy of 258. */
export const MAX_DEFLATE_RATIO = 1032;

/** Names of the limits. */
export const ARCHIVE_LIMITS: OptionNames<ArchiveLimits> = {
  maxEntries: true,
  maxDirectoryByteLength: true,
  maxInflatedByteLength: true,
};

/** The defaults. */
export const DEFAULT_LIMITS: { readonly [Name in keyof ArchiveLimits]-?: number } = {
  maxEntries: 200_000,
  maxDirectoryByteLength: 32 * 2 ** 20,
  maxInflatedByteLength: 4 * 2 ** 30,
};
