// What the kernel says about this process, for tests of leaks.
import { readdirSync, readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';

/** Descriptors, mappings of a file and in all, and anonymous memory in bytes. */
export function counters(path) {
  const status = readFileSync('/proc/self/status', 'utf8');
  const mappings = readFileSync('/proc/self/maps', 'utf8').split('\n');
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    fileMappings: mappings.filter((line) => line.endsWith(path)).length,
    mappings: mappings.length,
    anonymousBytes: 1024 * Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1]),
  };
}

/** Collects garbage until finalizers, which run in later turns of the event loop, have settled. */
export async function settle() {
  for (let i = 0; i < 6; i++) {
    globalThis.gc();
    await setImmediate();
  }
}
