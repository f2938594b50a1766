/** Kills a process and its children when it takes too long or too much memory. */
import { execFileSync } from 'node:child_process';
import process from 'node:process';

const LIMIT_BYTES = 4 * 2 ** 30;

/** Processes that were started by one, itself included: [pid, bytes of memory]. */
function familyOf(root) {
  const listed = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,rss='], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  const family = new Map();
  const add = (pid, kilobytes) => {
    family.set(pid, kilobytes * 1024);
    for (const [child, parent, size] of listed) {
      if (parent === pid && !family.has(child)) add(child, size);
    }
  };
  const self = listed.find(([pid]) => pid === root);
  if (self !== undefined) add(root, self[2]);
  return family;
}

/**
 * Ends a process as soon as `isLate` says so or its memory is beyond the limit. `pidOf` gives undefined until the process
 * is there. Returns a function that ends the watch and gives why the process was ended, if it was.
 */
export function guard(pidOf, isLate, limitBytes = LIMIT_BYTES) {
  let reason;
  const timer = setInterval(() => {
    const pid = pidOf();
    if (pid === undefined || reason !== undefined) return;
    const family = familyOf(pid);
    const bytes = [...family.values()].reduce((sum, size) => sum + size, 0);
    if (bytes > limitBytes) reason = 'memory limit';
    else if (isLate()) reason = 'time limit';
    else return;
    for (const member of family.keys()) {
      try {
        process.kill(member, 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    }
  }, 500);
  return () => {
    clearInterval(timer);
    return reason;
  };
}
