/** How many ranks of a distributed checkpoint were found, where its files do not record how many there were. */

import type { RanksFound, VerificationReport } from '../shards/verification-report.js';
import type { PlainValue } from './plain-value.js';

/** Members of the library's handles, which others may lack. */
interface MaybeDistributed {
  readonly format?: string;
  extra?(): Promise<PlainValue>;
}

/** Returns the number of ranks of a checkpoint whose completeness is unknown; an empty object for others. */
export async function ranksFound(opened: object): Promise<RanksFound> {
  const handle: MaybeDistributed = opened;
  if (handle.format !== 'dcp') return {};
  const info = (await handle.extra?.()) as ReadonlyMap<string, PlainValue>;
  return info.get('isComplete') === null ? { ranksFound: info.get('ranks') as number } : {};
}

/** Adds the number of ranks to the report of such a checkpoint; other reports stay the same object. */
export async function withRanks(
  report: VerificationReport,
  opened: object,
): Promise<VerificationReport> {
  const found = await ranksFound(opened);
  return found.ranksFound === undefined ? report : { ...report, ...found };
}
