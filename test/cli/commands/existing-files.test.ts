/** Random commands into random folders: what is lost was allowed or is the source's, and everything is listed. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pathOf } from '../../merge/fixtures.js';
import { loadFile } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { call, printed } from '../call.js';

const SINGLE = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
const WEIGHTS = [
  SINGLE,
  'model-00001-of-00002.safetensors',
  'model-00002-of-00002.safetensors',
  'model-00001-of-00003.safetensors',
  'model-00002-of-00003.safetensors',
  'model-00003-of-00003.safetensors',
  'model.fp16.safetensors',
  'other.safetensors',
  'x.safetensors',
];
const OTHERS = ['pytorch_model.bin', 'config.json', 'tokenizer.json', 'notes.txt'];

/** Bytes of a file with one tensor, named after the file. */
function weights(name: string): Uint8Array {
  return fileBytes([{ name, dtype: 'U8', shape: [8], bytes: new Uint8Array(8).fill(name.length) }]);
}

/** A folder: names of its files, and the shards of its index, if it has one. */
const folders = fc.record({
  names: fc.uniqueArray(fc.constantFrom(...WEIGHTS, ...OTHERS)),
  shards: fc.option(fc.uniqueArray(fc.constantFrom(...WEIGHTS.slice(0, 6)), { minLength: 1 })),
});

type Folder = typeof folders extends fc.Arbitrary<infer Value> ? Value : never;

function contentsIn({ names, shards }: Folder): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  for (const name of names) {
    files.set(name, WEIGHTS.includes(name) ? weights(name) : Buffer.from(`{"mine":"${name}"}`));
  }
  if (shards !== null) {
    const map = Object.fromEntries(shards.map((shard) => [shard, shard]));
    files.set(INDEX, Buffer.from(JSON.stringify({ metadata: {}, weight_map: map })));
  }
  return files;
}

function filesOf(folder: string): Map<string, string> {
  return new Map(
    readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'latin1')]),
  );
}

/** All shards of a checkpoint without an index, which is the model of a folder without its single file. */
function unindexedIn({ names, shards }: Folder): readonly string[] {
  const numbered = names.filter((name) => name.includes('-of-'));
  const [first = ''] = numbered;
  const isComplete =
    numbered.every((name) => name.slice(-20) === first.slice(-20)) &&
    numbered.length === Number(first.slice(-17, -12));
  return shards === null && !names.includes(SINGLE) && isComplete ? numbered : [];
}

/** The files that a reader of the folder takes: an index with all its shards, else the single file, else all shards. */
function ownOf(folder: Folder): readonly string[] | undefined {
  const { names, shards } = folder;
  if (shards?.every((shard) => names.includes(shard))) return [INDEX, ...shards];
  if (names.includes(SINGLE)) return [SINGLE];
  const unindexed = unindexedIn(folder);
  return unindexed.length > 0 ? unindexed : undefined;
}

/** The rule, once more: names of files that a folder loses to new ones. */
function lostIn(folder: Folder, written: readonly string[], own: readonly string[]): string[] {
  const indexed = folder.shards === null ? [] : [INDEX, ...folder.shards];
  const old = [SINGLE, ...indexed, ...unindexedIn(folder)];
  const lost = written.includes(SINGLE) || written.includes(INDEX) ? [...written, ...old] : written;
  const there = new Set(contentsIn(folder).keys());
  return [...new Set(lost)].filter((name) => there.has(name) && !own.includes(name)).sort();
}

const isWeights = (name: string): boolean => name.includes('.safetensors');

const commands = fc.record({
  command: fc.constantFrom('convert', 'split', 'join', 'join-several'),
  source: fc.constantFrom('file', 'shards', 'target', 'other'),
  isFile: fc.boolean(),
  size: fc.constantFrom('8B', '16B', '1GB'),
  isCopying: fc.boolean(),
});

type Chosen = typeof commands extends fc.Arbitrary<infer Value> ? Value : never;

/** Writes two sources: a file, and a folder with three shards and a config. */
function makeSources(): Readonly<Record<'file' | 'shards', string>> {
  const file = temporaryPath('source.safetensors');
  writeFileSync(file, weights('from a file'));
  const shards = temporaryPath('source');
  mkdirSync(shards);
  const names = WEIGHTS.slice(3, 6);
  for (const name of names) writeFileSync(join(shards, name), weights(`new ${name}`));
  const map = Object.fromEntries(names.map((name) => [`new ${name}`, name]));
  writeFileSync(join(shards, INDEX), JSON.stringify({ metadata: {}, weight_map: map }));
  writeFileSync(join(shards, 'config.json'), '{"new":1}');
  return { file, shards };
}

/** The arguments of a command, the names that its source has in the target's folder, and the target. */
function argumentsOf(
  { command, source, isFile, size, isCopying }: Chosen,
  folder: string,
  before: Folder,
  sources: Readonly<Record<'file' | 'shards', string>>,
): { args: string[]; own: readonly string[]; target: string } | undefined {
  const toFile = isFile && command !== 'split';
  const target = toFile ? join(folder, 'x.safetensors') : folder;
  const own =
    source === 'target'
      ? ownOf(before)
      : source === 'other'
        ? before.names.filter((name) => name === 'other.safetensors')
        : [];
  if (own === undefined || (source === 'other' && own.length === 0)) return undefined;
  const path =
    source === 'target'
      ? folder
      : source === 'other'
        ? join(folder, 'other.safetensors')
        : sources[source];
  const [name] = command.split('-') as [string];
  const more =
    command === 'join-several' ? [source === 'file' ? sources.shards : sources.file] : [];
  const output = name === 'join' ? ['-o', target] : [target];
  const args = [name, path, ...more, ...output, '--json'];
  if (name !== 'join' && !toFile) args.push('--max-shard-size', size);
  const isCopied = isCopying && !toFile && command !== 'join-several';
  if (isCopied) args.push('--copy-other-files');
  return {
    args,
    own: isCopied && source !== 'file' && source !== 'shards' ? [...own] : own,
    target,
  };
}

const SEED = process.env['SAFETENSORS_SEED'];

describe('files of a target', () => {
  it('are lost as the rule allows, and listed with their sizes', async () => {
    const sources = makeSources();
    const folder = temporaryPath('target');
    await fc.assert(
      fc.asyncProperty(folders, commands, async (before, chosen) => {
        rmSync(folder, { recursive: true, force: true });
        mkdirSync(folder);
        for (const [name, bytes] of contentsIn(before)) writeFileSync(join(folder, name), bytes);
        const given = argumentsOf(chosen, folder, before, sources);
        fc.pre(given !== undefined);
        const { args, own, target } = given as NonNullable<typeof given>;
        const old = filesOf(folder);

        const planned = await call([...args, '--dry-run']);
        expect([planned.code, planned.stderr]).toEqual([0, '']);
        expect(filesOf(folder)).toEqual(old);
        const { needsForce = false, ...plan } = JSON.parse(planned.stdout);
        const written = [
          ...plan.files,
          ...plan.copied,
          ...(plan.index === null ? [] : [plan.index]),
        ];
        const lost = lostIn(before, written, own);
        const listed = plan.replaced.map(({ name }: { name: string }) => name);
        // Files of one of several sources are listed, but need no --force: no tensor is lost.
        const isOneOfMany = chosen.command === 'join-several';
        expect(listed).toEqual(isOneOfMany ? lostIn(before, written, []) : lost);

        const stopped = lost.filter(isWeights);
        expect(needsForce).toBe(stopped.length > 0);
        const first = await call(args);
        expect([first.code, first.stderr]).toEqual([
          stopped.length > 0 ? 1 : 0,
          stopped.length > 0 ? expect.stringContaining('SAFETENSORS_TARGET_EXISTS') : '',
        ]);
        if (stopped.length > 0) {
          const { message } = JSON.parse(first.stderr);
          for (const name of stopped) expect(message).toContain(`"${name}" (`);
          expect(filesOf(folder)).toEqual(old);
        }
        const done = JSON.parse(
          (stopped.length > 0 ? await call([...args, '--force']) : first).stdout,
        );
        expect({ ...done, overflowed: null }).toEqual({ ...plan, dryRun: false });
        const now = filesOf(folder);
        for (const [name, bytes] of old) {
          if ((own.includes(name) && !isOneOfMany) || now.get(name) === bytes) continue;
          expect(done.replaced).toContainEqual({ name, byteLength: bytes.length });
        }
        const opened = target === folder ? folder : join(dirname(target), basename(target));
        expect(loadFile(opened).size).toBeGreaterThan(0);
        // Nothing but the result and old files is there.
        const strays = [...now.keys()].filter((name) => !old.has(name) && !written.includes(name));
        expect(strays).toEqual([]);
      }),
      { numRuns: 20, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
    );
  });
});

/** Writes a file of these tensors, each with one byte; returns its path. */
function writeTensors(path: string, tensors: Record<string, number>): string {
  mkdirSync(dirname(path), { recursive: true });
  const entries = Object.entries(tensors).map(([name, value]) => {
    return { name, dtype: 'U8', shape: [1], bytes: Uint8Array.of(value) } as const;
  });
  writeFileSync(path, fileBytes(entries));
  return path;
}

describe('a preview', () => {
  const needed = 'warning: the target already holds weights; pass --force to replace them';

  /** A folder with a pipeline of one model. */
  function makePipeline(value: number): string {
    const folder = temporaryPath('pipeline');
    writeTensors(join(folder, 'unet/diffusion_pytorch_model.safetensors'), { a: value });
    const parts = { _class_name: 'P', unet: ['diffusers', 'U'] };
    writeFileSync(join(folder, 'model_index.json'), JSON.stringify(parts));
    return folder;
  }

  it.each(['file', 'folder', 'pipeline', 'models', 'adapter'])(
    'asks for --force where the command does: %s',
    async (kind) => {
      const source =
        kind === 'pipeline'
          ? makePipeline(1)
          : writeTensors(temporaryPath('new.safetensors'), { a: 1 });
      const target = kind === 'file' ? temporaryPath('old.safetensors') : temporaryPath('old');
      const method = ['--method', 'linear', '--weight', '1'];
      const adapted = ['merge', pathOf('peft-linear-f32', 'base')];
      const adapter = ['--adapter', pathOf('peft-linear-f32', 'adapter')];
      const merges: Readonly<Record<string, string[]>> = {
        models: ['merge', floats('a'), ...method, '-o', target],
        adapter: [...adapted, ...adapter, '-o', target],
      };
      const args = merges[kind] ?? ['convert', source, target];
      expect(await printed([...args, '--dry-run'])).not.toContain('--force');
      await printed(args);
      if (kind === 'models') args[1] = floats('b');
      if (kind === 'pipeline') args[1] = makePipeline(2);
      const { code, stderr } = await call(args);
      expect([code, stderr]).toEqual([1, expect.stringContaining('pass --force to replace them')]);
      expect((await printed([...args, '--dry-run'])).trimEnd().split('\n').at(-1)).toBe(needed);
      expect(JSON.parse(await printed([...args, '--dry-run', '--json']))).toMatchObject({
        needsForce: true,
      });
      const forced = await printed([...args, '--dry-run', '--force', '--json']);
      expect(JSON.parse(forced)).not.toHaveProperty('needsForce');
      await printed([...args, '--force']);
    },
  );

  /** A file with a float that can be merged. */
  function floats(name: string): string {
    const path = temporaryPath(`${name}.safetensors`);
    const entry = { name: 'w', dtype: 'F32', shape: [1], bytes: new Uint8Array(4) } as const;
    writeFileSync(path, fileBytes([entry]));
    return path;
  }
});

describe('a source that is the target', () => {
  const targets = ['file', 'folder'] as const;

  /** A target with the tensors `a` and `b`, and the name of its file. */
  function makeTarget(kind: (typeof targets)[number]): { target: string; file: string } {
    const target = temporaryPath(kind === 'file' ? 'e.safetensors' : 'e');
    const file = writeTensors(kind === 'file' ? target : join(target, SINGLE), { a: 1, b: 2 });
    return { target, file };
  }

  const commandsOf = (target: string): Record<string, string[]> => ({
    convert: ['convert', target, target],
    split: ['split', target, target],
    join: ['join', target, '-o', target],
  });

  it.each(
    targets.flatMap((kind) =>
      ['convert', 'split', 'join']
        .filter((command) => command !== 'split' || kind === 'folder')
        .map((command) => [kind, command] as const),
    ),
  )('and loses tensors is listed: a %s, by %s', async (kind, command) => {
    const { target, file } = makeTarget(kind);
    const args = commandsOf(target)[command] as string[];
    // All tensors are kept.
    expect(JSON.parse(await printed([...args, '--json']))).toMatchObject({ replaced: [] });
    const kept = readFileSync(file);
    const replaced = [{ name: basename(file), byteLength: kept.length }];
    args.push('--filter', 'a');
    const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
    expect(plan).toMatchObject({ replaced, excluded: ['b'] });
    expect(await printed([...args, '--dry-run'])).toContain(`would replace: ${basename(file)} (`);
    expect(readFileSync(file)).toEqual(kept);
    expect(await printed(args)).toContain(`replaced: ${basename(file)} (`);
    expect([...loadFile(target).keys()]).toEqual(['a']);
  });

  it.each(targets)('and one of several, and loses tensors, stops join into a %s', async (kind) => {
    const other = writeTensors(temporaryPath('other.safetensors'), { a: 3 });
    for (const [sources, choice] of [
      ['other-target', ['--duplicates', 'first']],
      ['target-other', ['--duplicates', 'last']],
      ['target-other', ['--duplicates', 'first', '--exclude', 'b']],
    ] as const) {
      const { target, file } = makeTarget(kind);
      const old = readFileSync(file);
      const paths = sources === 'other-target' ? [other, target] : [target, other];
      const args = ['join', ...paths, '-o', target, ...choice];
      const replaced = [{ name: basename(file), byteLength: old.length }];
      const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
      expect(plan).toMatchObject({ replaced });
      const stopped = await call(args);
      expect(stopped.code).toBe(1);
      expect(stopped.stderr).toContain(`"${basename(file)}" (${old.length} B)`);
      expect(readFileSync(file)).toEqual(old);
      expect(await printed([...args, '--force'])).toContain(`replaced: ${basename(file)} (`);
      expect(loadFile(target).get('a')?.bytes).toEqual(
        Uint8Array.of(choice[1] === 'first' && sources === 'target-other' ? 1 : 3),
      );
    }
  });

  it.each(targets)('and one of several is listed where all is kept: a %s', async (kind) => {
    const other = writeTensors(temporaryPath('other.safetensors'), { a: 3, c: 4 });
    const { target, file } = makeTarget(kind);
    const args = ['join', target, other, '-o', target, '--duplicates', 'first'];
    expect(await printed(args)).toContain(`replaced: ${basename(file)} (`);
    expect([...loadFile(target).keys()].sort()).toEqual(['a', 'b', 'c']);
  });
});
