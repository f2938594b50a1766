/** Reads from a server. Arguments: METHOD URL NAME RANGE FOLDER, the last three where the method needs them. */
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { openRemote, parseSafetensorsMetadata } from 'safetensors-mmap/remote';

/** The line this child prints. */
export interface RemoteResult {
  /** Wall time in ms in a fresh process, everything imported. */
  readonly elapsed: number;
  /** What was seen, the same for all methods that do the same: tensors or bytes. */
  readonly seen: number;
}

const [method = '', url = '', name = '', range = '', folder = ''] = process.argv.slice(2);
const [begin = 0, end = 0] = range.split('-').map(Number);

/** Address and id of a repository by its page. */
function repositoryOf(page: string): { readonly hubUrl: string; readonly repo: string } {
  const { origin, pathname } = new URL(page);
  return { hubUrl: origin, repo: pathname.slice(1) };
}

/** The part of the rival's result that is used here. */
interface Metadata {
  readonly sharded: boolean;
  readonly headers?: Readonly<Record<string, object>>;
}

function tensorsOf({ headers = {} }: Metadata): number {
  return Object.values(headers).reduce(
    (sum, header) => sum + Object.keys(header).filter((key) => key !== '__metadata__').length,
    0,
  );
}

// Loaded before the clock starts, as ours is.
const rival = '../../../benchmarks/node_modules/@huggingface/hub/dist/index.mjs';
const parseMetadata: (params: ReturnType<typeof repositoryOf>) => Promise<Metadata> =
  method === 'hub-metadata'
    ? (await import(rival)).parseSafetensorsMetadata
    : parseSafetensorsMetadata;

/** Each gives what was seen; what is opened is opened before the clock starts where it says so. */
const METHODS: Readonly<Record<string, () => Promise<RemoteResult>>> = {
  metadata: () => timed(async () => tensorsOf(await parseMetadata(repositoryOf(url)))),
  'hub-metadata': () => timed(async () => tensorsOf(await parseMetadata(repositoryOf(url)))),
  header: () => timed(async () => (await openRemote(url)).size),
  'two-fetches': () =>
    timed(async () => {
      const prefix = await fetch(url, { headers: { Range: 'bytes=0-7' } });
      const length = new DataView(await prefix.arrayBuffer()).getBigUint64(0, true);
      const rest = await fetch(url, { headers: { Range: `bytes=8-${7 + Number(length)}` } });
      return Object.keys(JSON.parse(await rest.text())).filter((key) => key !== '__metadata__')
        .length;
    }),
  tensor: async () => {
    const checkpoint = await openRemote(url);
    return await timed(async () => (await checkpoint.getTensor(name)).byteLength);
  },
  row: async () => {
    const checkpoint = await openRemote(url);
    return await timed(async () => (await checkpoint.getSlice(name, 12_345)).byteLength);
  },
  fetch: () =>
    timed(async () => {
      const response = await fetch(url, { headers: { Range: `bytes=${begin}-${end}` } });
      return (await response.arrayBuffer()).byteLength;
    }),
  // What fetch can give at best: as many ranges at a time as ours, and of the same length.
  'fetch-ranges': () =>
    timed(async () => {
      const bytes = new Uint8Array(end + 1 - begin);
      let next = 0;
      const work = async (): Promise<void> => {
        while (next < bytes.length) {
          let at = next;
          next = Math.min(next + 2 ** 23, bytes.length);
          const range = `bytes=${begin + at}-${begin + next - 1}`;
          const { body } = await fetch(url, { headers: { Range: range } });
          for await (const piece of body ?? []) {
            bytes.set(piece, at);
            at += piece.length;
          }
        }
      };
      await Promise.all(Array.from({ length: 8 }, work));
      return bytes.length;
    }),
  curl: async () => runCurl('/dev/null'),
  'curl-file': async () => {
    const target = join(folder, 'tensor');
    const result = runCurl(target);
    rmSync(target);
    return result;
  },
};

/** By its own clock, which leaves out the start of its process. */
function runCurl(target: string): RemoteResult {
  const format = '%{time_total} %{size_download}';
  const args = ['-sSf', '-o', target, '-w', format, '-r', range, url];
  const output = execFileSync('curl', args, { encoding: 'utf8' });
  const [seconds = 0, seen = 0] = output.split(' ').map(Number);
  return { elapsed: seconds * 1000, seen };
}

async function timed(read: () => Promise<number>): Promise<RemoteResult> {
  const start = performance.now();
  const seen = await read();
  return { elapsed: performance.now() - start, seen };
}

const run = METHODS[method];
if (run === undefined) throw new Error(`no method ${method}`);
console.log(JSON.stringify(await run()));
// Connections that are kept alive would keep the process.
process.exit();
