/** Remote files over nginx: metadata of a repository, a header, a large tensor, one row; with and without latency. */
import { createReadStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { safeOpen } from 'safetensors-mmap';
import type { RemoteResult } from '../children/remote.js';
import { showProgress } from '../command-line.js';
import { type Driver, node, python } from '../drivers.js';
import { writeExpertCheckpoint } from '../expert-checkpoint.js';
import { cell, formatDuration, formatRatio } from '../figures.js';
import { measure, medianOf, type Row, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { type Command, NotMeasuredError, runChild } from '../run-child.js';
import { type HubPlace, type Servers, startServers } from '../servers.js';
import { atLeast, atMost, beside, type Target } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { writeSparseModel } from '../write-model.js';

const SHARDS = 163;
const TENSORS = 92_000;

/** An embedding of 1 GB. */
const NAME = 'embedding';
const SHAPE: readonly [number, number] = [128_000, 4096];
const BYTES = SHAPE[0] * SHAPE[1] * 2;

/** Added to every round trip, in ms. */
const LATENCY = 30;

/** Requests for one row take a millisecond. */
const SHORT_ROUNDS = 15;

const HUB = '@huggingface/hub';
const METADATA = node('parseSafetensorsMetadata', 'remote.js', 'metadata');
const HUB_METADATA = node(`${HUB}: the function of that name`, 'remote.js', 'hub-metadata', [HUB]);
const PYTHON_METADATA = python('Python get_safetensors_metadata', 'remote_metadata.py', '-', [
  'huggingface_hub',
]);
const HEADER = node('openRemote', 'remote.js', 'header');
const TWO_FETCHES = node('two fetches, no checks', 'remote.js', 'two-fetches');
const TENSOR = node('getTensor', 'remote.js', 'tensor');
const CURL = node('curl, to /dev/null', 'remote.js', 'curl');
const CURL_FILE = node('curl, to a file', 'remote.js', 'curl-file');
const FETCH = node('fetch, arrayBuffer()', 'remote.js', 'fetch');
const FETCH_RANGES = node(
  'limit: fetch, 8 ranges at a time, no checks',
  'remote.js',
  'fetch-ranges',
);
const ROW = node('getSlice', 'remote.js', 'row');

/** What is read, and by whom. */
interface Task {
  readonly what: string;
  readonly drivers: readonly Driver[];
  /** What everybody must have seen. */
  readonly seen: number;
  readonly urlIn: (place: HubPlace) => string;
  /** Whether it is measured with latency, too. */
  readonly isFar: boolean;
  readonly isShort: boolean;
}

/** A run and the requests that it needed. */
interface Counted extends RemoteResult {
  readonly requests: { readonly hub: number; readonly network: number };
}

const REPOSITORY = 'bench/experts';
const SHARD = 'model-00001-of-00163.safetensors';

const METADATA_TASK: Task = {
  what: `metadata of ${SHARDS} shards`,
  drivers: [METADATA, HUB_METADATA, PYTHON_METADATA],
  seen: TENSORS,
  urlIn: ({ hub }) => `${hub}/${REPOSITORY}`,
  isFar: true,
  isShort: false,
};
const HEADER_TASK: Task = {
  what: 'header of one shard',
  drivers: [HEADER, TWO_FETCHES],
  seen: Math.round(TENSORS / SHARDS),
  urlIn: ({ network }) => `${network}/${REPOSITORY}/${SHARD}`,
  isFar: true,
  isShort: true,
};
const tableIn = ({ network }: HubPlace): string => `${network}/table.safetensors`;
const TENSOR_TASK: Task = {
  what: 'one tensor of 1 GB',
  drivers: [TENSOR, CURL, CURL_FILE, FETCH, FETCH_RANGES],
  seen: BYTES,
  urlIn: tableIn,
  isFar: false,
  isShort: false,
};
const ROW_TASK: Task = {
  what: 'one row of it',
  drivers: [ROW],
  seen: SHAPE[1] * 2,
  urlIn: tableIn,
  isFar: true,
  isShort: true,
};
const TASKS: readonly Task[] = [METADATA_TASK, HEADER_TASK, TENSOR_TASK, ROW_TASK];

/** Rows of a task, measured at both places. */
interface Measured {
  readonly task: Task;
  readonly near: readonly Row<Counted>[];
  readonly far: readonly Row<Counted>[];
}

/** Writes the repository and the table, as holes; gives the range of the embedding's bytes. */
async function writeFiles(files: string): Promise<string> {
  await mkdir(join(files, 'bench'), { recursive: true });
  await writeExpertCheckpoint(join(files, REPOSITORY), TENSORS, SHARDS);
  const path = join(files, 'table.safetensors');
  await writeSparseModel(path, [{ name: NAME, dtype: 'BF16', shape: SHAPE, byteLength: BYTES }]);
  // Into the page cache.
  for await (const _ of createReadStream(path, { highWaterMark: 2 ** 22 }));
  using file = safeOpen(path);
  const begin = file.byteLength - BYTES;
  return `${begin}-${begin + BYTES - 1}`;
}

async function measureTask(
  task: Task,
  servers: Servers | NotMeasuredError,
  range: string,
  { equipment, folder, rounds, signal }: TrialContext,
): Promise<Measured> {
  const { what, drivers, seen, urlIn, isFar, isShort } = task;
  const at = async (place: 'near' | 'far'): Promise<Row<Counted>[]> => {
    const run = async (command: Command): Promise<Counted> => {
      if (servers instanceof NotMeasuredError) throw servers;
      await servers.takeRequests();
      const result = await runChild<RemoteResult>(command, signal);
      if (result.seen !== seen) throw new NotMeasuredError(`saw ${result.seen} of ${seen}`);
      return { ...result, requests: await servers.takeRequests() };
    };
    const path = servers instanceof NotMeasuredError ? '-' : urlIn(servers[place]);
    const plan = {
      title: `remote, ${what}`,
      path,
      args: [NAME, range, folder],
      rounds: isShort ? SHORT_ROUNDS : rounds,
      run,
    };
    return await measure<Counted>(drivers, plan, equipment, signal);
  };
  return { task, near: await at('near'), far: isFar ? await at('far') : [] };
}

export async function remote(context: TrialContext): Promise<Section> {
  const { folder, signal } = context;
  showProgress('remote: writing its files');
  const files = join(folder, 'remote');
  const range = await writeFiles(files);
  const servers = await startServers(files, folder, LATENCY, signal).catch((error: unknown) => {
    if (error instanceof NotMeasuredError) return error;
    throw error;
  });
  const measured: Measured[] = [];
  try {
    for (const task of TASKS) measured.push(await measureTask(task, servers, range, context));
  } finally {
    if (!(servers instanceof NotMeasuredError)) await servers.end();
  }
  return sectionOf(measured);
}

function sectionOf(measured: readonly Measured[]): Section {
  const find = (task: Task): Measured => measured.find((one) => one.task === task) as Measured;
  const time = (task: Task, driver: Driver, place: 'near' | 'far' = 'near'): number =>
    medianOf(find(task)[place], driver, ({ elapsed }) => elapsed);
  const requests = (task: Task, driver: Driver, host: 'hub' | 'network'): number =>
    medianOf(find(task).near, driver, (result) => result.requests[host]);
  const asRequests = (count: number): string => String(count);
  return {
    title: `Files on nginx, also with ${LATENCY} ms added to every round trip`,
    rows: [
      ['what', 'how', 'no latency', `${LATENCY} ms`, 'requests to the Hub', 'to its network'],
      ...TASKS.flatMap((task) =>
        task.drivers.map((driver) => [
          task.what,
          driver.name,
          cell(time(task, driver), formatDuration),
          cell(time(task, driver, 'far'), formatDuration),
          cell(requests(task, driver, 'hub'), asRequests),
          cell(requests(task, driver, 'network'), asRequests),
        ]),
      ),
    ],
    notes: [
      ...new Set(measured.flatMap(({ near, far }) => reasonsOf([...near, ...far]))),
      'in a fresh process; a new connection takes one more round trip; the row of a file that is open, its requests with those of opening',
    ],
    targets: targetsOf(time, requests),
  };
}

function targetsOf(
  time: (task: Task, driver: Driver, place?: 'near' | 'far') => number,
  requests: (task: Task, driver: Driver, host: 'hub' | 'network') => number,
): Target[] {
  const far = (driver: Driver): number => time(METADATA_TASK, driver, 'far');
  const asked = (driver: Driver): number => requests(METADATA_TASK, driver, 'hub');
  const forShards = (driver: Driver): number => requests(METADATA_TASK, driver, 'network');
  return [
    atMost(
      `${SHARDS} shards, metadata: requests for headers against ${HUB}`,
      forShards(METADATA) / forShards(HUB_METADATA),
      1 / 3,
      formatRatio,
      beside(String, {
        'all of ours': asked(METADATA),
        [HUB]: asked(HUB_METADATA),
        Python: asked(PYTHON_METADATA),
      }),
    ),
    atLeast(
      `${SHARDS} shards, metadata, ${LATENCY} ms: faster than ${HUB}`,
      far(HUB_METADATA) / far(METADATA),
      3,
      formatRatio,
      beside(formatDuration, {
        ours: far(METADATA),
        [HUB]: far(HUB_METADATA),
        Python: far(PYTHON_METADATA),
      }),
    ),
    atMost(
      'one tensor of 1 GB, against curl to a file',
      time(TENSOR_TASK, TENSOR) / time(TENSOR_TASK, CURL_FILE),
      1.2,
      formatRatio,
      beside(formatDuration, {
        ours: time(TENSOR_TASK, TENSOR),
        'curl to a file': time(TENSOR_TASK, CURL_FILE),
        'to /dev/null': time(TENSOR_TASK, CURL),
        'fetch, no checks': time(TENSOR_TASK, FETCH_RANGES),
      }),
    ),
    atMost(
      'one row of 1 GB, requests after opening',
      requests(ROW_TASK, ROW, 'network') - 1,
      1,
      String,
      beside(formatDuration, { [`with ${LATENCY} ms`]: time(ROW_TASK, ROW, 'far') }),
    ),
    atLeast(
      `the header of a file, ${LATENCY} ms: faster than two fetches`,
      time(HEADER_TASK, TWO_FETCHES, 'far') / time(HEADER_TASK, HEADER, 'far'),
      1,
      formatRatio,
      beside(formatDuration, {
        ours: time(HEADER_TASK, HEADER, 'far'),
        'two fetches': time(HEADER_TASK, TWO_FETCHES, 'far'),
      }),
    ),
  ];
}
