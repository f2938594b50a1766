/** Joins requests for ranges of the page's server: a browser takes a millisecond for each of a sample's thousands. */

/** Bytes of a header, at first. Longer ranges are requested one by one. */
const MAX_RANGE = 100_000;

/** Of one request. */
const MAX_RANGES = 128;
const MAX_BYTES = 2 ** 20;
const MAX_QUERY = 6000;

/** Requests at a time. Ranges that come meanwhile share the next. */
const AT_ONCE = 2;

/** A requested range. */
interface Waiting {
  readonly path: string;
  readonly range: string;
  readonly byteLength: number;
  readonly signal: AbortSignal | null | undefined;
  resolve(response: Response): void;
  reject(error: unknown): void;
}

/** What the server writes before the bytes of a range. */
interface Line {
  readonly status: number;
  readonly tag: string;
  readonly begin: number;
  readonly end: number;
  readonly byteLength: number;
}

const NEWLINE = 10;

/** A body of bytes that are not copied. */
function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      controller.close();
    },
  });
}

/** The answers in a body, one after the other. */
function* answersIn(body: Uint8Array<ArrayBuffer>): Generator<Response, void, void> {
  let at = 0;
  while (at < body.length) {
    const lineEnd = body.indexOf(NEWLINE, at);
    const line = JSON.parse(new TextDecoder().decode(body.subarray(at, lineEnd))) as Line;
    const { status, tag, begin, end, byteLength } = line;
    at = lineEnd + 1;
    const length = status === 206 ? end - begin : 0;
    const range = status === 206 ? `${begin}-${end - 1}` : '*';
    const headers: Record<string, string> =
      status === 404
        ? {}
        : {
            etag: tag,
            'content-range': `bytes ${range}/${byteLength}`,
            'content-length': `${length}`,
          };
    yield new Response(streamOf(body.subarray(at, at + length)), { status, headers });
    at += length;
  }
}

/**
 * A `fetch` for the files of a server, which answers `ranges?` next to its folder `source/`. Calls `onAnswer` with the
 * path of each range that has arrived.
 */
export function joinedFetch(
  serverHeaders: Readonly<Record<string, string>>,
  onAnswer: (path: string) => void,
): typeof fetch {
  const waiting = new Map<string, Waiting[]>();
  let running = 0;

  const take = (server: string): Waiting[] => {
    const all = (waiting.get(server) ?? []).filter(({ signal, reject }) => {
      if (signal?.aborted) reject(signal.reason);
      return !signal?.aborted;
    });
    let [length, bytes] = [0, 0];
    const count = all.findIndex(({ path, range, byteLength }, at) => {
      length += path.length + range.length + 2;
      bytes += byteLength;
      return at === MAX_RANGES || length > MAX_QUERY || bytes > MAX_BYTES;
    });
    const taken = count === -1 ? all.length : Math.max(1, count);
    waiting.set(server, all.slice(taken));
    return all.slice(0, taken);
  };

  const ask = async (server: string, requested: readonly Waiting[]): Promise<void> => {
    const controller = new AbortController();
    let left = requested.length;
    for (const { signal, reject } of requested) {
      signal?.addEventListener('abort', () => {
        reject(signal.reason);
        if (--left === 0) controller.abort();
      });
    }
    const paths = new Map<string, string[]>();
    const ordered = [...requested].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
    for (const { path, range } of ordered) paths.set(path, [...(paths.get(path) ?? []), range]);
    const query = Array.from(paths, ([path, ranges]) => `${path}:${ranges.join('+')}`).join(',');
    try {
      const { signal } = controller;
      const response = await fetch(`${server}ranges?${query}`, { headers: serverHeaders, signal });
      if (!response.ok) {
        for (const { resolve } of ordered) resolve(new Response(null, { status: response.status }));
        return;
      }
      const answers = answersIn(new Uint8Array(await response.arrayBuffer()));
      for (const { path, resolve } of ordered) {
        resolve(answers.next().value as Response);
        onAnswer(path);
      }
    } catch (error) {
      for (const { reject } of ordered) reject(error);
    }
  };

  const flush = async (server: string): Promise<void> => {
    if (running === AT_ONCE) return;
    const requested = take(server);
    if (requested.length === 0) return;
    running++;
    // The rest of long lists.
    void flush(server);
    await ask(server, requested);
    running--;
    setTimeout(flush, 0, server);
  };

  return (input, init) => {
    const url = String(input);
    const [, server, path] = /^(.*?\/)(source\/.*)$/.exec(url) ?? [];
    // A copy of headers takes longer than all else.
    const headers = init?.headers as Headers;
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.get('range') ?? '') ?? [];
    const byteLength = Number(last) - Number(first) + 1;
    if (server === undefined || path === undefined || !(byteLength <= MAX_RANGE)) {
      for (const [name, value] of Object.entries(serverHeaders)) headers.set(name, value);
      return fetch(url, init);
    }
    return new Promise((resolve, reject) => {
      const all = waiting.get(server) ?? [];
      waiting.set(server, all);
      all.push({
        path,
        range: `${first}-${last}`,
        byteLength,
        signal: init?.signal,
        resolve,
        reject,
      });
      if (all.length === 1) setTimeout(flush, 0, server);
    });
  };
}
