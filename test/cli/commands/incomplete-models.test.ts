/** Files that are not a model: `inspect` names them, all other commands reject them. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openForInspection } from '../../../src/cli/sources/open-source.js';
import { FileServer } from '../../remote/download/file-server.js';
import type { Checkpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { call, printed } from '../call.js';

const FIXTURES = join(import.meta.dirname, '../../fixtures');
const PARTS = join(FIXTURES, 'dcp/dcp-hf-two-ranks/ckpt');
const [PART_0, PART_1] = [1, 2].map((number) =>
  join(PARTS, `shard-0000${number}-model-00001-of-00001.safetensors`),
) as [string, string];
const VERSION = join(FIXTURES, 'deltas/delta-xor-xxh3/stream/weight_v000001');
const PATCH = join(FIXTURES, 'deltas/trl-gap-delta/deltas/step_000001.safetensors');

const SOURCES: readonly (readonly [name: string, path: string, code: string])[] = [
  ['first rank', PART_0, 'SAFETENSORS_DISTRIBUTED_PART'],
  ['second rank', PART_1, 'SAFETENSORS_DISTRIBUTED_PART'],
  ['delta with its index', VERSION, 'SAFETENSORS_DELTA'],
  ['file of a delta', join(VERSION, 'model-00000-of-00002.safetensors'), 'SAFETENSORS_DELTA'],
  ['sparse patch', PATCH, 'SAFETENSORS_DELTA'],
];

/** All commands that open a model, but for `inspect`. */
function commandsOn(source: string): readonly (readonly string[])[] {
  const target = temporaryPath('target');
  return [
    ['convert', source, target],
    ['convert', source, target, '--dtype', 'F32'],
    ['split', source, target],
    ['join', source, '-o', `${target}.safetensors`],
    ['join', source, source, '-o', `${target}.safetensors`, '--duplicates', 'first'],
    ['join', PART_0, source, '-o', target, '--duplicates', 'last'],
    ['diff', source, source],
    ['show', source, 'rows'],
    ['verify', source],
    ['hash', source],
    ['header', source],
    ['metadata', 'get', source],
    ['metadata', 'modelspec', 'show', source],
    ['serve', source, '--port', '0'],
  ];
}

describe.each(SOURCES)('%s', (_, source, code) => {
  it.each(
    commandsOn(source).map((args) => [
      args[0] as string,
      args.filter((one) => one.startsWith('-')).join(' '),
      args,
    ]),
  )('%s %s', async (_command, _rest, args) => {
    const { code: exitCode, stdout, stderr } = await call(args);
    expect(exitCode).toBe(1);
    // Of two sources, the first is named.
    expect(stdout + stderr).toContain(args[1] === PART_0 ? 'SAFETENSORS_DISTRIBUTED_PART' : code);
    expect(existsSync(temporaryPath('target'))).toBe(false);
    expect(existsSync(temporaryPath('target.safetensors'))).toBe(false);
  });
});

/** The same parts under names of another format, whose pieces do not show their places. */
function partsByName(): { readonly folder: string; readonly names: readonly string[] } {
  const folder = temporaryPath('ranks');
  mkdirSync(folder);
  const names = [PART_0, PART_1].map((path, rank) => {
    const name = `model-rank-${rank}-part-0.safetensors`;
    cpSync(path, join(folder, name));
    return name;
  });
  return { folder, names };
}

describe('a folder with the parts of all ranks is a model', () => {
  it.each([
    ['diff', PARTS, join(PARTS, '../expected.safetensors'), '--values'],
    ['convert', PARTS, 'TARGET', '--dtype', 'F32'],
    ['split', PARTS, 'TARGET'],
    ['join', PARTS, '-o', 'TARGET.safetensors'],
    ['show', PARTS, 'rows'],
    ['stats', PARTS],
    ['verify', PARTS, '--values'],
    ['metadata', 'get', PARTS],
  ])('%s', async (...args) => {
    const target = temporaryPath('target');
    const { code, stderr } = await call(args.map((arg) => arg.replace('TARGET', target)));
    expect([code, stderr]).toEqual([0, '']);
  });

  it('hash hashes each file', async () => {
    const result = JSON.parse(await printed(['hash', PARTS, '--json']));
    const names = result.files.map(({ name }: { name: string }) => name);
    expect(names).toEqual([PART_0, PART_1].map((path) => basename(path)));
  });

  it('inspect shows ranks and pieces', async () => {
    const text = await printed(['inspect', PARTS]);
    expect(text).toContain('format       dcp, 2 files, 1.70 kB');
    const found = 'distributed  2 ranks, 11 pieces; completeness unknown (ranks 1 to 2 found)';
    expect(text).toContain(found);
    const result = JSON.parse(await printed(['inspect', PARTS, '--json']));
    expect(result.distribution).toEqual({ ranks: 2, pieces: 11, isComplete: null, objects: [] });
  });

  it('convert and verify warn of unknown completeness', async () => {
    const warning = 'warning: completeness unknown (ranks 1 to 2 found)';
    const [one, two] = [temporaryPath('one.safetensors'), temporaryPath('two.safetensors')];
    expect(await printed(['convert', PARTS, one])).toContain(warning);
    expect(await printed(['verify', PARTS])).toContain(warning);
    for (const args of [
      ['convert', PARTS, two],
      ['verify', PARTS],
    ]) {
      const { ranksFound } = JSON.parse(await printed([...args, '--json']));
      expect(ranksFound).toBe(2);
    }
    const listed = join(FIXTURES, 'dcp/dcp-single/ckpt');
    expect(await printed(['verify', listed])).not.toContain('completeness');
    expect(JSON.parse(await printed(['verify', listed, '--json']))).not.toHaveProperty(
      'ranksFound',
    );
  });

  it('the parts of other formats are rejected', async () => {
    const { folder } = partsByName();
    const { code, stdout } = await call(['verify', folder]);
    expect([code, stdout]).toEqual([1, expect.stringContaining('SAFETENSORS_DISTRIBUTED_PART')]);
  });
});

describe('on a server', () => {
  let server: FileServer;
  beforeEach(async () => {
    server = await FileServer.start();
    const ofVersion = readdirSync(VERSION).map((name) => join(VERSION, name));
    for (const path of [PART_0, PART_1, PATCH, ...ofVersion]) {
      server.files.set(basename(path), { bytes: readFileSync(path), tag: '"1"' });
    }
  });
  afterEach(async () => {
    await server.close();
  });

  it.each([
    [basename(PART_0), 'SAFETENSORS_DISTRIBUTED_PART', 'part of a distributed checkpoint (rank 0)'],
    [basename(PART_1), 'SAFETENSORS_DISTRIBUTED_PART', 'part of a distributed checkpoint (rank 1)'],
    [basename(PATCH), 'SAFETENSORS_DELTA', 'delta (gap_delta)'],
    ['model.safetensors.index.json', 'SAFETENSORS_DELTA', 'delta (xor)'],
  ])('%s', async (name, code, kind) => {
    const url = server.url(name);
    const target = temporaryPath('target');
    for (const args of [
      ['diff', url, url],
      ['show', url, 'rows'],
      ['verify', url],
      ['hash', url],
      ['header', url],
      ['download', url, target, '--filter', '*'],
      ['download', url, target, '--dtype', 'F32'],
    ]) {
      const { code: exitCode, stdout, stderr } = await call(args);
      expect([args, exitCode, stdout + stderr]).toEqual([args, 1, expect.stringContaining(code)]);
    }
    expect(existsSync(target)).toBe(false);
    expect(JSON.parse(await printed(['inspect', url, '--json']))).toMatchObject({ kind });
  });
});

function isClosed(part: Checkpoint): boolean {
  try {
    part.getTensor('rows').data;
    return false;
  } catch (error) {
    expect(error).toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
    return true;
  }
}

describe('inspect', () => {
  it.each([
    [PART_0, 'part of a distributed checkpoint (rank 0)', 5],
    [PART_1, 'part of a distributed checkpoint (rank 1)', 6],
    [VERSION, 'delta (xor)', 5],
    [join(VERSION, 'model-00000-of-00002.safetensors'), 'delta (compressed changes)', 3],
    [PATCH, 'delta (gap_delta)', 6],
  ])('%s', async (path, kind, tensorCount) => {
    expect(await printed(['inspect', path])).toContain(`\nkind        ${kind}\nformat      `);
    const result = JSON.parse(await printed(['inspect', path, '--json']));
    expect(result).toMatchObject({ kind, format: 'safetensors', tensorCount });
    expect(result.tensors).toHaveLength(tensorCount);
  });

  it('lists all parts of a folder', async () => {
    const { folder, names } = partsByName();
    const result = JSON.parse(await printed(['inspect', folder, '--json']));
    expect(result.kind).toBe('parts of a distributed checkpoint');
    expect(Object.entries(result.components)).toEqual(
      names.map((name, rank) => {
        const kind = `part of a distributed checkpoint (rank ${rank})`;
        return [name, expect.objectContaining({ kind })];
      }),
    );
    const text = await printed(['inspect', folder]);
    expect(text).toContain('kind        parts of a distributed checkpoint');
    expect(text).toContain('format      safetensors, 2 files, 1.70 kB');
    expect(text).toContain('kind        part of a distributed checkpoint (rank 1)');
  });

  it('lists the other parts of a folder with damaged ones', async () => {
    const { folder, names } = partsByName();
    const [damaged = '', other] = names;
    rmSync(join(folder, damaged));
    writeFileSync(join(folder, damaged), 'x');
    const { code, stdout } = await call(['inspect', folder, '--json']);
    expect(code).toBe(1);
    const { components, failed } = JSON.parse(stdout);
    expect(Object.keys(components)).toEqual([other]);
    expect(Object.keys(failed)).toEqual([damaged]);
    expect(failed[damaged].code).toMatch(/^SAFETENSORS_/);
  });

  it('opens the parts of a folder one after another', async () => {
    const { folder, names } = partsByName();
    const { signal } = new AbortController();
    const opened = await openForInspection(folder, { signal, storage: 'read' });
    if (!('parts' in opened)) throw new Error('found no parts');
    const seen = new Map<string, Checkpoint>();
    for (const [name, part] of opened.parts) {
      expect(part.keys()).toContain('rows');
      for (const one of seen.values()) expect(isClosed(one)).toBe(true);
      expect(isClosed(part)).toBe(false);
      seen.set(name, part);
    }
    expect([...seen.keys()]).toEqual(names);
    expect([...seen.values()].every(isClosed)).toBe(true);
  });

  it('names a renamed part by its siblings', async () => {
    const folder = temporaryPath('renamed');
    cpSync(PARTS, folder, { recursive: true });
    const renamed = join(folder, 'a.safetensors');
    cpSync(PART_0, renamed);
    const result = JSON.parse(await printed(['inspect', renamed, '--json']));
    expect(result).toMatchObject({ kind: 'part of a distributed checkpoint', tensorCount: 5 });
  });

  it('of a model', async () => {
    const path = join(FIXTURES, 'dcp/dcp-hf-one-rank-offsets-zero/ckpt');
    expect(JSON.parse(await printed(['inspect', path, '--json']))).toMatchObject({ kind: 'model' });
    expect(await printed(['inspect', path])).not.toContain('kind');
  });
});
