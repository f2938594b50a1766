/**
 * `node test/soak/soak.mjs --minutes 60 [--seed S] [--picture FILE]`: runs the subject under a limit of 256 descriptors
 * and a heap of 128 MB, takes samples, draws them, and judges them. Linux only. docs/internals/soak.md shows the results.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { build } from '../../scripts/build.mjs';
import { readOptions } from '../support/options.mjs';
import { judge, lineOf, median } from './judge.mjs';
import { draw } from './picture.mjs';
import { mappingFigures, pressureTotal, processFigures } from './process-figures.mjs';

const DESCRIPTORS = 256;
const HEAP_MB = 128;
const BUSY_SAMPLE_MS = 500;

/** Time between rests: long runs have 240 of them. */
const RESTS = 240;
const LEAST_REST_MS = 1000;

/** A short run on a loaded machine goes on until it has so many, up to `LONGEST` times the minutes. */
const LEAST_RESTS = 12;
const LONGEST = 4;

/** A subject that does not rest for this long hangs, and one that does not end by itself so long after its last rest. */
const HANG_MS = 180_000;
const END_MS = 20_000;

const SHOWN_ERRORS = 10;

const USAGE = `node test/soak/soak.mjs [--minutes N] [--seed S] [--picture FILE]
  --minutes N     60 unless told; on a busy machine a short run takes up to ${LONGEST} times as long, for ${LEAST_RESTS} rests
  --seed S        repeats the choices, not their times
  --picture FILE  soak.svg unless told`;

const { values } = readOptions('soak', USAGE, {
  minutes: { type: 'string', number: 'any', least: 0.1, default: '60' },
  seed: { type: 'string', number: 'whole', default: String(Date.now() % 1_000_000) },
  picture: { type: 'string', default: 'soak.svg' },
});
const { minutes, seed } = values;

function pathOf(name) {
  return fileURLToPath(new URL(name, import.meta.url));
}

function startServer() {
  return spawn(process.execPath, [pathOf('server.mjs'), String(seed)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
}

/**
 * By default glibc keeps what threads have freed, up to the most that they ever had, in pools of every thread: a hoard that
 * looks like a leak while it fills. With two pools and fixed limits it gives back what is free.
 */
const ALLOCATOR = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '131072',
  MALLOC_TRIM_THRESHOLD_: '131072',
};

function startSubject(settings) {
  const flags = ['--expose-gc', `--max-old-space-size=${HEAP_MB}`];
  const command = [process.execPath, ...flags, pathOf('subject.mjs'), JSON.stringify(settings)];
  return spawn('sh', ['-c', `ulimit -n ${DESCRIPTORS}; exec "$@"`, 'sh', ...command], {
    env: { ...process.env, ...ALLOCATOR },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

await build();
const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-soak-'));
const server = startServer();
const [port] = await once(server, 'message');
const restMs = Math.max(LEAST_REST_MS, (minutes * 60_000) / RESTS);
const subject = startSubject({ folder, seed, server: port, restMs });
const ended = once(subject, 'exit');
const started = performance.now();
const secondsNow = () => (performance.now() - started) / 1000;

const busy = [];
const rests = [];
const errors = [];
let last;
let lastShare = 0;
let isOver = false;
let busySince = [];
// Counted by samples: a machine that stands still takes none.
let silentMs = 0;
let lastRest = { seconds: 0, pressure: pressureTotal() };

console.log(`soak: --seed ${seed}, ${minutes} minutes`);

const sampler = setInterval(() => {
  try {
    const sample = { seconds: secondsNow(), ...processFigures(subject.pid) };
    busy.push(sample);
    busySince.push(sample.privateBytes);
  } catch {
    // The subject has just ended: its exit says why.
  }
  silentMs += BUSY_SAMPLE_MS;
  if (silentMs < (isOver ? END_MS : HANG_MS)) return;
  errors.push(isOver ? 'the subject does not end by itself' : 'the subject has stopped to rest');
  subject.kill('SIGKILL');
}, BUSY_SAMPLE_MS);

subject.on('message', (message) => {
  silentMs = 0;
  last = message;
  errors.push(...message.errors);
  const now = { seconds: secondsNow(), pressure: pressureTotal() };
  const passed = now.seconds - lastRest.seconds;
  const figures = { ...processFigures(subject.pid), ...mappingFigures(subject.pid) };
  const { loop, memory } = message;
  rests.push({
    ...figures,
    ...loop,
    ...memory,
    seconds: now.seconds,
    pressure: (now.pressure - lastRest.pressure) / 1e6 / passed,
    handles: Object.values(message.handles).reduce((sum, count) => sum + count, 0),
    busyPrivateBytes: median(busySince.length === 0 ? [0] : busySince),
  });
  lastRest = now;
  busySince = [];
  const share = now.seconds / (minutes * 60);
  if (Math.floor(10 * share) > Math.floor(10 * lastShare)) {
    console.log(`${Math.round(now.seconds)} s, ${rests.length} rests, ${errors.length} errors`);
  }
  lastShare = share;
  isOver =
    share >= LONGEST || (share >= 1 && rests.length >= LEAST_RESTS) || errors.length > SHOWN_ERRORS;
  subject.send({ isOver });
});

const [code, signal] = await ended;
clearInterval(sampler);
server.disconnect();
rmSync(folder, { recursive: true, force: true });
if (code !== 0) errors.push(`the subject ended with ${signal ?? `exit code ${code}`}`);

const verdict = judge(rests);
const operations = Object.values(last?.counts ?? {}).reduce((sum, count) => sum + count, 0);
const title = `Node ${process.version}, seed ${seed}, ${minutes} min, ${operations} operations, ${last?.workerCount} workers`;
writeFileSync(values.picture, draw(title, busy, rests));
console.log(title);
console.log(`operations: ${JSON.stringify(last?.counts)}`);
console.log(`handles at rest: ${JSON.stringify(last?.handles)}`);
console.log(`temporary files left by workers that were ended: ${last?.leftBehind}`);
console.log(
  `descriptors at work: at most ${Math.max(...busy.map(({ descriptors }) => descriptors))} of ${DESCRIPTORS}`,
);
for (const ruling of verdict) console.log(lineOf(ruling));
for (const error of errors.slice(0, SHOWN_ERRORS)) console.log(`ERROR ${error}`);
const isBroken = errors.length > 0 || verdict.some((rule) => rule.isBroken);
console.log(`drawn: ${values.picture}`);
const broken = verdict.filter((rule) => rule.isBroken).length;
console.log(isBroken ? `soak failed: ${errors.length} errors, ${broken} broken` : 'soak passed');
process.exitCode = isBroken ? 1 : 0;
