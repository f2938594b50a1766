// Detaches mappings whose addresses are still in use. node --expose-gc detach.mjs <scenario>

import { randomFill } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import {
  addon,
  collect,
  folder,
  makeFile,
  mapLines,
  mapPath,
  processStatus,
  report,
} from './support.mjs';

const MB = 1 << 20;
const GB = 1 << 30;

function mappedFiles() {
  return mapLines().filter((line) => line.includes(folder)).length;
}

function detachOne(path, byteLength) {
  const mapping = mapPath(path, byteLength);
  const buffer = addon.tensorBuffer(mapping, 0, 100);
  addon.detach(mapping, [buffer]);
}

/** Size of the address space of this process beyond that at the first call, in bytes. */
function addresses() {
  const now = processStatus('VmSize');
  addresses.start ??= now;
  return now - addresses.start;
}

const scenarios = {
  async views() {
    const path = join(folder, 'a');
    writeFileSync(path, new Uint8Array(MB).fill(7));
    const descriptors = readdirSync('/proc/self/fd').length;
    const mapping = mapPath(path, MB);
    const buffers = [addon.tensorBuffer(mapping, 0, 100), addon.tensorBuffer(mapping, 33, 100)];
    const view = new Float32Array(buffers[0]);
    const before = view[1];
    addon.detach(mapping, buffers);
    addon.detach(mapping, []);
    addon.release(mapping);
    report({
      before,
      lengths: [buffers[0].byteLength, buffers[1].byteLength, view.length],
      element: String(view[1]),
      files: mappedFiles(),
      descriptors: readdirSync('/proc/self/fd').length - descriptors,
    });
  },
  async transferred() {
    const path = join(folder, 'a');
    writeFileSync(path, new Uint8Array(MB).fill(7));
    const mapping = mapPath(path, MB);
    const buffer = addon.tensorBuffer(mapping, 1, MB - 1);
    const moved = new Uint8Array(buffer.transfer());
    const before = moved[MB - 2];
    addon.detach(mapping, [buffer]);
    const after = moved.reduce((sum, byte) => sum + byte, 0);
    moved.fill(3);
    await collect();
    report({ before, after, written: moved[5], files: mappedFiles() });
  },
  async 'in-flight'() {
    const path = makeFile('a', 64 * MB);
    const deflate = promisify(zlib.deflate);
    const mapping = mapPath(path, 64 * MB);
    const buffers = Array.from({ length: 4 }, (_, i) =>
      addon.tensorBuffer(mapping, i * 16 * MB, 16 * MB),
    );
    // One chunk for all of the output: zlib must not return to JavaScript for more input.
    const work = buffers
      .slice(0, 2)
      .map((buffer) => deflate(new Uint8Array(buffer), { level: 9, chunkSize: 16 * MB }));
    work.push(promisify(randomFill)(new Uint8Array(buffers[2])));
    const file = await open(join(folder, 'copy'), 'w');
    work.push(file.write(new Uint8Array(buffers[3])));
    addon.detach(mapping, buffers);
    const settled = await Promise.allSettled(work);
    await file.close();
    await collect();
    report(settled.map(({ status }) => status));
  },
  async 'never-used'() {
    addresses();
    const mapping = mapPath(makeFile('a', 64 * GB), 64 * GB);
    const mapped = mappedFiles();
    const grown = addresses() >= 64 * GB;
    addon.detach(mapping, []);
    report({ mapped, grown, files: mappedFiles(), freed: addresses() < GB });
  },
  async 'eviction-by-count'() {
    const large = makeFile('large', 64 * GB);
    const small = makeFile('small', 10 * MB);
    await collect();
    addresses();
    detachOne(large, 64 * GB);
    for (let i = 0; i < 4095; i++) detachOne(small, 10 * MB);
    await collect();
    const full = addresses();
    detachOne(small, 10 * MB);
    await collect();
    const evicted = addresses();
    for (let i = 0; i < 2000; i++) detachOne(small, 10 * MB);
    await collect();
    report([full, evicted, addresses()].map((bytes) => Math.round(bytes / GB)));
  },
  async 'eviction-by-size'() {
    const path = makeFile('a', 300 * GB);
    await collect();
    addresses();
    const sizes = [];
    for (let i = 0; i < 6; i++) {
      detachOne(path, 300 * GB);
      await collect();
      sizes.push(Math.round(addresses() / GB));
    }
    report(sizes);
  },
  async 'evicted-while-held'() {
    const large = makeFile('large', 64 * GB);
    const small = makeFile('small', 4096);
    await collect();
    addresses();
    const mapping = mapPath(large, 64 * GB);
    const buffer = addon.tensorBuffer(mapping, 0, MB);
    let held = [new Uint8Array(buffer.transfer())];
    addon.detach(mapping, [buffer]);
    for (let i = 0; i < 5000; i++) detachOne(small, 4096);
    await collect();
    const whileHeld = Math.round(addresses() / GB);
    const read = held[0][MB - 1];
    held = [];
    await collect();
    report({ whileHeld, read, after: Math.round(addresses() / GB) });
  },
};

await scenarios[process.argv[2]]();
