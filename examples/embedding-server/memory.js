/** What this process needs for itself, and how much of its files is in memory just now. */
import { readFileSync } from 'node:fs';

/** `privateBytes` is what counts: pages of a file are shared, and the system takes them back when it needs memory. */
export function memory() {
  try {
    const status = readFileSync('/proc/self/status', 'utf8');
    const bytesOf = (field) =>
      1024 * Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)[1]);
    return { privateBytes: bytesOf('RssAnon'), fileBytes: bytesOf('RssFile') };
  } catch {
    // Only Linux tells the two apart.
    return { privateBytes: process.memoryUsage.rss(), fileBytes: 0 };
  }
}

export function megabytes(bytes) {
  return `${Math.round(bytes / 1e6)} MB`;
}
