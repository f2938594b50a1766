/**
 * How long turns of the event loop take, and why. Node's own measure counts all of a delay, also the time in which
 * the thread could run and the system ran something else. The kernel's account of the thread separates three parts of
 * every turn: it ran, it waited for a processor, or it slept, in a call or for a lock. The first does not
 * depend on the load of the machine. The last one does: the holder of the lock may itself wait for a processor.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';

const TICK_MS = 10;

/** Turns in which the thread sleeps for longer are counted. */
const ASLEEP_MS = 50;

/** For the main thread of a process. */
export class LoopClock {
  #delay = monitorEventLoopDelay({ resolution: TICK_MS });
  #file = openSync(`/proc/self/task/${process.pid}/schedstat`);
  #text = Buffer.alloc(64);
  #ran = [];
  #asleep = [];
  #total = 0;
  #timer;

  /** Begins a new measurement. */
  restart() {
    clearTimeout(this.#timer);
    this.#delay.reset();
    this.#delay.enable();
    [this.#ran, this.#asleep, this.#total] = [[], [], 0];
    this.#next();
  }

  /**
   * Ends it: the 99th percentile of the delay, in ms; of what ran in one turn that and the longest; the longest
   * sleep within a turn, and the share of the time that went by in sleeps above 50 ms.
   */
  stop() {
    clearTimeout(this.#timer);
    this.#delay.disable();
    const ran = this.#ran.toSorted((a, b) => a - b);
    const longSleeps = this.#asleep.filter((ms) => ms > ASLEEP_MS);
    return {
      delayP99: Math.max(0, this.#delay.percentile(99) / 1e6 - TICK_MS),
      ranP99: ran[Math.floor(ran.length * 0.99)] ?? 0,
      ranLongest: ran.at(-1) ?? 0,
      asleepLongest: Math.max(0, ...this.#asleep),
      asleepShare: longSleeps.reduce((sum, ms) => sum + ms, 0) / Math.max(1, this.#total),
    };
  }

  close() {
    clearTimeout(this.#timer);
    closeSync(this.#file);
  }

  #next() {
    const start = performance.now();
    const { ran, waited } = this.#account();
    this.#timer = setTimeout(() => {
      const now = this.#account();
      const elapsed = performance.now() - start;
      this.#total += elapsed;
      this.#ran.push(now.ran - ran);
      // The loop itself sleeps until the tick is due; turns within that time sleep less.
      this.#asleep.push(Math.max(0, elapsed - TICK_MS - (now.ran - ran) - (now.waited - waited)));
      this.#next();
    }, TICK_MS);
  }

  /** For how many ms this thread ran, and waited for a processor, ever. */
  #account() {
    const length = readSync(this.#file, this.#text, 0, this.#text.length, 0);
    const [ran, waited] = this.#text.latin1Slice(0, length).split(' ');
    return { ran: Number(ran) / 1e6, waited: Number(waited) / 1e6 };
  }
}
