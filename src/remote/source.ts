/** Finds the files of a URL, a Hub page or an `hf://` id. */

import { argumentTypeError } from '../errors/arguments.js';
import { isUrl } from '../errors/brand-checks.js';
import { RemoteError, type SafetensorsError } from '../errors/errors.js';
import { noVariant, requireVariant } from '../file/shards/file-choice.js';
import { METADATA_FILE } from '../file/shards/incomplete-models.js';
import { requireInside } from '../file/shards/shard-paths.js';
import type { SourceAcceptance } from './choose-files.js';
import { type CallerCredentials, Credentials } from './credentials.js';
import {
  type FoundFile,
  foundKindOf,
  type NoRemoteModel,
  requireModel,
  withStart,
} from './found-file.js';
import { HttpFile } from './http-file.js';
import { encodePath, type HubAddress } from './hub-address.js';
import { HubRepository } from './hub-repository.js';
import { hubSource } from './hub-source.js';
import type { RemoteSettings } from './receiver.js';
import type { RemoteSource } from './remote-file.js';
import { isAbsence } from './remote-shards.js';
import type { Repository } from './repository.js';
import { isLoopback, shownUrl } from './safe-urls.js';
import { type Fetch, Session } from './session.js';
import { parseSource, requireEndpoint, type SourceAddress } from './source-address.js';

/** Settings for sending requests. */
export interface SessionSettings extends CallerCredentials {
  /** The runtime's own by default. */
  readonly fetch?: Fetch | undefined;
  /** For tests: milliseconds until a request has stalled. */
  readonly stallMs?: number | undefined;
  /** For tests: milliseconds before the first retry. */
  readonly firstDelayMs?: number | undefined;
}

/** The caller's choice in a repository or a folder on the Hub. */
export interface SourceChoice {
  /**
   * Takes the files of a variant in a repository or a folder: with `fp16`, `model.fp16.safetensors` or the index
   * `model.safetensors.index.fp16.json`. Not needed with the address of a file or an index.
   */
  readonly variant?: string | undefined;
  /** Branch, tag, ref or commit of the repository; by default the id's, else `main`. */
  readonly revision?: string | undefined;
}

/** Settings for finding a source. */
export interface ResolveOptions extends SessionSettings, SourceChoice, SourceAcceptance {
  /** Bytes of the first request for a file. */
  readonly startByteLength: number;
}

/**
 * As {@link findRemote}.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_DIFFUSERS_PIPELINE`,
 *   `SAFETENSORS_MISSING_SHARDS`
 */
export async function resolveSource(
  source: string | URL,
  options: ResolveOptions,
  settings: RemoteSettings,
  signal: AbortSignal,
): Promise<RemoteSource> {
  return requireModel(await findRemote(source, options, settings, signal));
}

/**
 * Finds the kind and file of a source. Sends requests only for a repository or a folder, about its usual files.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL`; of a repository all others
 * @throws SafetensorsError `SAFETENSORS_NOT_IN_CACHE` offline
 * @throws RangeError, TypeError for a bad source, token or header
 */
export async function findRemote(
  source: string | URL,
  options: ResolveOptions,
  settings: RemoteSettings,
  signal: AbortSignal,
): Promise<RemoteSource | NoRemoteModel> {
  const address = addressOf(source, options, settings);
  if (address.hub === null) {
    const session = openSession(address, options, settings);
    const found = await urlOrList(session, address.url, options, signal);
    return asSource(session, found);
  }
  const { repository, session } = await openRepository(address.hub, options, settings, signal);
  try {
    const found = await hubSource(repository, address.hub, options, signal);
    if (!('error' in found)) return asSource(session, found);
    session.close();
    return { ...found, error: session.withoutSecrets(found.error) as SafetensorsError };
  } catch (error) {
    session.close();
    throw session.withoutSecrets(error);
  }
}

/** The file at a URL; of a folder, the list of the distributed checkpoint in it, if there is one. */
async function urlOrList(
  session: Session,
  url: URL,
  { acceptsDistributed, startByteLength }: ResolveOptions,
  signal: AbortSignal,
): Promise<FoundFile> {
  const found = urlSource(session, url);
  if (acceptsDistributed !== true || !url.pathname.endsWith('/')) return found;
  const list = found.folder.file(METADATA_FILE);
  try {
    const start = await list.readStart(startByteLength, signal);
    const file = withStart(list, startByteLength, start);
    return { file, kind: 'distributed', folder: found.folder };
  } catch (error) {
    if (isAbsence(error)) return found;
    session.close();
    throw session.withoutSecrets(error);
  }
}

/** The end of a source. */
type SourceEnd = Pick<RemoteSource, 'close' | 'withoutSecrets'>;

/** A found file with its session. */
export function asSource(session: SourceEnd, found: FoundFile): RemoteSource {
  return {
    ...found,
    close: () => session.close(),
    withoutSecrets: (error) => session.withoutSecrets(error),
  };
}

/** A repository and its session, which the caller closes. */
interface OpenedRepository {
  readonly repository: Repository;
  readonly session: SourceEnd;
}

/** The Hub cache sends no requests and knows no secrets. */
const WITHOUT_REQUESTS: SourceEnd = { close: () => {}, withoutSecrets: (error) => error };

/**
 * Opens a repository on the Hub, or in the Hub cache when the Hub must not receive requests. Sends no request.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_IN_CACHE`
 * @throws TypeError for a token or headers that cannot be sent
 */
export async function openRepository(
  hub: HubAddress,
  options: SessionSettings,
  settings: RemoteSettings,
  signal: AbortSignal,
): Promise<OpenedRepository> {
  if (settings.isOffline && settings.openCached !== undefined) {
    return { repository: await settings.openCached(hub, signal), session: WITHOUT_REQUESTS };
  }
  const session = openSession({ hub, url: null }, options, settings);
  return { repository: new HubRepository(session, hub.endpoint, hub.id), session };
}

/** A checked source and its session, which the caller closes. */
export interface SourceSession {
  readonly address: SourceAddress;
  readonly session: Session;
}

/** Throws unless a source is text or a URL. */
export function requireAddress(source: unknown): asserts source is string | URL {
  if (typeof source === 'string' || isUrl(source)) return;
  throw argumentTypeError('source', 'a URL or hf://org/name', source);
}

/**
 * Parses a source. Sends no request.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL`, `SAFETENSORS_OFFLINE`
 * @throws RangeError, TypeError for a bad source, token or header
 */
export function sourceSession(
  source: string | URL,
  options: SessionSettings & SourceChoice,
  settings: RemoteSettings,
): SourceSession {
  const address = addressOf(source, options, settings);
  return { address, session: openSession(address, options, settings) };
}

/**
 * Parses a source, and checks that the options fit it.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL`; RangeError, TypeError for a bad source
 */
export function addressOf(
  source: string | URL,
  options: SourceChoice,
  settings: RemoteSettings,
): SourceAddress {
  requireAddress(source);
  requireVariant(options.variant);
  const endpoint = requireEndpoint(settings.endpoint, 'HF_ENDPOINT');
  const text = typeof source === 'string' ? source : source.href;
  const address = parseSource(text, endpoint, options.revision);
  if (address.hub === null && options.variant !== undefined) {
    throw noVariant('a URL', options.variant);
  }
  return address;
}

/**
 * Opens a session for an address. The caller closes it.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL`, `SAFETENSORS_OFFLINE`
 * @throws TypeError for a token or headers that cannot be sent
 */
function openSession(
  { hub, url }: SourceAddress,
  options: SessionSettings,
  settings: RemoteSettings,
): Session {
  if (hub !== null && settings.isOffline) {
    const message = 'the Hub must not be asked: HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set';
    throw new RemoteError(
      'SAFETENSORS_OFFLINE',
      `${message}; open reads downloaded models from the Hub cache`,
    );
  }
  const { token, headers, fetch = globalThis.fetch, stallMs, firstDelayMs } = options;
  const asked = url ?? new URL(hub.endpoint);
  const { origin } = new URL(requireEndpoint(settings.endpoint, 'HF_ENDPOINT'));
  const mayHaveToken =
    asked.origin === origin && (asked.protocol === 'https:' || isLoopback(asked));
  const ambient = token === undefined && mayHaveToken ? settings.readToken() : undefined;
  const credentials = new Credentials(
    asked,
    { token, headers },
    ambient === undefined ? undefined : { origin, token: ambient },
  );
  // A `fetch` of the caller's handles proxies itself.
  const proxyFor = options.fetch === undefined ? settings.proxyFor : undefined;
  const receiver = options.fetch === undefined ? settings.makeReceiver?.() : undefined;
  const { requestChannel } = settings;
  const sending = { fetch, credentials, proxyFor, requestChannel, receiver };
  return new Session({ ...sending, stallMs, firstDelayMs });
}

/** A file at a URL, and those next to it. */
interface UrlSource extends FoundFile {
  readonly file: HttpFile;
  readonly folder: { file(name: string): HttpFile };
}

/** A file at a URL. Siblings reuse the query string: it may carry the signature. */
export function urlSource(session: Session, url: URL): UrlSource {
  const fileAt = (at: URL): HttpFile =>
    new HttpFile(session, {
      path: shownUrl(at),
      isOnHub: false,
      commit: undefined,
      url: () => at,
      answeredBy: () => {},
      pin: async () => {},
    });
  const folder = {
    file: (name: string): HttpFile => {
      requireInside(name, shownUrl(url));
      const at = new URL(encodePath(name), url);
      at.search = url.search;
      return fileAt(at);
    },
  };
  return { file: fileAt(url), kind: foundKindOf(url.pathname), folder };
}
