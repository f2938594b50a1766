/** `verify` with `against`: compares a local copy with a repository on the Hub. Requests lists, no files. */

import { basename } from 'node:path';
import type { Advice } from '../../errors/advice.js';
import { argumentRangeError, argumentTypeError } from '../../errors/arguments.js';
import { isUrl } from '../../errors/brand-checks.js';
import { quoteNames, RemoteError } from '../../errors/errors.js';
import { withoutQuery, withoutUsers } from '../../errors/urls.js';
import { findFolder } from '../../file/checkpoint/find-source.js';
import { hubUri, isHubUri, noRevision, parseHubId } from '../../file/hub/ids.js';
import {
  type CheckpointProblem,
  type HubComparison,
  reportOf,
  type VerificationReport,
} from '../../file/shards/verification-report.js';
import { withScope } from '../../work/scope.js';
import type { TransferOptions } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import { type CopyOrigin, findCopy, type LocalCopy } from '../download/local-copy.js';
import { findSourceFiles, type SourceFiles } from '../download/source-files.js';
import { type HubAddress, pageUrl, parseHubUrl } from '../hub-address.js';
import { HubRepository } from '../hub-repository.js';
import { remoteSettings } from '../node/settings.js';
import { parseHttpUrl } from '../safe-urls.js';
import { type SessionSettings, type SourceSession, sourceSession } from '../source.js';
import { requireEndpoint } from '../source-address.js';
import { type ComparedCopy, compareFiles } from './compare-files.js';
import { CopiedFiles } from './copied-files.js';

/** The word for the recorded repository and commit. */
const ORIGIN = 'origin';

/** For copies of unknown origin. */
const PASS_AGAINST: Advice = { option: 'against', text: "pass `against: 'hf://org/name'`" };

/** Options of {@link verifyAgainst}. */
interface AgainstOptions extends SessionSettings {
  readonly against: string | URL;
  /** Of a source that is an id in the Hub cache. */
  readonly revision?: string | undefined;
}

/** The place on the Hub that a copy is compared with. */
interface ComparedPlace {
  readonly address: HubAddress;
  /** Whether the commit is that of a record, which may be older than `main`. */
  readonly isRecorded: boolean;
}

/**
 * As the public `verify` with `against`.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for an address that is not on the Hub, and for a copy of unknown origin
 * @throws RemoteError; Error Node's own `ENOENT` and the like; `signal.reason`
 */
export async function verifyAgainst(
  path: string,
  { against, revision, ...requests }: AgainstOptions,
  { signal, onProgress }: TransferOptions,
): Promise<VerificationReport> {
  if (typeof against !== 'string' && !isUrl(against)) {
    throw argumentTypeError('against', "hf://org/name or 'origin'", against);
  }
  const settings = remoteSettings();
  const endpoint = requireEndpoint(settings.endpoint, 'HF_ENDPOINT');
  const found = await runAsync(findFolder(path, revision), signal);
  if (found === path && revision !== undefined)
    throw noRevision('a local file or folder', revision);
  const copy = await findCopy(found, signal);
  const places =
    against === ORIGIN ? [originOf(copy, endpoint)] : placesFor(copy, String(against), endpoint);
  return await firstKnown(places, async ({ address, isRecorded }) => {
    const { id } = address;
    const page = pageUrl(address.endpoint, id, id.revision ?? 'main', id.path);
    const opened = sourceSession(page, requests, settings);
    try {
      return await withScope([signal], async (scope) => {
        const source = await findSourceFiles(opened, {}, scope.signal);
        if (source.hub === null) throw source.unlisted;
        const { commit } = source.hub;
        const compared = await compare(copy, source, { signal: scope.signal, onProgress });
        const { problems, ...comparison } = compared;
        const newerCommit = isRecorded ? await newerThan(commit, opened, scope.signal) : null;
        const shown = hubUri({ ...id, revision: commit }, '') ?? source.path;
        const all = [...emptiness(compared, shown), ...problems];
        const hub: HubComparison = { source: shown, commit, newerCommit, ...comparison };
        return { ...reportOf(['hub'], all, []), hub };
      });
    } catch (error) {
      throw opened.session.withoutSecrets(error);
    } finally {
      opened.session.close();
    }
  });
}

/** The result for the first place whose commit the repository has. */
async function firstKnown<Result>(
  [place, ...others]: readonly ComparedPlace[],
  compareWith: (place: ComparedPlace) => Promise<Result>,
): Promise<Result> {
  try {
    return await compareWith(place as ComparedPlace);
  } catch (error) {
    const isUnknown = Object(error).code === 'SAFETENSORS_REVISION_NOT_FOUND';
    if (!isUnknown || others.length === 0) throw error;
    return await firstKnown(others, compareWith);
  }
}

/** The only recorded repository of a copy, at the recorded commit. */
function originOf({ path, origins }: LocalCopy, endpoint: string): ComparedPlace {
  const known = origins.filter(({ cacheName }) => cacheName !== undefined);
  const [origin] = known;
  if (origin === undefined || known.length > 1) {
    const found =
      known.length > 1
        ? `has records of several repositories, ${quoteNames(known.map(nameOf))}`
        : origins.length > 0
          ? 'has the record of a commit without its repository, which `hf download` leaves out'
          : 'has no record of `download`, and is not in the Hub cache';
    const message = `against must be hf://org/name, since ${path} ${found}; ${PASS_AGAINST.text}`;
    throw Object.assign(new RangeError(message), {
      code: 'ERR_OUT_OF_RANGE',
      argument: 'against',
      advice: [PASS_AGAINST],
    });
  }
  const { cacheName = '', commit, path: place } = origin;
  const id = { cacheName, revision: commit, path: place };
  return { address: { endpoint, id, isFile: false }, isRecorded: true };
}

function nameOf({ cacheName = '', path }: CopyOrigin): string {
  return hubUri({ cacheName, revision: undefined, path }, '') ?? cacheName;
}

/**
 * The address, at the commit and the path that are recorded for the copy, unless it names others. A commit that was
 * recorded without its repository may be of another one: then the address as it is comes next.
 */
function placesFor({ origins }: LocalCopy, against: string, endpoint: string): ComparedPlace[] {
  const address = parseAgainst(against, endpoint);
  const { id } = address;
  const isOfOrigin = ({ cacheName = id.cacheName }: CopyOrigin): boolean =>
    cacheName === id.cacheName;
  const origin = origins.find(isOfOrigin);
  if (origin === undefined) return [{ address, isRecorded: false }];
  const named = { ...address, id: { ...id, path: id.path === '' ? origin.path : id.path } };
  if (id.revision !== undefined) return [{ address: named, isRecorded: false }];
  const recorded = { ...named, id: { ...named.id, revision: origin.commit } };
  const isCertain = origin.cacheName !== undefined;
  const others = isCertain ? [] : [{ address: named, isRecorded: false }];
  return [{ address: recorded, isRecorded: true }, ...others];
}

function parseAgainst(text: string, endpoint: string): HubAddress {
  const id = isHubUri(text) ? parseHubId(text, 'against') : null;
  if (id !== null) return { endpoint, id, isFile: false };
  const url = parseHttpUrl(text);
  const address = typeof url === 'string' ? null : parseHubUrl(url, endpoint);
  if (address !== null) return address;
  const expected =
    "the address of a repository on the Hub, as hf://org/name[@revision], or 'origin'";
  throw argumentRangeError('against', expected, withoutUsers(withoutQuery(text)));
}

/** Compares a folder with the listed one, or a file with the listed file. */
async function compare(
  copy: LocalCopy,
  source: SourceFiles,
  options: TransferOptions & { readonly signal: AbortSignal },
): Promise<ComparedCopy & Pick<HubComparison, 'extra'>> {
  const { signal } = options;
  if (!copy.isFolder) {
    const { path, byteLength } = copy;
    const { name, ...file } = await source.find(source.name ?? basename(path), signal);
    const listed = { name, byteLength: file.byteLength, hash: file.hash ?? '' };
    const find = async () => ({ name, path, byteLength });
    return { ...(await compareFiles([listed], find, options)), extra: [] };
  }
  const entries = await source.listAll(signal);
  if (entries === null) {
    const expected = 'the address of a repository or a folder in it, for a local folder';
    throw argumentRangeError('against', expected, source.path);
  }
  const { prefix = '' } = source.hub ?? {};
  const listed = entries.map(({ path, byteLength, hash }) => {
    return { name: path.slice(prefix.length), byteLength, hash };
  });
  const files = await CopiedFiles.list(copy.path, signal);
  const compared = await compareFiles(listed, (name) => files.find(name), options);
  return { ...compared, extra: await files.extra() };
}

/** The commit of `main`, if that is another one; null also where the Hub does not answer that. */
async function newerThan(
  commit: string,
  { address, session }: SourceSession,
  signal: AbortSignal,
): Promise<string | null> {
  if (address.hub === null) return null;
  const { endpoint, id } = address.hub;
  const main = new HubRepository(session, endpoint, { ...id, revision: 'main' });
  try {
    const newest = await main.pinCommit(signal);
    return newest === commit ? null : newest;
  } catch (error) {
    if (error instanceof RemoteError) return null;
    throw error;
  }
}

/** The problem of a copy none of whose files is on the Hub. */
function emptiness({ checked, missing }: ComparedCopy, source: string): CheckpointProblem[] {
  if (checked > 0) return [];
  const message = `nothing was compared: none of the ${missing.length} files of ${source} is there`;
  return [{ file: '', tensor: null, code: 'SAFETENSORS_VERIFICATION_FAILED', message }];
}
