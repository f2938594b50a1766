/** Memory that only this process has; pages of mapped files are not among it. */
import { readFileSync } from 'node:fs';

export function privateBytes() {
  try {
    const status = readFileSync('/proc/self/status', 'utf8');
    return 1024 * Number(/^RssAnon:\s+(\d+)/m.exec(status)[1]);
  } catch {
    // Only Linux tells it apart.
    return process.memoryUsage.rss();
  }
}

/** Runs something, and tells how much private memory it took and kept. */
export async function withMemory(title, byteLength, run) {
  const before = privateBytes();
  const result = await run();
  const grown = Math.max(0, privateBytes() - before);
  const [kept, all] = [grown, byteLength].map((bytes) => Math.round(bytes / 1e6));
  console.log(`${title}: ${kept} MB of private memory for ${all} MB of weights`);
  return result;
}
