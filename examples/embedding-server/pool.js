/** Worker threads: a job goes to the one with the fewest; a thread that dies is replaced. */
import { Worker } from 'node:worker_threads';

const PROGRAM = new URL('worker.js', import.meta.url);

/** What a thread answered instead of a result. */
export class JobError extends Error {
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}

export class Pool {
  #path;
  #threads = new Set();
  #closing = false;
  #lastId = 0;
  /** The table as the newest thread has it. */
  table;

  /** Resolves when every thread has the file open. */
  static async start(path, size) {
    const pool = new Pool();
    pool.#path = path;
    try {
      await Promise.all(Array.from({ length: size }, () => pool.#add()));
    } catch (error) {
      await pool.close();
      throw error;
    }
    return pool;
  }

  #add() {
    const worker = new Worker(PROGRAM, { workerData: { path: this.#path } });
    const thread = { worker, jobs: new Map() };
    return new Promise((resolve, reject) => {
      worker.on('message', ({ ready, id, answer, error }) => {
        if (ready) {
          this.table = ready;
          this.#threads.add(thread);
          resolve();
          return;
        }
        const job = thread.jobs.get(id);
        thread.jobs.delete(id);
        if (error) job.reject(new JobError(error));
        else job.resolve(answer);
      });
      worker.on('error', (error) => {
        for (const job of thread.jobs.values()) job.reject(error);
        thread.jobs.clear();
        reject(error);
      });
      worker.on('exit', () => {
        const wasReady = this.#threads.delete(thread);
        for (const job of thread.jobs.values()) job.reject(new Error('the thread ended'));
        reject(new Error('the thread ended before it was ready'));
        if (!wasReady || this.#closing) return;
        console.error('a thread ended; it is replaced');
        this.#add().catch((error) => console.error(`no new thread: ${error.message}`));
      });
    });
  }

  /** Jobs that have no answer yet. */
  get pending() {
    let sum = 0;
    for (const { jobs } of this.#threads) sum += jobs.size;
    return sum;
  }

  run(job, input) {
    let best;
    for (const thread of this.#threads) {
      if (best === undefined || thread.jobs.size < best.jobs.size) best = thread;
    }
    if (best === undefined) return Promise.reject(new Error('no thread is left'));
    return this.#send(best, job, input);
  }

  #send({ worker, jobs }, job, input) {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      jobs.set(id, { resolve, reject });
      worker.postMessage({ id, job, input });
    });
  }

  /** Every thread opens the file again; answers of the old one may come until this resolves. */
  async reload() {
    const threads = [...this.#threads];
    const tables = await Promise.all(threads.map((thread) => this.#send(thread, 'reload')));
    if (tables.length > 0) this.table = tables[0];
  }

  async close() {
    this.#closing = true;
    await Promise.all(Array.from(this.#threads, ({ worker }) => worker.terminate()));
  }
}
