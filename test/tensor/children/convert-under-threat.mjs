// Memory is taken away while threads of the pool convert. Prints how each conversion ended.
// Arguments: FILE THREAT. The file has a BF16 tensor `t`.
import { pbkdf2 } from 'node:crypto';
import { readFileSync, truncateSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { parse, safeOpen } from '../../../lib/index.js';
import { collect } from '../../support/process-memory.mjs';

const [path, threat, smallPath] = isMainThread ? process.argv.slice(2) : workerData;

/** Moves a buffer's memory away and lets it be freed. */
function drop(buffer) {
  if (typeof buffer.transfer === 'function') buffer.transfer(8);
  else structuredClone(buffer, { transfer: [buffer] });
}

/** Keeps all threads of the pool busy: a conversion begins when its memory is gone. */
function occupyPool() {
  for (let i = 0; i < 4; i++) pbkdf2('', '', 100_000, 64, 'sha512', () => {});
}

/** Calls `threaten` once threads are at work, and prints the conversion's result. */
async function outcome(file, threaten, options = {}) {
  const conversion = file.getTensor('t').toFloat32Async(options);
  const ending = conversion.then(
    (values) => values.length,
    (error) => error.code ?? error.name,
  );
  threaten();
  await collect();
  return ending;
}

const threats = {
  /** The caller's array loses its memory at once. */
  async 'into-transferred'() {
    const file = safeOpen(path);
    const into = new Float32Array(file.getTensor('t').elementCount);
    return outcome(file, () => drop(into.buffer), { into });
  },

  async 'into-shrunk'() {
    const file = safeOpen(path);
    const byteLength = file.getTensor('t').elementCount * 4;
    const buffer = new ArrayBuffer(byteLength, { maxByteLength: byteLength });
    return outcome(file, () => buffer.resize(8), { into: new Float32Array(buffer) });
  },

  /** A subclass claims once that its memory is shared, which cannot be detached. */
  async 'into-lying-getter'() {
    const file = safeOpen(path);
    const shared = new SharedArrayBuffer(8);
    let lies = 1;
    class Lying extends Float32Array {
      get buffer() {
        return lies-- > 0 ? shared : super.buffer;
      }
    }
    const buffer = new ArrayBuffer(4 * file.getTensor('t').elementCount);
    occupyPool();
    return outcome(file, () => drop(buffer), { into: new Lying(buffer) });
  },

  async 'into-lying-buffer'() {
    const file = safeOpen(path);
    const into = new Float32Array(file.getTensor('t').elementCount);
    Object.defineProperty(into.buffer, Symbol.toStringTag, { value: 'SharedArrayBuffer' });
    occupyPool();
    return outcome(file, () => drop(into.buffer), { into });
  },

  /** The caller drops its references to the tensor, then the file. */
  async 'source-transferred'() {
    const file = safeOpen(path);
    const { buffer } = file.getTensor('t');
    return outcome(file, () => {
      try {
        drop(buffer);
      } catch {
        // Some versions of Node refuse to move external memory.
      }
      file.close();
    });
  },

  async 'parsed-transferred'() {
    const bytes = new Uint8Array(readFileSync(path));
    return outcome(parse(bytes), () => drop(bytes.buffer));
  },

  async 'read-detached'() {
    const file = safeOpen(path, { storage: 'read' });
    return outcome(file, () => file.close({ detach: true }));
  },

  /** So many files are detached after it that the quarantine lets the first one go. */
  async detached() {
    const file = safeOpen(path);
    return outcome(file, () => {
      file.close({ detach: true });
      for (let i = 0; i < 4_200; i++) {
        const other = safeOpen(smallPath);
        other.getTensor('t').buffer;
        other.close({ detach: true });
      }
    });
  },

  async truncated() {
    const file = safeOpen(path);
    return outcome(file, () => truncateSync(path, 8192));
  },
};

if (!isMainThread) {
  const tensor = safeOpen(path).getTensor('t');
  let conversion = tensor.toFloat32Async();
  parentPort.postMessage('started');
  // Until it is terminated: on a busy machine one conversion can end before that.
  for (;;) {
    await conversion;
    conversion = tensor.toFloat32Async();
  }
} else if (threat === 'worker-terminated') {
  const worker = new Worker(new URL(import.meta.url), { workerData: [path] });
  await new Promise((resolve) => worker.once('message', resolve));
  console.log(JSON.stringify(await worker.terminate()));
} else if (threat === 'exit') {
  safeOpen(path).getTensor('t').toFloat32Async();
  setImmediate(() => {
    console.log('"left"');
    process.exit(0);
  });
} else {
  console.log(JSON.stringify(await threats[threat]()));
}
