/** `join` of several sources. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadFile, openCheckpoint, saveFileSync } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { call, printed } from '../call.js';

function write(name: string, tensors: Record<string, number>, metadata = {}): string {
  const path = temporaryPath(name);
  const entries = Object.entries(tensors).map(
    ([key, value]) => [key, { dtype: 'U8', shape: [1], data: Uint8Array.of(value) }] as const,
  );
  saveFileSync(path, new Map(entries), { metadata });
  return path;
}

const three = (): [string, string, string] => [
  write('a.safetensors', { x: 1, y: 2 }, { format: 'pt', who: 'a' }),
  write('b.safetensors', { z: 3, y: 4 }, { who: 'b', why: 'b' }),
  write('c.safetensors', { w: 5 }),
];

const values = (path: string): Record<string, number> =>
  Object.fromEntries(Array.from(loadFile(path), ([name, { bytes }]) => [name, bytes[0] as number]));

describe('into a file', () => {
  it.each([
    ['first', 2],
    ['last', 4],
  ])('of a name in several sources it takes the %s', async (rule, y) => {
    const target = temporaryPath('all.safetensors');
    const args = ['join', ...three(), '-o', target, '--duplicates', rule, '--json'];
    const plan = JSON.parse(await printed([...args, '--dry-run']));
    expect(existsSync(target)).toBe(false);
    expect(JSON.parse(await printed(args))).toEqual({ ...plan, dryRun: false, overflowed: {} });
    expect(plan).toMatchObject({ files: ['all.safetensors'], index: null, byteLength: 4 });
    expect(values(target)).toEqual({ x: 1, y, z: 3, w: 5 });
    const metadata = Object.fromEntries(openCheckpoint(target).metadata ?? []);
    expect(metadata).toEqual({ format: 'pt', who: 'a', why: 'b' });
  });

  it('it refuses such a name by default, and says where it is', async () => {
    const [a, b, c] = three();
    const target = temporaryPath('all.safetensors');
    const { code, stderr } = await call(['join', a, b, c, '-o', target]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`"y" is in ${a} and in ${b}`)]);
    expect(existsSync(target)).toBe(false);
  });

  it('it renames and leaves out before it compares names', async () => {
    const target = temporaryPath('all.safetensors');
    const choice = ['--exclude', 'x', '--rename', 'y=>b.y'];
    const [a, b, c] = three();
    expect((await call(['join', a, b, c, '-o', target, ...choice])).code).toBe(1);
    await printed(['join', a, c, '-o', target, ...choice]);
    expect(values(target)).toEqual({ 'b.y': 2, w: 5 });
    const none = await call(['join', a, c, '-o', target, '--filter', 'nothing']);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('no name matches')]);
  });
});

it('into a folder, of other formats, too', async () => {
  const torch = join(root, 'test/fixtures/torch/zip-state-dict.pt');
  const folder = temporaryPath('folder');
  await printed(['join', write('a.safetensors', { x: 1 }), torch, '-o', folder]);
  expect(readdirSync(folder)).toEqual(['model.safetensors']);
  using checkpoint = openCheckpoint(folder);
  expect(checkpoint.keys()).toContain('l1.weight');
  expect(checkpoint.keys()).toContain('x');
});

it.each([
  [['--dtype', 'F32'], '--dtype is for one source'],
  [['--copy-other-files'], '--copy-other-files is for one source'],
  [['--duplicates', 'some'], '--duplicates'],
])('%j is wrong use', async (options, message) => {
  const [a, , c] = three();
  const { code, stderr } = await call([
    'join',
    a,
    c,
    '-o',
    temporaryPath('d.safetensors'),
    ...options,
  ]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});
