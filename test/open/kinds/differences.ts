/** The results that must differ between kinds, each with its reason: all others are equal. */
import { isDeepStrictEqual } from 'node:util';
import type { Handle, Kind } from './kinds.js';

/** Results that may differ from those of mapped safetensors. */
export interface Difference {
  readonly reason: string;
  /** Members, or `member.property` for properties of their results at any depth. */
  readonly results: readonly string[];
  /** The kinds that may differ. */
  readonly of: (kind: Kind, handle: Handle) => boolean;
}

const isForeign = ({ format }: Kind): boolean => format !== 'safetensors';

const WITHOUT_PATH: readonly string[] = ['bytes', 'a descriptor', 'a FileHandle'];

export const DIFFERENCES: readonly Difference[] = [
  {
    reason: 'distinguishes the handles',
    results: ['local'],
    of: (_, { local }) => !local,
  },
  {
    reason: 'names the format',
    results: ['format'],
    of: isForeign,
  },
  {
    reason: 'only torch files have a root, and they and files of ranks other values',
    results: ['root', 'extra'],
    of: ({ format }) => format === 'torch' || format === 'dcp',
  },
  {
    reason: 'bytes have no path',
    results: ['path', 'toJSON.path'],
    of: ({ name }) => name === 'bytes',
  },
  {
    reason: 'a remote handle has no storage',
    results: ['toJSON.storage'],
    of: (_, { local }) => !local,
  },
  {
    reason: 'names where bytes come from',
    results: ['storage', 'toJSON.storage'],
    of: ({ name }) => name === 'bytes' || name === 'a file that is read',
  },
  {
    reason: 'a file without a path has no folder',
    results: ['sibling'],
    of: ({ name }) => WITHOUT_PATH.includes(name) || ['a Blob', 'a reader'].includes(name),
  },
  {
    reason: 'other formats have no safetensors header',
    results: ['headers'],
    of: isForeign,
  },
  {
    reason: 'a view has no header',
    results: ['headers'],
    of: ({ base }) => base !== undefined,
  },
  {
    reason: 'other formats have other bytes around the tensors',
    results: ['byteLength', 'info.dataOffsets', 'tensors.dataOffsets'],
    of: isForeign,
  },
  {
    reason: 'archives have checksums, and the Hub cache hashes',
    results: ['checks', 'verify.checks', 'verify.comparedTensors', 'verify.reason'],
    of: (kind) => isForeign(kind) || kind.name === 'a cached repository',
  },
  {
    reason: 'files of ranks need no index, and count pieces',
    results: ['verify.ok', 'verify.problems', 'verify.tensors'],
    of: ({ format }) => format === 'dcp',
  },
  {
    reason: 'bytes without a path are not read again, and remote ones not fetched to be compared',
    results: ['verify.reason'],
    of: ({ name }, { local }) => !local || WITHOUT_PATH.includes(name),
  },
  {
    reason: 'tensors of an archive name the archive in errors',
    results: ['getSlice.path', 'getPartition.path'],
    of: ({ name }) => name === 'a model of a DDUF archive',
  },
];

/** Removes a property at any depth. */
function without(outcome: unknown, property: string): unknown {
  if (Array.isArray(outcome)) return outcome.map((item) => without(item, property));
  if (typeof outcome !== 'object' || outcome === null) return outcome;
  const others = Object.entries(outcome).filter(([key]) => key !== property);
  return Object.fromEntries(others.map(([key, value]) => [key, without(value, property)]));
}

/** Removes from two outcomes of a member what may differ; adds the differences that they show. */
export function comparable(
  member: string,
  outcomes: readonly [found: unknown, expected: unknown],
  listed: readonly Difference[],
  shown: Set<Difference>,
): readonly unknown[] {
  let compared: readonly unknown[] = outcomes;
  for (const difference of listed) {
    for (const result of difference.results) {
      const [of, property] = result.split('.');
      if (of !== member) continue;
      const rest = compared.map((each) => property && without(each, property));
      const differs = !isDeepStrictEqual(compared[0], compared[1]);
      if (differs && !isDeepStrictEqual(compared, rest)) shown.add(difference);
      compared = rest;
    }
  }
  return compared;
}
