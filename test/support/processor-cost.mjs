/**
 * Processor time of work whose limit holds on one machine, measured on another. Hosts of virtual machines give their
 * memory and processors to several guests: a page that a process touches for the first time costs from 0.2 to 15
 * microseconds there, and a read from a random place in memory from 90 to 900 nanoseconds. Pages are counted, and what
 * pages, reads and loops cost is measured directly after the work.
 */
import { Buffer } from 'node:buffer';
import process from 'node:process';

/** The machine that limits are for. */
const PAGE_MICROSECONDS = 0.5;
const READ_NANOSECONDS = 100;
const LOOP_NANOSECONDS = 1.2;

/** What costs less is cheap on any machine: how slow this one is need not be measured. */
const LITTLE_MILLISECONDS = 500;

/** A page that costs more is a large one, of which the work may have had none. */
const MAX_PAGE_MICROSECONDS = 20;
/** Share of a cost that may be due to pages, and how many times slower this machine may count as: faults stay seen. */
const MAX_PAGE_SHARE = 0.75;
const MAX_SLOWNESS = 5;

const ROUNDS = 3;
/** The allocator asks the kernel for as many bytes each time. */
const BYTE_LENGTH = 2 ** 26;
/** Bytes of a table that no cache holds. */
const TABLE_BYTE_LENGTH = 2 ** 26;
const READS = 100_000;
const LOOPS = 10_000_000;

/** Milliseconds of processor time of this process so far, and the pages that it has touched for the first time. */
function usage() {
  const { userCPUTime, systemCPUTime, minorPageFault } = process.resourceUsage();
  return { milliseconds: (userCPUTime + systemCPUTime) / 1000, pages: minorPageFault };
}

/** Begins to measure, and returns a function that returns the cost since. */
function begin() {
  const before = usage();
  const began = performance.now();
  return () => {
    const wallMilliseconds = performance.now() - began;
    const { milliseconds, pages } = usage();
    return {
      milliseconds: milliseconds - before.milliseconds,
      wallMilliseconds,
      pages: pages - before.pages,
    };
  };
}

/** Runs `work`; returns its result, its processor time, its time by the clock, and the pages that it touched. */
export function measured(work) {
  const spent = begin();
  const result = work();
  return { result, ...spent() };
}

/** As `measured`, of work that gives a promise. */
export async function measuredAsync(work) {
  const spent = begin();
  const result = await work();
  return { result, ...spent() };
}

/** The least cost of three rounds, in milliseconds for each unit of `work`, which returns how many it did. */
function leastCost(work) {
  let least = Infinity;
  for (let i = 0; i < ROUNDS; i++) {
    const { result, milliseconds } = measured(work);
    least = Math.min(least, milliseconds / Math.max(1, result));
  }
  return least;
}

function fillPages() {
  const { pages } = measured(() => Buffer.allocUnsafeSlow(BYTE_LENGTH).fill(1));
  return pages;
}

/**
 * Reads places of `table` in an order that no processor predicts: each place depends on what was read. As `loop`, returns
 * a number that depends on the result, or the compiler would leave the work out.
 */
function readRandomly(table) {
  const mask = table.length - 1;
  let at = 1;
  for (let i = 0; i < READS; i++) {
    at = (Math.imul(at, 1_664_525) + 1_013_904_223 + table[(at >>> 8) & mask]) >>> 0;
  }
  return at < 0 ? 0 : READS;
}

function loop(bytes) {
  const mask = bytes.length - 1;
  let hash = 0;
  for (let i = 0; i < LOOPS; i++) hash = (Math.imul(hash, 31) + bytes[i & mask]) | 0;
  return hash === 0.5 ? 0 : LOOPS;
}

/** Milliseconds of a cost without what its pages cost above what they may. Takes 64 MB: measure memory before. */
export function withoutSlowPages({ milliseconds, pages }) {
  const microseconds = Math.min(leastCost(fillPages) * 1000, MAX_PAGE_MICROSECONDS);
  const surplus = Math.max(0, microseconds - PAGE_MICROSECONDS) / 1000;
  return milliseconds - Math.min(pages * surplus, MAX_PAGE_SHARE * milliseconds);
}

/** How many times longer this machine takes, at the moment, than the one that limits are for: from 1 to 5. */
function slowness() {
  const table = new Uint32Array(TABLE_BYTE_LENGTH / 4);
  table.fill(0);
  const read = leastCost(() => readRandomly(table)) * 1e6;
  const step = leastCost(() => loop(new Uint8Array(4096))) * 1e6;
  return Math.min(MAX_SLOWNESS, Math.max(1, read / READ_NANOSECONDS, step / LOOP_NANOSECONDS));
}

/** Milliseconds that a cost would take on the machine that limits are for. Takes 128 MB: measure memory before. */
export function referenceMilliseconds(cost) {
  const { milliseconds } = cost;
  if (milliseconds < LITTLE_MILLISECONDS) return milliseconds;
  return withoutSlowPages(cost) / slowness();
}
