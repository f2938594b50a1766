import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { mappingStatus } from '../../support/api.js';
import { type ChildOptions, measureInChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/uncounted-buffers.mjs';
const UNCOUNTED: ChildOptions = { env: { SAFETENSORS_MMAP_COUNTED_BUFFERS: '' } };
const COUNTED: ChildOptions = { env: { SAFETENSORS_MMAP_COUNTED_BUFFERS: '1' } };

/** Node with these versions makes buffers that are not counted. */
const LISTED: Readonly<Record<string, string>> = { 20: '11.3', 22: '12.4', 24: '13.6', 26: '14.6' };

const { versions } = process;
const isListed =
  process.platform === 'linux' &&
  process.arch === 'x64' &&
  versions.v8.startsWith(`${LISTED[Number.parseInt(versions.node, 10)]}.`);

/** The package's report on buffers in a process with other versions and settings. */
async function statusWith(changes: object, options: ChildOptions = UNCOUNTED): Promise<unknown> {
  const args = [JSON.stringify(changes)];
  return measureInChild('platform/addon/children/buffer-counting.mjs', args, options);
}

describe.runIf(isListed)('on a Node where this was tried', () => {
  test('buffers are not counted, unless the environment says so', async () => {
    expect(await statusWith({})).toEqual({ counted: false });
    expect(await statusWith({}, COUNTED)).toEqual({
      counted: true,
      reason: 'the environment sets SAFETENSORS_MMAP_COUNTED_BUFFERS',
    });
  });

  test.each([
    [{ versions: { bun: '1.4.5' } }, /not Node/],
    [{ versions: { deno: '2.9.6' } }, /not Node/],
    [{ versions: { electron: '40.0.0' } }, /not Node/],
    [{ release: { name: 'nsolid' } }, /not Node/],
    [{ versions: { modules: '149', v8: '15.0.245.9' } }, /not tried with Node .* V8 15\.0\.245/],
    [{ versions: { modules: '113' } }, /not tried/],
    [{ versions: { v8: '11.30.1' } }, /not tried with Node .* V8 11\.30\.1/],
    [{ variables: { node_shared: true } }, /node_shared = true/],
    [{ variables: { v8_enable_sandbox: 1 } }, /v8_enable_sandbox = 1/],
    [{ variables: { v8_enable_pointer_compression: 1 } }, /v8_enable_pointer_compression = 1/],
    [{ variables: { asan: 1 } }, /asan = 1/],
    [{ variables: { v8_enable_sandbox: null } }, /v8_enable_sandbox = undefined/],
    [{ addresses: 5e8 }, /too few addresses/],
  ])('they are counted with %j', async (changes, reason) => {
    const counting = await statusWith(changes);
    expect(counting).toEqual({ counted: true, reason: expect.stringMatching(reason) });
  });

  test.each([
    ['small', '1 000 buffers of 20 MB'],
    ['large', '894 buffers of 134 MB'],
  ])('%s: %s cost no collection, and `external` stays', async (scenario) => {
    const seen = await measureInChild<Record<string, number>>(CHILD, [scenario], UNCOUNTED);
    process.stdout.write(`${scenario}: ${JSON.stringify(seen)}\n`);
    expect(seen).toMatchObject({ majors: 0, external: 0 });
  });

  test.each(['transfer()', 'structuredClone', 'worker'])(
    'a buffer that is moved by %s keeps its bytes, and the mapping while it lives',
    async (way) => {
      // Node 20 has no transfer().
      if (way === 'transfer()' && !('transfer' in ArrayBuffer.prototype)) return;
      const seen = await measureInChild(CHILD, ['moved', way], UNCOUNTED);
      expect(seen).toEqual({ before: 7, left: 0, mapped: 1, read: 7, after: 0 });
    },
  );

  test('a moved buffer keeps its addresses when all others are emptied', async () => {
    const seen = await measureInChild(CHILD, ['moved-and-detached'], UNCOUNTED);
    expect(seen).toEqual({ lengths: [0, 0], held: 64, read: 0, after: 0 });
  });

  test('marked buffers do not end the process or a worker', async () => {
    expect(await measureInChild(CHILD, ['marked'], UNCOUNTED)).toEqual([0, 0]);
  });

  test('buffers of terminated workers leave no mapping; moved ones keep their bytes', async () => {
    expect(await measureInChild(CHILD, ['workers'], UNCOUNTED)).toEqual({ mapped: 0, wrong: 0 });
  });

  test('buffers are as long as the counted ones can be', async () => {
    const uncounted = await measureInChild<unknown[]>(CHILD, ['limit'], UNCOUNTED);
    expect(uncounted[0]).toEqual([0, 7]);
    expect(uncounted).toEqual(await measureInChild(CHILD, ['limit'], COUNTED));
  });

  test('heap snapshots, clones and serializers take them', async () => {
    expect(await measureInChild(CHILD, ['others'], UNCOUNTED)).toEqual([7, 7, 7, 7, 7]);
  });
});

test.runIf(!isListed)('on any other runtime buffers are counted', () => {
  expect(mappingStatus()).toMatchObject({ buffers: { counted: true } });
});
