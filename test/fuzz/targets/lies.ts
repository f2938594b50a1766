/** Answers of a server that lies about ranges, lengths and versions: the right bytes, or an error with a code. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { download, open, serialize } from 'safetensors-mmap';
import { parseSafetensorsMetadata } from 'safetensors-mmap/hub';
import type { Random } from '../../support/random.js';
import { settled } from '../settle.js';
import { type Corpus, codeOf, type Place, Problem, type Target } from '../target.js';
import { inputOf, TREE, treeOf } from '../tree.js';

/** How one answer differs from an honest one. */
interface Lie {
  readonly status?: number;
  /** Headers that are set; null takes one away. */
  readonly headers?: Readonly<Record<string, string | null>>;
  /** `none`, `half`, `more`, `broken`, `endless`, `whole`, `page`, `failed`: instead of the bytes of the range. */
  readonly body?: string;
}

/** The requested range, and the answers to the first requests; later the server is honest. */
interface Story {
  readonly call: string;
  readonly lies: readonly Lie[];
}

const CALLS: readonly string[] = [
  'tensors',
  'tensor',
  'slice',
  'index',
  'metadata',
  'download',
  'download index',
];

const BODIES: readonly string[] = [
  'none',
  'half',
  'more',
  'broken',
  'endless',
  'whole',
  'page',
  'failed',
];

const HEADERS: Readonly<Record<string, readonly (string | null)[]>> = {
  'content-range': [
    null, '', 'bytes 0-99/100', 'bytes */100', 'bytes 0-0/*', 'bytes 8-99999/100000', 'bytes 0-18446744073709551615/*',
    'bytes 1-2/3/4', 'items 0-1/2', 'bytes 0-99/99',
  ],
  'content-length': [null, '0', '-1', '99999999999999', 'x', '1e9', '17'],
  etag: [null, '"second"', 'W/"first"', '', 'x'.repeat(5000)],
  'content-encoding': ['gzip', 'br', 'identity', 'x'],
  location: ['/elsewhere', 'https://other.example/file', 'file:///etc/passwd', 'http://[', '', 'ftp://x/y'],
  'retry-after': ['0', '1', '-5', 'never', 'Wed, 21 Oct 2015 07:28:00 GMT'],
  'last-modified': ['Wed, 21 Oct 2015 07:28:00 GMT', 'never', null],
  'x-linked-size': ['5', '-1', 'x'],
  'x-repo-commit': ['1'.repeat(40), '../..', ''],
}; // biome-ignore format: a table

const STATUSES: readonly number[] = [
  200, 201, 204, 206, 301, 302, 304, 307, 308, 400, 401, 403, 404, 410, 416, 429, 500, 503,
];

const WORDS: readonly string[] = [
  ...CALLS,
  ...BODIES,
  ...Object.keys(HEADERS),
  ...Object.values(HEADERS)
    .flat()
    .filter((value) => value !== null),
];

const PAGE = '<!doctype html><title>Sign in</title>';

const DATA = Float32Array.from({ length: 3000 }, (_, i) => i * 7);
const FILE = serialize(
  {
    a: { dtype: 'F32', shape: [1000, 2], data: DATA.subarray(0, 2000) },
    b: { dtype: 'F32', shape: [1000], data: DATA.subarray(2000) },
  },
  { metadata: { format: 'pt' } },
);
const INDEX = Buffer.from(
  JSON.stringify({ weight_map: { a: 'model.safetensors', b: 'model.safetensors' } }),
);
const FILES: Readonly<Record<string, Uint8Array>> = {
  '/model.safetensors': FILE,
  '/model.safetensors.index.json': INDEX,
};

function makeLie(random: Random): Lie {
  const name = random.pick(Object.keys(HEADERS));
  return {
    ...(random.chance(0.4) ? { status: random.pick(STATUSES) } : {}),
    ...(random.chance(0.6) ? { headers: { [name]: random.pick(HEADERS[name] ?? []) } } : {}),
    ...(random.chance(0.5) ? { body: random.pick(BODIES) } : {}),
  };
}

function make(random: Random, corpus: Corpus): Buffer {
  if (random.chance(0.4))
    return TREE.mutate(corpus.pick(random), corpus.pick(random), random, WORDS);
  const lies = Array.from({ length: random.from(1, 4) }, () => makeLie(random));
  // The first answers are often honest, so that a later one lies.
  return inputOf({ call: random.pick(CALLS), lies: [...Array(random.below(3)).fill({}), ...lies] });
}

function bodyOf(
  kind: string | undefined,
  bytes: Uint8Array,
  whole: Uint8Array,
): ConstructorParameters<typeof Response>[0] {
  const copy = new Uint8Array(bytes);
  const half = copy.subarray(0, copy.length >> 1);
  const parts = (end: 'close' | 'error' | 'go on') =>
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new Uint8Array(half)),
      pull: (controller) => {
        if (end === 'close') controller.close();
        else if (end === 'error') controller.error(new TypeError('terminated'));
        else controller.enqueue(new Uint8Array(65_536));
      },
    });
  switch (kind) {
    case 'none':
      return null;
    case 'half':
      return parts('close');
    case 'more':
      return new Uint8Array([...copy, 1, 2, 3]);
    case 'broken':
      return parts('error');
    case 'endless':
      return parts('go on');
    case 'whole':
      return new Uint8Array(whole);
    case 'page':
      return PAGE;
    default:
      return copy;
  }
}

/** Bytes of bodies that are not those of the range: a server says how many it sends, whatever they are. */
const SENT_LENGTHS: Readonly<Record<string, (bytes: Uint8Array, whole: Uint8Array) => number>> = {
  none: () => 0,
  more: ({ length }) => length + 3,
  whole: (_, { length }) => length,
  page: () => PAGE.length,
};

/** The honest answer, with the lie's differences. */
function answer(request: Request, { status, headers: changes = {}, body }: Lie): Response {
  if (body === 'failed') throw new TypeError('fetch failed');
  const whole = FILES[new URL(request.url).pathname];
  if (whole === undefined) return new Response('not here', { status: 404 });
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get('range') ?? '') ?? [];
  const begin = Number(first ?? 0);
  const end = Math.min(last ? Number(last) + 1 : whole.length, whole.length);
  if (begin >= whole.length) return new Response('not that far', { status: 416 });
  const bytes = request.method === 'HEAD' ? new Uint8Array(0) : whole.subarray(begin, end);
  const sent = SENT_LENGTHS[body ?? '']?.(bytes, whole) ?? bytes.length;
  const headers = new Headers({ etag: '"first"', 'content-length': `${sent}` });
  if (first !== undefined)
    headers.set('content-range', `bytes ${begin}-${end - 1}/${whole.length}`);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) headers.delete(name);
    else headers.set(name, value);
  }
  const code = status ?? (first === undefined ? 200 : 206);
  const hasBody = request.method !== 'HEAD' && ![204, 304].includes(code);
  return new Response(hasBody ? bodyOf(body, bytes, whole) : null, { status: code, headers });
}

function liar(lies: readonly Lie[]): typeof fetch {
  let count = 0;
  return async (resource, init) => {
    init?.signal?.throwIfAborted();
    return answer(new Request(resource, { ...init, signal: null }), lies[count++] ?? {});
  };
}

/** Compares a result with the bytes of the file. */
type Judge = (what: string, expected: Uint8Array, found: Uint8Array) => void;

function requireSameLength(what: string, expected: Uint8Array, found: Uint8Array): void {
  if (expected.length !== found.length) throw new Problem(`${what} has ${found.length} bytes`);
}

function requireSame(what: string, expected: Uint8Array, found: Uint8Array): void {
  const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
  if (hash(expected) !== hash(found)) throw new Problem(`${what} has other bytes than the file`);
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/**
 * Whether an answer gives other bytes than the file's in a head that fits, without a length that does not: they are
 * taken for the first ones of a body that broke off. The format has no checksums that could tell.
 */
function hidesOtherBytes({ body, headers = {} }: Lie): boolean {
  return body === 'page' && headers['content-length'] === null;
}

let target: string;

async function run({ call, lies }: Story): Promise<void> {
  const options = { fetch: liar(lies) };
  const judge: Judge = lies.some(hidesOtherBytes) ? requireSameLength : requireSame;
  const name = call.includes('index') ? 'model.safetensors.index.json' : 'model.safetensors';
  const url = `https://models.example/${name}`;
  if (call.startsWith('download')) {
    await download(url, target, { ...options, durable: false });
    const path = existsSync(join(target, 'model.safetensors'))
      ? join(target, 'model.safetensors')
      : target;
    judge('the downloaded file', FILE, readFileSync(path));
    return;
  }
  if (call === 'metadata') {
    const { sharded } = await parseSafetensorsMetadata({ source: url, ...options } as never);
    if (sharded) throw new Problem('one file, but sharded');
    return;
  }
  const checkpoint = await open(url, options);
  try {
    if (call === 'slice') {
      const { data } = await checkpoint.getSlice('a', [10, 20]);
      judge('the slice', bytesOf(DATA.subarray(20, 40)), bytesOf(data as Float32Array));
    } else {
      const names = call === 'tensor' ? ['b'] : ['a', 'b'];
      const tensors = await checkpoint.readTensors(names);
      if (tensors.has('a')) {
        judge('a', bytesOf(DATA.subarray(0, 2000)), tensors.get('a')?.bytes ?? new Uint8Array());
      }
      judge('b', bytesOf(DATA.subarray(2000)), tensors.get('b')?.bytes ?? new Uint8Array());
    }
  } finally {
    checkpoint.close();
  }
}

function storyOf(input: Buffer): Story | undefined {
  const { call, lies } = Object(treeOf(input)) as Partial<Story>;
  if (typeof call !== 'string' || !CALLS.includes(call)) return undefined;
  if (!Array.isArray(lies) || !lies.every((lie) => typeof lie === 'object' && lie !== null))
    return undefined;
  for (const { status = 200, headers = {} } of lies) {
    if (!Number.isInteger(status) || status < 200 || status > 599) return undefined;
    if (headers === null || typeof headers !== 'object') return undefined;
    try {
      new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)]));
    } catch {
      return undefined;
    }
  }
  return { call, lies };
}

/** Waits between tries are longer than an input may take. */
const realSetTimeout = globalThis.setTimeout;
const LONGEST_WAIT = 15_000;

function begin({ folder }: Place): void {
  mkdirSync(join(folder, 'downloads'));
  target = join(folder, 'downloads', 'new');
  const shortened = (work: () => void, milliseconds = 0): unknown =>
    realSetTimeout(work, milliseconds < LONGEST_WAIT ? Math.min(milliseconds, 1) : milliseconds);
  globalThis.setTimeout = shortened as typeof setTimeout;
}

function end(): void {
  globalThis.setTimeout = realSetTimeout;
}

async function check(input: Buffer): Promise<string> {
  const story = storyOf(input);
  if (story === undefined) return 'no story';
  const names = [target, `${target}.safetensors`];
  try {
    await settled(run(story), story.call);
    return 'the right bytes';
  } catch (error) {
    if (error instanceof Problem) throw error;
    const { code } = Object(error) as { code?: unknown };
    const isSystems = typeof code === 'string' && /^E[A-Z]+$/.test(code);
    return isSystems ? code : codeOf(error);
  } finally {
    for (const name of names) rmSync(name, { recursive: true, force: true });
  }
}

export const lies: Target = {
  name: 'lies',
  about: 'answers of a server that lies, to open, parseSafetensorsMetadata and download',
  sources: /^remote\//,
  form: TREE,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 100,
  outcomes: ['the right bytes'],
  asksPythonOf: 0,
  begin,
  end,
  seeds: () => CALLS.map((call) => inputOf({ call, lies: [] })),
  make,
  check,
};
