/** A file from a server on this machine: one tensor into memory, and downloaded with its hash. */
import { statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pick } from '../contenders.mjs';
import { ROOT_FOLDER } from '../equipment.mjs';
import { tensor, writeModel } from '../models.mjs';
import { startChild } from '../processes.mjs';
import { HELD_PER_BYTE, requireSameBytes } from './saving.mjs';

const WAYS = pick('received receivedByFetch curl');
const HALF_GIGABYTE = 500_000_000;
const CERTIFICATE = join(ROOT_FOLDER, 'test/fixtures/self-signed/cert.pem');

/**
 * Runs a way against a server of its own. As in `saving`, a process holds memory until the clock starts. What is
 * downloaded must be as served.
 */
async function runBeside({ protocol, what, path, target, hold, signal }, { file, args }) {
  const program = join(ROOT_FOLDER, 'benchmarks/children/serve.mjs');
  const serve = { file: process.execPath, args: [program, protocol, path] };
  const server = await startChild(serve, signal);
  const holder = await startChild(hold, signal);
  try {
    const [script, way] = args;
    const given = [`NODE_EXTRA_CA_CERTS=${CERTIFICATE}`, file, script, way];
    const command = { file: 'env', args: [...given, server.line(), what, target] };
    const client = await startChild(command, signal);
    await holder.end();
    await client.end();
    if (what === 'download') await requireSameBytes(path, target, signal);
    return client.line();
  } finally {
    await holder.end();
    await server.end();
    await rm(target, { force: true });
  }
}

/** One BF16 tensor of 1 GB. */
export const network = {
  name: 'network',
  prepare: async ({ folder, signal, size }) => {
    const path = join(folder, 'served.safetensors');
    await writeModel(path, [tensor('table', 'BF16', size(HALF_GIGABYTE, 2_000_000))], signal);
    return { path };
  },
  legs: ({ equipment, rounds, many, folder, signal }, { path }) => {
    const target = join(folder, 'target.safetensors');
    const held = String(Math.round(statSync(path).size * HELD_PER_BYTE));
    const hold = { file: join(equipment.programs, 'limits'), args: ['hold', held] };
    const leg = (protocol, what) => ({
      contenders: WAYS,
      path,
      rounds: Math.max(rounds, many(7)),
      run: (command) => runBeside({ protocol, what, path, target, hold, signal }, command),
    });
    return {
      http: leg('http', 'tensor'),
      https: leg('https', 'tensor'),
      download: leg('http', 'download'),
    };
  },
  page: `
    ## Over the network: 1 GB from a server on this machine
    | way | a tensor, HTTP = http:elapsed | a tensor, TLS = https:elapsed | a download with its SHA-256 = download:elapsed |
    - curl writes a file, of which openssl computes the SHA-256 afterwards; the server is Node
    - {reasons}
    > a tensor over HTTP against curl | at most 1.1 × | http:received.elapsed / http:curl.elapsed
    > a tensor over TLS against curl | at most 1.1 × | https:received.elapsed / https:curl.elapsed
    > a download against curl and openssl | at most 1 × | download:received.elapsed / download:curl.elapsed`,
};
