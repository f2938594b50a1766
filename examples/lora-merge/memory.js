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
