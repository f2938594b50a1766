/** `join` of several sources. */
import { copyFileSync, existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadFile, safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { writeTensors } from '../../support/write-tensors.js';
import { call, printed } from '../call.js';

function write(name: string, tensors: Record<string, number>, metadata = {}): string {
  const path = temporaryPath(name);
  const entries = Object.entries(tensors).map(
    ([key, value]) => [key, { dtype: 'U8', shape: [1], data: Uint8Array.of(value) }] as const,
  );
  writeTensors(path, new Map(entries), { metadata });
  return path;
}

const three = (): [string, string, string] => [
  write('a.safetensors', { x: 1, y: 2 }, { format: 'pt', who: 'a' }),
  write('b.safetensors', { z: 3, y: 4 }, { who: 'b', why: 'b' }),
  write('c.safetensors', { w: 5 }),
];

const SEED = process.env['SAFETENSORS_SEED'];

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
    const metadata = Object.fromEntries(safeOpen(target).metadata ?? []);
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

it('rejects some shards of a model without the others', async () => {
  const folder = dirname(write('other.safetensors', { x: 1 }));
  const shards = [1, 2, 3].map((number) => {
    const path = join(folder, `model-0000${number}-of-00003.safetensors`);
    const data = Uint8Array.of(number);
    writeTensors(path, new Map([[`t${number}`, { dtype: 'U8', shape: [1], data }]]));
    return path;
  }) as [string, string, string];
  const target = temporaryPath('all.safetensors');
  for (const some of [
    [shards[0], shards[2]],
    [shards[2], join(folder, 'other.safetensors')],
  ]) {
    const { code, stderr } = await call(['join', ...(some as string[]), '-o', target]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('SAFETENSORS_MISSING_SHARDS')]);
    expect(existsSync(target)).toBe(false);
  }
  expect((await call(['join', shards[0], shards[2], '-o', target])).stderr).toContain(
    'expected 3 shards, found 2, without "model-00002-of-00003.safetensors"; ' +
      'pass all shards of a model, or its folder',
  );
  await printed(['join', ...shards, '-o', target]);
  expect(values(target)).toEqual({ t1: 1, t2: 2, t3: 3 });
  // In several folders, and with another path of the same folder.
  const moved = join(mkdtempSync(`${folder}-`), basename(shards[2]));
  copyFileSync(shards[2], moved);
  const spellings = [`${folder}/./${basename(shards[0])}`, shards[1], moved];
  await printed(['join', ...spellings, '-o', target, '--force']);
  expect(values(target)).toEqual({ t1: 1, t2: 2, t3: 3 });
  // Two models of which one lacks a shard.
  const { code } = await call(['join', ...shards, moved, '-o', target, '--duplicates', 'first']);
  expect(code).toBe(1);
});

it('into a folder, of other formats, too', async () => {
  const torch = join(root, 'test/fixtures/torch/zip-state-dict.pt');
  const folder = temporaryPath('folder');
  await printed(['join', write('a.safetensors', { x: 1 }), torch, '-o', folder]);
  expect(readdirSync(folder)).toEqual(['model.safetensors']);
  using checkpoint = safeOpen(folder);
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

/** Sources with tensors of one byte, and aliases of tensors in their metadata. */
const randomSources = fc.array(
  fc
    .record({
      names: fc.uniqueArray(fc.constantFrom<string>('a', 'b', 'm.a', 'm.b', 'c'), { minLength: 1 }),
      aliases: fc.dictionary(fc.constantFrom('a', 'b', 'x', 'y'), fc.nat(4), { maxKeys: 2 }),
      key: fc.option(fc.constantFrom('1', '2')),
      count: fc.option(fc.nat(9)),
    })
    .map(({ names, aliases, key, count }) => ({
      names,
      aliases: Object.entries(aliases)
        .filter(([alias]) => !names.includes(alias))
        .map(([alias, i]) => [alias, names[i % names.length] as string] as const),
      plain: {
        ...(key === null ? {} : { key }),
        ...(count === null ? {} : { total_parameters: String(count) }),
      },
    })),
  { minLength: 2, maxLength: 3 },
);

type RandomSource = typeof randomSources extends fc.Arbitrary<(infer Value)[]> ? Value : never;

const RENAMES: Record<string, (name: string) => string> = {
  none: (name) => name,
  'm.*=>*': (name) => name.replace(/^m\./, ''),
  'a=>q': (name) => (name === 'a' ? 'q' : name),
};

/** All names that a source has after the choice, with their values; undefined if two tensors get one name. */
function namesOf(
  { names, aliases }: RandomSource,
  place: number,
  excluded: string,
  rename: (name: string) => string,
): Map<string, number> | undefined {
  const values = new Map<string, number>();
  for (const [i, name] of names.entries()) {
    if (name === excluded) continue;
    if (values.has(rename(name))) return undefined;
    values.set(rename(name), place * 10 + i);
  }
  for (const [alias, name] of aliases) {
    const value = name === excluded ? undefined : place * 10 + names.indexOf(name);
    if (value !== undefined && !values.has(rename(alias))) values.set(rename(alias), value);
  }
  return values;
}

describe('random sources', () => {
  it('every name of every source leads to its tensor, or the command fails', async () => {
    const choice = fc.record({
      rule: fc.constantFrom('error', 'first', 'last'),
      rename: fc.constantFrom(...Object.keys(RENAMES)),
      excluded: fc.constantFrom('nothing', 'a', 'm.b'),
      isFile: fc.boolean(),
    });
    let place = 0;
    await fc.assert(
      fc.asyncProperty(
        randomSources,
        choice,
        async (sources, { rule, rename, excluded, isFile }) => {
          const paths = sources.map(({ names, aliases, plain }, i) => {
            const tensors = Object.fromEntries(names.map((name, j) => [name, i * 10 + j]));
            return write(`s${place}-${i}.safetensors`, tensors, {
              ...plain,
              ...Object.fromEntries(aliases),
            });
          });
          const target = temporaryPath(`t${place++}${isFile ? '.safetensors' : ''}`);
          const options = ['--duplicates', rule, '--exclude', excluded];
          if (rename !== 'none') options.push('--rename', rename);
          const { code, stdout, stderr } = await call([
            ...['join', ...paths, '-o', target],
            ...[...options, '--json'],
          ]);
          const each = sources.map((source, i) =>
            namesOf(source, i, excluded, RENAMES[rename] as (name: string) => string),
          );
          const counts = new Map<string, number>();
          const wanted = new Map<string, number>();
          for (const [name, value] of each.flatMap((values) => [...(values ?? [])])) {
            counts.set(name, (counts.get(name) ?? 0) + 1);
            if (rule !== 'first' || !wanted.has(name)) wanted.set(name, value);
          }
          const duplicates = [...counts].filter(([, count]) => count > 1).map(([name]) => name);
          const isFailing =
            each.includes(undefined) ||
            wanted.size === 0 ||
            (rule === 'error' && duplicates.length > 0);
          expect([code, stderr]).toEqual([isFailing ? 1 : 0, isFailing ? expect.anything() : '']);
          expect(existsSync(target)).toBe(!isFailing);
          if (isFailing) return;
          const result = JSON.parse(stdout);
          expect([...(result.duplicates ?? [])].sort()).toEqual(duplicates.sort());
          expect(result.excluded.length).toBe(
            sources.filter(({ names }) => names.includes(excluded)).length,
          );
          using checkpoint = safeOpen(target);
          for (const [name, value] of wanted)
            expect(checkpoint.getTensor(name).bytes[0]).toBe(value);
          for (const name of checkpoint.keys()) expect(wanted.has(name)).toBe(true);
          // Of a key with several values the first is written, and the key is listed.
          const keys = sources.flatMap(({ plain }) => plain.key ?? []);
          expect(checkpoint.metadata?.get('key')).toBe(keys[0]);
          expect(result.conflicts ?? []).toEqual(new Set(keys).size > 1 ? ['key'] : []);
        },
      ),
      { numRuns: 40, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
    );
  });
});

describe('a source with', () => {
  it.each([
    [
      'a tensor that safetensors cannot hold',
      'zip-sparse-csr.pt',
      'SAFETENSORS_UNSUPPORTED_TENSOR',
    ],
    ['a wrong checksum', 'zip-x-crc-storage.pt', 'SAFETENSORS_CHECKSUM_MISMATCH'],
  ])('%s fails, as with convert', async (_, name, code) => {
    const torch = join(root, 'test/fixtures/torch', name);
    const target = temporaryPath('all.safetensors');
    const joined = await call(['join', write('a.safetensors', { x: 1 }), torch, '-o', target]);
    const converted = await call(['convert', torch, target]);
    for (const one of [joined, converted]) {
      expect([one.code, one.stderr]).toEqual([1, expect.stringContaining(code)]);
    }
    expect(existsSync(target)).toBe(false);
  });

  it('tied tensors has all their names, next to metadata of other sources', async () => {
    const torch = join(root, 'test/fixtures/torch/zip-tied.pt');
    const target = temporaryPath('all.safetensors');
    const a = write('a.safetensors', { x: 1 }, { note: 'mine' });
    const { dropped } = JSON.parse(await printed(['join', a, torch, '-o', target, '--json']));
    expect(dropped).toEqual({ 'embed.weight': 'lm_head.weight' });
    using checkpoint = safeOpen(target);
    const both = ['embed.weight', 'lm_head.weight'].map((name) => checkpoint.getTensor(name).bytes);
    expect(both[0]).toEqual(both[1]);
    expect(checkpoint.metadata?.get('note')).toBe('mine');
  });

  it('hashes of its bytes does not pass them on', async () => {
    const a = write('a.safetensors', { x: 1 }, { 'modelspec.hash_sha256': `0x${'ab'.repeat(32)}` });
    const target = temporaryPath('all.safetensors');
    await printed(['join', a, write('b.safetensors', { y: 2 }), '-o', target]);
    expect((await call(['verify', target])).code).toBe(0);
  });

  it('`total_parameters` adds to those of the others, if all are known', async () => {
    const a = write('a.safetensors', { x: 1 }, { total_parameters: '1' });
    const b = write('b.safetensors', { y: 2 }, { total_parameters: '2' });
    const target = temporaryPath('all.safetensors');
    await printed(['join', a, b, '-o', target]);
    expect(safeOpen(target).metadata?.get('total_parameters')).toBe('3');
    await printed(['join', a, b, write('c.safetensors', { z: 1 }), '-o', target, '--force']);
    expect(safeOpen(target).metadata?.get('total_parameters')).toBeUndefined();
  });
});

it('missing folders are made', async () => {
  const [a, , c] = three();
  const target = temporaryPath('missing');
  await printed(['join', a, c, '-o', join(target, 'folder', 'x.safetensors')]);
  expect(readdirSync(join(target, 'folder'))).toEqual(['x.safetensors']);
});
