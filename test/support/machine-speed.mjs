/**
 * How fast the machine is at this moment. Limits in seconds hold for one machine; another one, or the same one when its
 * host gives the processor to others, takes longer for everything. A fixed piece of work tells how much longer.
 */
import process from 'node:process';

/** Milliseconds of the fixed work on the machine of the limits, alone on it, with pages that its host has given. */
const YARDSTICK_MILLISECONDS = 150;

const ENTRY_COUNT = 50_000;
/** The allocator asks the kernel for as many bytes each time. Pages take long where the host must give them first. */
const BYTE_LENGTH = 2 ** 26;
const ROUNDS = 2;

/** Milliseconds of processor time of this process so far. */
function worked() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Does what costly files make the library do: reads bytes, keeps names, fills memory that the process never had. */
function work() {
  const bytes = Buffer.allocUnsafeSlow(BYTE_LENGTH).fill(1);
  const names = new Map();
  for (let i = 0; i < ENTRY_COUNT; i++) names.set(`name.${i}`, { at: i, shape: [i] });
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 4) sum = (sum + bytes[i] + i) | 0;
  return sum + names.size;
}

/**
 * How many times longer this machine takes now than the one of the limits, at least 1. Takes half a second and
 * some 100 MB: measure memory before.
 */
export function slowness() {
  let least = Infinity;
  for (let i = 0; i < ROUNDS; i++) {
    const began = worked();
    work();
    least = Math.min(least, worked() - began);
  }
  return Math.max(1, least / YARDSTICK_MILLISECONDS);
}
