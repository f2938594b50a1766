import process from 'node:process';
import { expect, test } from 'vitest';
import { nightly } from '../../support/nightly.js';
import { measureInChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/accounting.mjs';

/** The environment in which buffers are counted, whatever this Node can do. */
const COUNTED = { SAFETENSORS_MMAP_COUNTED_BUFFERS: '1' };

/** A piece of work: full collections during it, and the engine's figures after it, in MB. */
interface Measured {
  majors: number;
  milliseconds: number;
  heap: number;
  external: number;
}

/** Live objects, in MB: more make each collection longer, and cause no other ones. */
const LIVE_HEAP = nightly(200, 20);

async function measure(scenario: string): Promise<Measured> {
  const args = [scenario, String(LIVE_HEAP)];
  const measured = await measureInChild<Measured>(CHILD, args, { env: COUNTED });
  const { majors, milliseconds, heap } = measured;
  const figures = `${majors} full collections, ${milliseconds} ms, ${heap} MB of live objects`;
  process.stdout.write(`${scenario}: ${figures}\n`);
  return measured;
}

test('1 000 buffers of 20 MB cost at most two full collections', async () => {
  const without = await measure('none');
  const { majors } = await measure('one');
  expect(majors).toBeLessThanOrEqual(without.majors + 2);
});

test('one buffer over each of 163 mappings of 5 GB costs at most ten', async () => {
  expect((await measure('many')).majors).toBeLessThanOrEqual(10);
});

test('opening and dropping a file n times costs O(log n) full collections', async () => {
  // 20 times: six reserves of 20, 20, 40, 80, 160 and 320 GB; each may cost a second collection.
  expect((await measure('cycles')).majors).toBeLessThanOrEqual(6 + 6);
});

test('one small buffer over a large file costs neither a collection nor a reserve', async () => {
  const { majors, external } = await measure('small');
  expect(majors).toBe(0);
  expect(external).toBeLessThan(100);
});
