/**
 * Checks for every platform and runtime, in plain JavaScript: no test runner starts everywhere. Prints a line of
 * JSON: the runtime, how files are opened, and the failures.
 *
 *     node --expose-gc test/platforms/smoke.mjs [--without-guard]
 */
import { deepStrictEqual as equal, ok, rejects, throws } from 'node:assert';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

const libraryUrl = new URL('../../lib/index.js', import.meta.url).href;
const library = await import(libraryUrl);
const { editMetadata, fromFloat32, mappingStatus, convert, safeOpen, saveFile, serialize } =
  library;

const { versions } = process;
const runtime =
  ['bun', 'deno'].flatMap((name) => (versions[name] ? [`${name} ${versions[name]}`] : []))[0] ??
  `node ${versions.node}`;
const collectGarbage = globalThis.Bun ? () => globalThis.Bun.gc(true) : globalThis.gc;
if (collectGarbage === undefined) throw new Error('start this with --expose-gc');
const isLinux = process.platform === 'linux';

const values = Float32Array.from({ length: 4096 }, (_, i) => i / 8 - 100);

/** Of the casts below, by the kernels that the tests compare with torch. */
const CAST_DIGESTS = {
  F16: '25c97b6632ff6e7f',
  BF16: '551b1abe268589f8',
  F8_E4M3: '4529dc54211f94da',
  F8_E5M2: '1d96e7d071461026',
};

/** A file of two tensors: float32 values, and all bit patterns of 16 bits. */
function makeFile(folder, name = 'model.safetensors') {
  const path = join(folder, name);
  const patterns = Uint16Array.from({ length: 65536 }, (_, i) => i);
  writeFileSync(
    path,
    serialize({
      halves: { dtype: 'F16', shape: [65536], data: patterns },
      values: { dtype: 'F32', shape: [64, 64], data: values },
    }),
  );
  return path;
}

/** The value of a small float. Infinity and NaN are those of IEEE 754. */
function decode(pattern, exponentBits, mantissaBits) {
  const bias = 2 ** (exponentBits - 1) - 1;
  const sign = pattern >> (exponentBits + mantissaBits) ? -1 : 1;
  const exponent = (pattern >> mantissaBits) & (2 ** exponentBits - 1);
  const fraction = (pattern & (2 ** mantissaBits - 1)) / 2 ** mantissaBits;
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign / 0 : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias);
  return sign * (1 + fraction) * 2 ** (exponent - bias);
}

/** Whether the numbers are the same; all NaNs count as equal. */
function equalNumbers(actual, expected) {
  equal(actual.length, expected.length);
  const wrong = actual.findIndex((value, i) => !Object.is(value, expected[i]));
  if (wrong !== -1) equal([wrong, actual[wrong]], [wrong, expected[wrong]]);
}

/** How often files of the folder are mapped. Linux alone tells. */
function mappingsOf(folder) {
  return readFileSync('/proc/self/maps', 'utf8')
    .split('\n')
    .filter((line) => line.includes(folder)).length;
}

async function collect() {
  for (let round = 0; round < 20; round++) {
    collectGarbage();
    await sleep(5);
  }
}

const checks = {
  'opens and maps'(folder) {
    const file = safeOpen(makeFile(folder), { storage: 'mmap' });
    equal(file.storage, 'mmap');
    equal(file.keys(), ['halves', 'values']);
    equal(file.getTensor('values').data, values);
    equal(file.getSlice('values', 1, [null, null, 2]).data.length, 32);
    equal(file.getTensor('values').buffer, file.getTensor('values').buffer);
    throws(() => file.getTensor('values').view(DataView), { code: 'ERR_INVALID_ARG_TYPE' });
    file.close();
    throws(() => file.getTensor('values'), { code: 'SAFETENSORS_FILE_CLOSED' });
  },

  'has buffers that V8 does not count, in Node on linux-x64 with GNU’s C library'() {
    const { buffers } = mappingStatus();
    const canBe = runtime.startsWith('node') && isLinux && process.arch === 'x64';
    const counted = !(canBe && process.report.getReport().header.glibcVersionRuntime !== undefined);
    equal(buffers?.counted, counted, buffers?.reason);
  },

  'keeps writes from the file'(folder) {
    const path = makeFile(folder);
    const before = readFileSync(path);
    const file = safeOpen(path);
    const { data } = file.getTensor('values');
    data.fill(7);
    equal([data[0], data[4095]], [7, 7]);
    ok(readFileSync(path).equals(before));
    file.close();
    equal(safeOpen(path).getTensor('values').data, values);
  },

  'keeps views after close, empties them by detach'(folder) {
    const path = makeFile(folder);
    const closed = safeOpen(path);
    const kept = closed.getTensor('values').data;
    closed.close();
    equal(kept, values);
    const detached = safeOpen(path);
    const { data, buffer } = detached.getTensor('values');
    detached.close({ detach: true });
    equal([data.length, buffer.byteLength], [0, 0]);
  },

  'converts float16 as its definition says, bit by bit'(folder) {
    const expected = new Uint32Array(
      Float32Array.from({ length: 65536 }, (_, i) => decode(i, 5, 10)).buffer,
    );
    for (let i = 0; i < 65536; i++) {
      // NaN keeps its sign and its payload, and becomes quiet.
      const isNan = (i & 0x7fff) > 0x7c00;
      if (isNan) expected[i] = ((i & 0x8000) << 16) | 0x7fc00000 | ((i & 0x3ff) << 13);
    }
    const file = safeOpen(makeFile(folder));
    const { buffer } = file.getTensor('halves').toFloat32();
    equalNumbers(new Uint32Array(buffer), expected);
    file.close();
  },

  'casts float32 to the bits that all platforms give'() {
    // Bits of all kinds, from a generator of pseudo-random numbers.
    const bits = new Uint32Array(2 ** 18 + 5);
    let state = 1;
    for (let i = 0; i < bits.length; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      // Every other one is of the size that small formats can hold.
      bits[i] = i % 2 ? state : (state & 0x87ffffff) | 0x38000000;
    }
    const digests = Object.fromEntries(
      Object.keys(CAST_DIGESTS).map((dtype) => {
        const cast = fromFloat32(new Float32Array(bits.buffer), dtype);
        const bytes = new Uint8Array(cast.buffer, cast.byteOffset, cast.byteLength);
        return [dtype, createHash('sha256').update(bytes).digest('hex').slice(0, 16)];
      }),
    );
    equal(digests, CAST_DIGESTS);
  },

  async 'converts all formats, by every kernel and length'(folder) {
    const length = 2 ** 20 + 37;
    const patterns = Uint16Array.from({ length }, (_, i) => i * 40503);
    const bytes = new Uint8Array(patterns.buffer);
    const path = join(folder, 'formats.safetensors');
    writeFileSync(
      path,
      serialize({
        f16: { dtype: 'F16', shape: [length], data: patterns },
        bf16: { dtype: 'BF16', shape: [length], data: patterns },
        e5m2: { dtype: 'F8_E5M2', shape: [bytes.length], data: bytes },
      }),
    );
    const file = safeOpen(path);
    const bits = new Uint32Array(1);
    const asFloat = new Float32Array(bits.buffer);
    const bf16 = Float32Array.from(patterns, (pattern) => {
      bits[0] = pattern << 16;
      return asFloat[0];
    });
    equalNumbers(file.getTensor('bf16').toFloat32(), bf16);
    equalNumbers(
      await file.getTensor('f16').toFloat32Async(),
      Float32Array.from(patterns, (pattern) => decode(pattern, 5, 10)),
    );
    equalNumbers(
      file.getTensor('e5m2').toFloat32(),
      Float32Array.from(bytes, (pattern) => decode(pattern, 5, 2)),
    );
    file.close();
  },

  async 'saves tensors of an open file'(folder) {
    const file = safeOpen(makeFile(folder));
    // Windows does not let a file be replaced that is mapped.
    const path = process.platform === 'win32' ? join(folder, 'saved.safetensors') : file.path;
    const tensors = {
      values: file.getTensor('values'),
      more: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
    };
    await saveFile(path, tensors, { metadata: { made: 'here' } });
    file.close({ detach: true });
    const saved = safeOpen(path);
    equal(saved.keys(), ['more', 'values']);
    equal(saved.metadata.get('made'), 'here');
    equal(saved.getTensor('values').data, values);
    saved.close({ detach: true });
    await editMetadata(path, { made: 'again' });
    const edited = safeOpen(path);
    equal(edited.metadata.get('made'), 'again');
    edited.close();
  },

  async 'reshards and casts'(folder) {
    const target = join(folder, 'split');
    await convert(makeFile(folder), target, { maxShardSize: '100kB' });
    const checkpoint = safeOpen(target);
    equal(checkpoint.shards.length, 2);
    equal(checkpoint.getTensor('values').data, values);
    checkpoint.close();
    const cast = join(folder, 'cast');
    await convert(target, cast, { dtype: 'BF16' });
    const halves = safeOpen(cast);
    equal(halves.getTensor('values').dtype, 'BF16');
    ok(halves.getTensor('values').toFloat32()[8] === values[8]);
    halves.close();
  },

  async 'works in a worker, which posts a buffer here'(folder) {
    makeFile(folder);
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { folder } });
    const data = await new Promise((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    equal(new Float32Array(data), values);
    await worker.terminate();
    equal(new Float32Array(data), values);
  },

  async 'prefetches and loads'(folder) {
    const file = safeOpen(makeFile(folder));
    await file.prefetch();
    equal(file.getTensor('values').data[1], values[1]);
    await file.readTensors();
    equal(file.getTensor('values').data[1], values[1]);
    file.close();
  },

  async 'notices another file, and a missing one'(folder) {
    const path = makeFile(folder);
    await rejects(saveFile(join(folder, 'none/model.safetensors'), {}), { code: 'ENOENT' });
    throws(() => safeOpen(join(folder, 'none')), { code: 'ENOENT' });
    const file = safeOpen(path, { storage: 'read' });
    if (process.platform === 'win32') return file.close();
    truncateSync(path, 1000);
    throws(() => file.getTensor('values').data, { code: 'SAFETENSORS_FILE_CHANGED' });
    file.close();
  },

  'opens long and Unicode paths'(folder) {
    const deep = join(folder, 'ü-模型-🙂', 'd'.repeat(100), 'e'.repeat(100));
    mkdirSync(deep, { recursive: true });
    const file = safeOpen(makeFile(deep, 'ünï模型.safetensors'));
    equal(file.getTensor('values').data, values);
    file.close();
  },
};

// An emulator can end at the fault itself.
if (isLinux && !process.argv.includes('--without-guard')) {
  checks['reads zeros where a mapped file was cut short'] = (folder) => {
    const path = makeFile(folder);
    const file = safeOpen(path);
    const { data } = file.getTensor('values');
    truncateSync(path, 4096);
    equal(data[4000], 0);
    throws(() => file.getTensor('values'), { code: 'SAFETENSORS_FILE_CHANGED' });
    file.close();
  };
}

if (isLinux) {
  checks['leaves no mapping of 1 000 files that were opened and dropped'] = async (folder) => {
    const paths = Array.from({ length: 10 }, (_, i) => makeFile(folder, `${i}.safetensors`));
    // A function of its own: the asynchronous one would keep its last file.
    const openSome = () => {
      for (let i = 0; i < 100; i++) {
        const file = safeOpen(paths[i % 10]);
        equal(file.getTensor('values').data[8], values[8]);
        if (i % 2) file.close();
      }
    };
    for (let round = 0; round < 10; round++) {
      openSome();
      await sleep(1);
    }
    await collect();
    // Bun takes what lies on the stack for references.
    const allowed = versions.bun === undefined ? 0 : 20;
    ok(mappingsOf(folder) <= allowed, `${mappingsOf(folder)} mappings are left`);
  };
}

if (process.platform === 'win32') {
  const { windowsChecks } = await import('./windows.mjs');
  Object.assign(checks, windowsChecks(library, libraryUrl));
}

async function run() {
  const status = mappingStatus();
  const failed = {};
  for (const [name, check] of Object.entries(checks)) {
    const folder = mkdtempSync(join(tmpdir(), 'safetensors-smoke-'));
    try {
      await check(folder);
    } catch (error) {
      failed[name] = String(error?.stack ?? error).slice(0, 1500);
    }
    try {
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    } catch {
      // Windows keeps files that are still mapped.
    }
  }
  const report = {
    runtime,
    platform: `${process.platform}-${process.arch}`,
    available: status.available,
    ...(status.available
      ? { buffers: status.buffers.counted ? 'counted' : 'uncounted' }
      : { reason: status.reason }),
    checks: Object.keys(checks).length,
    failed,
  };
  console.log(JSON.stringify(report));
  if (Object.keys(failed).length > 0) process.exitCode = 1;
}

if (isMainThread) {
  await run();
} else {
  const file = safeOpen(join(workerData.folder, 'model.safetensors'));
  const { buffer } = file.getTensor('values');
  // Only buffers that V8 does not count can be moved; others are copied.
  const { buffers } = mappingStatus();
  parentPort.postMessage(buffer, buffers?.counted === false ? [buffer] : []);
  parentPort.on('message', () => {});
}
