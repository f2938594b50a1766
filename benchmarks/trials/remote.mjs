/** Remote files over nginx: metadata of a repository, a header, a large tensor, one row; with and without latency. */
import { createReadStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { contender, ours } from '../contenders.mjs';
import { formatCount, formatDuration } from '../figures.mjs';
import { Measured } from '../measure.mjs';
import { tensor, writeExpertCheckpoint, writeSparseModel } from '../models.mjs';
import { NotMeasuredError, runChild } from '../processes.mjs';
import { selectAll } from '../selection.mjs';
import { startServers } from '../servers.mjs';
import { targetsOf } from '../targets.mjs';
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
const METADATA = ours('parseSafetensorsMetadata', 'remote.mjs', 'metadata');
const HUB_METADATA = contender(`${HUB}: the function of that name`, 'remote.mjs', 'hub-metadata', {
  needs: [HUB],
});
const PYTHON_METADATA = contender('Python get_safetensors_metadata', 'remote_metadata.py', '-', {
  needs: ['huggingface_hub'],
});
const HEADER = ours('openRemote', 'remote.mjs', 'header');
const TWO_FETCHES = contender('two fetches, no checks', 'remote.mjs', 'two-fetches');
const TENSOR = ours('getTensor', 'remote.mjs', 'tensor');
const CURL = contender('curl, to /dev/null', 'remote.mjs', 'curl');
const CURL_FILE = contender('curl, to a file', 'remote.mjs', 'curl-file');
const FETCH = contender('fetch, arrayBuffer()', 'remote.mjs', 'fetch');
const FETCH_RANGES = contender(
  'limit: fetch, 8 ranges at a time, no checks',
  'remote.mjs',
  'fetch-ranges',
);
const ROW = ours('getSlice', 'remote.mjs', 'row');

const REPOSITORY = 'bench/experts';

/** What is read, by whom, from where; `seen` is what everybody must have seen, `isFar` also with latency. */
function tasksOf(size) {
  const { tensors, shards } = expertSizes(size);
  const shard = `model-00001-of-${String(shards).padStart(5, '0')}.safetensors`;
  const table = ({ network }) => `${network}/table.safetensors`;
  return {
    metadata: {
      what: `metadata of ${shards} shards`,
      contenders: [METADATA, HUB_METADATA, PYTHON_METADATA],
      seen: tensors,
      urlIn: ({ hub }) => `${hub}/${REPOSITORY}`,
      isFar: true,
    },
    header: {
      what: 'header of one shard',
      contenders: [HEADER, TWO_FETCHES],
      seen: Math.round(tensors / shards),
      urlIn: ({ network }) => `${network}/${REPOSITORY}/${shard}`,
      isFar: true,
      isShort: true,
    },
    tensor: {
      what: 'one tensor of 1 GB',
      contenders: [TENSOR, CURL, CURL_FILE, FETCH, FETCH_RANGES],
      seen: size(ROWS, 100) * WIDTH * 2,
      urlIn: table,
    },
    row: {
      what: 'one row of it',
      contenders: [ROW],
      seen: WIDTH * 2,
      urlIn: table,
      isFar: true,
      isShort: true,
    },
  };
}

export const remote = {
  name: 'remote',
  prepare: async ({ folder, signal, size }) => {
    const files = join(folder, 'remote');
    await mkdir(files);
    await writeExpertCheckpoint(join(files, REPOSITORY), expertSizes(size));
    const path = join(files, 'table.safetensors');
    const embedding = tensor(NAME, 'BF16', size(ROWS, 100), WIDTH);
    await writeSparseModel(path, [embedding]);
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
      const { contenders, seen, urlIn, isFar = false, isShort = false } = task;
      const run = async (command) => {
        if (missing !== undefined) throw missing;
        await servers.takeRequests();
        const line = await runChild(command, signal);
        if (line.seen !== seen) throw new NotMeasuredError(`saw ${line.seen} of ${seen}`);
        return { ...line, ...(await servers.takeRequests()) };
      };
      const args = [NAME, name === 'row' ? `${size(TAKEN_ROW, 50)}` : range, folder];
      const leg = { contenders, args, rounds: isShort ? many(SHORT_ROUNDS) : rounds, run };
      for (const place of isFar ? ['near', 'far'] : ['near']) {
        legs[`${name}, ${place}`] = { ...leg, path: servers ? urlIn(servers[place]) : '-' };
      }
    }
    return legs;
  },
  report: (legs, { size }) => {
    const tasks = tasksOf(size);
    const figure = (name, place, contender, what) =>
      legs[`${name}, ${place}`]?.median(contender, what) ?? Number.NaN;
    const near = (name, contender) => figure(name, 'near', contender, 'elapsed');
    const far = (name, contender) => figure(name, 'far', contender, 'elapsed');
    const requests = (name, contender, host) => figure(name, 'near', contender, host);
    const { shards } = expertSizes(size);
    const hub = [METADATA, HUB_METADATA, PYTHON_METADATA];
    const [asked, hubAsked, pythonAsked] = hub.map((one) => requests('metadata', one, 'hub'));
    const [headers, hubHeaders] = hub.map((one) => requests('metadata', one, 'network'));
    const [metadata, hubMetadata, python] = hub.map((one) => far('metadata', one));
    const [large, discarded, file, , fetched] = [TENSOR, CURL, CURL_FILE, FETCH, FETCH_RANGES].map(
      (one) => near('tensor', one),
    );
    const values = {
      ...{ asked, hubAsked, pythonAsked, headers, hubHeaders, metadata, hubMetadata, python },
      ...{
        large,
        discarded,
        file,
        fetched,
        row: far('row', ROW),
        rowRequests: requests('row', ROW, 'network') - 1,
      },
      ...{ header: far('header', HEADER), fetches: far('header', TWO_FETCHES) },
    };
    return {
      title: `Files on nginx, also with ${LATENCY} ms added to every round trip`,
      rows: [
        ['what', 'how', 'no latency', `${LATENCY} ms`, 'requests to the Hub', 'to its network'],
        ...Object.entries(tasks).flatMap(([name, { what, contenders }]) =>
          contenders.map((contender) => [
            what,
            contender.name,
            formatDuration(near(name, contender)),
            formatDuration(far(name, contender)),
            formatCount(requests(name, contender, 'hub')),
            formatCount(requests(name, contender, 'network')),
          ]),
        ),
      ],
      notes: [
        ...new Set(Measured.of(...Object.values(legs)).reasons),
        'in a fresh process; a new connection takes one more round trip; the row of a file that is open, its requests with those of opening',
      ],
      targets: targetsOf(
        values,
        `
        ${shards} shards, metadata: requests for headers against ${HUB} | at most 1/3 × | headers / hubHeaders | all of ours = asked & ${HUB} = hubAsked & Python = pythonAsked ()
        ${shards} shards, metadata, ${LATENCY} ms: faster than ${HUB} | at least 3 × | hubMetadata / metadata | ours = metadata & ${HUB} = hubMetadata & Python = python
        one tensor of 1 GB, against curl to a file | at most 1.2 × | large / file | ours = large & curl to a file = file & to /dev/null = discarded & fetch, no checks = fetched
        one row of 1 GB, requests after opening | at most 1 | rowRequests | with ${LATENCY} ms = row
        the header of a file, ${LATENCY} ms: faster than two fetches | at least 1 × | fetches / header | ours = header & two fetches = fetches`,
      ),
    };
  },
};
