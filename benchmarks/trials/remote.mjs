/** Remote files over nginx: metadata of a repository, a header, a large tensor, one row; with and without latency. */
import { createReadStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CONTENDERS, pick } from '../contenders.mjs';
import { tensor, writeExpertCheckpoint, writeSparseModel } from '../models.mjs';
import { NotMeasuredError, runChild } from '../processes.mjs';
import { selectAll } from '../selection.mjs';
import { startServers } from '../servers.mjs';
import { expertSizes } from './writing.mjs';

/** An embedding of 1 GB. */
const NAME = 'embedding';
const ROWS = 128_000;
const WIDTH = 4096;
const TAKEN_ROW = 12_345;

/** Added to every round trip, in ms. */
const LATENCY = 30;

/** Requests for one row take a millisecond. */
const SHORT_ROUNDS = 15;

const HUB = '@huggingface/hub';

const REPOSITORY = 'bench/experts';

/** What is read, by whom, from where; `seen` is what everybody must have seen, `isFar` also with latency. */
function tasksOf(size) {
  const { tensors, shards } = expertSizes(size);
  const shard = `model-00001-of-${String(shards).padStart(5, '0')}.safetensors`;
  const [rows, row] = [size(ROWS, 100), size(TAKEN_ROW, 50)];
  const table = ({ network }) => `${network}/table.safetensors`;
  const task = (what, contenders, seen, urlIn, more = {}) => ({
    what,
    contenders,
    seen,
    urlIn,
    ...more,
  });
  const short = { isFar: true, isShort: true };
  return {
    metadata: task(
      `metadata of ${shards} shards`,
      pick('metadata hubMetadata pythonMetadata'),
      tensors,
      ({ hub }) => `${hub}/${REPOSITORY}`,
      { isFar: true },
    ),
    header: task(
      'header of one shard',
      pick('remoteHeader twoFetches'),
      Math.round(tensors / shards),
      ({ network }) => `${network}/${REPOSITORY}/${shard}`,
      short,
    ),
    tensor: task(
      'one tensor of 1 GB',
      pick('remoteTensor curl curlFile fetch fetchRanges'),
      rows * WIDTH * 2,
      table,
    ),
    row: task('one row of it', pick('row'), WIDTH * 2, table, { ...short, range: `${row}` }),
  };
}

export const remote = {
  name: 'remote',
  prepare: async ({ folder, signal, size }) => {
    const files = join(folder, 'remote');
    await mkdir(files);
    await writeExpertCheckpoint(join(files, REPOSITORY), expertSizes(size));
    const path = join(files, 'table.safetensors');
    await writeSparseModel(path, [tensor(NAME, 'BF16', size(ROWS, 100), WIDTH)]);
    // Into the page cache.
    for await (const _ of createReadStream(path, { highWaterMark: 2 ** 22 }));
    const [, begin, length] = selectAll(path).map(Number);
    const range = `${begin}-${begin + length - 1}`;
    try {
      const servers = await startServers(files, folder, LATENCY, signal);
      return { range, servers, end: servers.end };
    } catch (error) {
      if (error instanceof NotMeasuredError) return { range, missing: error };
      throw error;
    }
  },
  legs: ({ folder, rounds, many, signal, size }, { range, servers, missing }) => {
    const legs = {};
    for (const [name, task] of Object.entries(tasksOf(size))) {
      const run = async (command) => {
        if (missing !== undefined) throw missing;
        await servers.takeRequests();
        const line = await runChild(command, signal);
        if (line.seen !== task.seen) throw new NotMeasuredError(`saw ${line.seen} of ${task.seen}`);
        return { ...line, ...(await servers.takeRequests()) };
      };
      const args = [NAME, task.range ?? range, folder];
      const leg = {
        contenders: task.contenders,
        args,
        rounds: task.isShort ? many(SHORT_ROUNDS) : rounds,
        run,
      };
      for (const place of task.isFar ? ['near', 'far'] : ['near']) {
        legs[`${name}, ${place}`] = { ...leg, path: servers ? task.urlIn(servers[place]) : '-' };
      }
    }
    return legs;
  },
  values: (legs, { size }) => ({
    shards: expertSizes(size).shards,
    further: legs['row, near'].median(CONTENDERS.row, 'network') - 1,
  }),
  rows: (read, _, { size }) => {
    const head = [
      'what',
      'how',
      'no latency',
      `${LATENCY} ms`,
      'requests to the Hub',
      'to its network',
    ];
    const rows = Object.entries(tasksOf(size)).flatMap(([name, { what, contenders }]) =>
      contenders.map((one) => {
        const [near, far] = [`${name}, near`, `${name}, far`];
        const cells = [`${near}:elapsed`, `${far}:elapsed`, `${near}:hub #`, `${near}:network #`];
        return [what, one.name, ...cells.map((cell) => read(cell, one).text)];
      }),
    );
    return [head, ...rows];
  },
  page: `
    ## Files on nginx, also with ${LATENCY} ms added to every round trip
    - {reasons}
    - in a fresh process; a new connection takes one more round trip; the row of a file that is open, its requests with those of opening
    > {shards} shards, metadata: requests for headers against ${HUB} | at most 1/3 × | metadata, near:metadata.network / metadata, near:hubMetadata.network | all of ours = metadata, near:metadata.hub # & ${HUB} = metadata, near:hubMetadata.hub # & Python = metadata, near:pythonMetadata.hub #
    > {shards} shards, metadata, ${LATENCY} ms: faster than ${HUB} | at least 3 × | metadata, far:hubMetadata.elapsed / metadata, far:metadata.elapsed | ours = metadata, far:metadata.elapsed & ${HUB} = metadata, far:hubMetadata.elapsed & Python = metadata, far:pythonMetadata.elapsed
    > one tensor of 1 GB, against curl to a file | at most 1.2 × | tensor, near:remoteTensor.elapsed / tensor, near:curlFile.elapsed | ours = tensor, near:remoteTensor.elapsed & curl to a file = tensor, near:curlFile.elapsed & to /dev/null = tensor, near:curl.elapsed & fetch, no checks = tensor, near:fetchRanges.elapsed
    > one row of 1 GB, requests after opening | at most 1 # | $further | with ${LATENCY} ms = row, far:row.elapsed
    > the header of a file, ${LATENCY} ms: faster than two fetches | at least 1 × | header, far:twoFetches.elapsed / header, far:remoteHeader.elapsed | ours = header, far:remoteHeader.elapsed & two fetches = header, far:twoFetches.elapsed`,
};
