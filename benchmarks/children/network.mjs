/**
 * Gets a file over HTTP. Arguments: WAY URL WHAT TARGET; WAY is `own`, `fetch` or `curl`. WHAT is `tensor`, for the only
 * tensor into memory (curl: into the target), or `download`, for the file into the target with its SHA-256. Prints 0 when
 * ready, starts its clock when standard input ends, and prints the ms.
 */
import { execFileSync } from 'node:child_process';
import { download, open } from 'safetensors-mmap';

const [way, url, what, target] = process.argv.slice(2);
const options = way === 'fetch' ? { fetch: (...request) => fetch(...request) } : {};
const certificates = process.env['NODE_EXTRA_CA_CERTS'];

function curl() {
  execFileSync('curl', ['-sS', '--cacert', certificates, '-o', target, url]);
  if (what === 'download') execFileSync('openssl', ['dgst', '-sha256', target]);
}

const WHATS = {
  tensor: async () => {
    const checkpoint = await open(url, options);
    await checkpoint.getTensor(checkpoint.keys()[0]);
    checkpoint.close();
  },
  download: () => download(url, target, { ...options, durable: false }),
};

console.log(0);
for await (const _ of process.stdin);
const start = performance.now();
await (way === 'curl' ? curl() : WHATS[what]());
console.log(JSON.stringify({ elapsed: performance.now() - start }));
