// Hashes a file of 64 MiB while it "grows", and prints the hash. Argument: the path.
import { openSync, truncateSync } from 'node:fs';
import { beginGrowingHash } from '../../../../build/remote/download/growing-hash.js';

const BYTES = 2 ** 26;
const [, , path] = process.argv;
const fd = openSync(path, 'r+');
truncateSync(path, BYTES);
const hash = beginGrowingHash(null, BYTES, { fd, path });
hash.add(new Uint8Array(BYTES));
console.log(JSON.stringify(await hash.digest()));
await hash.end();
