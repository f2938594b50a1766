// The kernel's figures of this process, for tests of leaks and of memory.
import { readdirSync, readFileSync } from 'node:fs';
import { setImmediate as yieldNow } from 'node:timers/promises';

/** A figure of /proc/self/status in bytes, such as `VmHWM` or `RssAnon`. */
export function processStatus(field) {
  const status = readFileSync('/proc/self/status', 'utf8');
  return 1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]);
}

/** The lines of /proc/self/maps. */
export function mapLines() {
  return readFileSync('/proc/self/maps', 'utf8').split('\n');
}

// With the first stream of a process libuv opens a separate descriptor: now, so that it is not
// counted as left behind later.
void process.stdout;

/** Descriptors, mappings of a file and in all, and anonymous memory in bytes. */
export function counters(path) {
  const mappings = mapLines();
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    fileMappings: mappings.filter((line) => line.endsWith(path)).length,
    mappings: mappings.length,
    anonymousBytes: processStatus('RssAnon'),
  };
}

/** Collects garbage and lets Node run the finalizers of buffers, which it does from the event loop. */
export async function collect() {
  for (let round = 0; round < 5; round++) {
    globalThis.gc();
    for (let turn = 0; turn < 5; turn++) await yieldNow();
  }
}
