/**
 * Reads from a server. Arguments: METHOD URL NAME RANGE FOLDER, the last three where the method needs them. Prints
 * the ms of the read, everything imported, and how many tensors or bytes were seen.
 */
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { openRemote, parseSafetensorsMetadata } from 'safetensors-mmap/remote';

const [method, url, name, range, folder] = process.argv.slice(2);
const [begin = 0, end = 0] = range.split('-').map(Number);

const countNames = (header) => Object.keys(header).filter((key) => key !== '__metadata__').length;

async function metadata(parse) {
  const { origin, pathname } = new URL(url);
  const { headers } = await parse({ hubUrl: origin, repo: pathname.slice(1) });
  return Object.values(headers).reduce((sum, header) => sum + countNames(header), 0);
}

const fetchRange = (from, to) => fetch(url, { headers: { Range: `bytes=${from}-${to}` } });

// What is opened or loaded before the clock starts.
const isOpen = method === 'tensor' || method === 'row';
const checkpoint = isOpen ? await openRemote(url) : undefined;
const rival = method === 'hub-metadata' ? await import('../rivals/hub.mjs') : undefined;

/** Each gives what was seen. */
const METHODS = {
  metadata: () => metadata(parseSafetensorsMetadata),
  'hub-metadata': () => metadata(rival.parseSafetensorsMetadata),
  header: async () => (await openRemote(url)).size,
  'two-fetches': async () => {
    const prefix = await (await fetchRange(0, 7)).arrayBuffer();
    const length = Number(new DataView(prefix).getBigUint64(0, true));
    return countNames(JSON.parse(await (await fetchRange(8, 7 + length)).text()));
  },
  tensor: async () => (await checkpoint.getTensor(name)).byteLength,
  row: async () => (await checkpoint.getSlice(name, Number(range))).byteLength,
  fetch: async () => (await (await fetchRange(begin, end)).arrayBuffer()).byteLength,
  // What fetch can give at best: as many ranges at a time as ours, and of the same length.
  'fetch-ranges': async () => {
    const bytes = new Uint8Array(end + 1 - begin);
    let next = 0;
    const work = async () => {
      while (next < bytes.length) {
        let at = next;
        next = Math.min(next + 2 ** 23, bytes.length);
        const { body } = await fetchRange(begin + at, begin + next - 1);
        for await (const piece of body) {
          bytes.set(piece, at);
          at += piece.length;
        }
      }
    };
    await Promise.all(Array.from({ length: 8 }, work));
    return bytes.length;
  },
};

/** By its own clock, which leaves out the start of its process. */
function runCurl(target) {
  const format = '%{time_total} %{size_download}';
  const args = ['-sSf', '-o', target, '-w', format, '-r', range, url];
  const [seconds, seen] = execFileSync('curl', args, { encoding: 'utf8' }).split(' ').map(Number);
  if (target !== '/dev/null') rmSync(target);
  return { elapsed: seconds * 1000, seen };
}

async function timed(read) {
  const start = performance.now();
  const seen = await read();
  return { elapsed: performance.now() - start, seen };
}

const line = method.startsWith('curl')
  ? runCurl(method === 'curl' ? '/dev/null' : join(folder, 'tensor'))
  : await timed(METHODS[method]);
console.log(JSON.stringify(line));
// Connections that are kept alive would keep the process.
process.exit();
