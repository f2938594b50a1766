/**
 * Processor time without what new pages of memory cost more than they should. On a virtual machine whose host has to
 * find each page first, a page that a process touches for the first time costs over ten microseconds; what takes 0.9 s
 * elsewhere takes 2.5 s there. The pages are counted, and what one costs is measured during the work.
 */
import { Buffer } from 'node:buffer';
import process from 'node:process';

/** What a page may cost, in microseconds: this much of its time still counts. */
const MAX_PAGE_MICROSECONDS = 0.5;

/** The allocator asks the kernel for as many bytes each time. */
const BYTE_LENGTH = 2 ** 26;
const ROUNDS = 3;

/** Milliseconds of processor time of this process so far, and the pages that it has touched for the first time. */
function usage() {
  const { userCPUTime, systemCPUTime, minorPageFault } = process.resourceUsage();
  return { milliseconds: (userCPUTime + systemCPUTime) / 1000, pages: minorPageFault };
}

/** Begins to measure; the function that it returns tells what has been spent since. */
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

/** Milliseconds that so many pages cost above what they may, at this moment. Takes 64 MB: measure memory before. */
export function surplusOf(pages) {
  let least = Infinity;
  for (let i = 0; i < ROUNDS; i++) {
    const filled = measured(() => Buffer.allocUnsafeSlow(BYTE_LENGTH).fill(1));
    least = Math.min(least, (filled.milliseconds * 1000) / Math.max(1, filled.pages));
  }
  return (pages * Math.max(0, least - MAX_PAGE_MICROSECONDS)) / 1000;
}
