/** Random commands into random folders: what is lost was allowed or is the source's, and everything is listed. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadCheckpoint } from '../../../src/index.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { call } from '../call.js';

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

/** The files that a reader of the folder takes: an index with all its shards, else the single file. */
function ownOf({ names, shards }: Folder): readonly string[] | undefined {
  if (shards?.every((shard) => names.includes(shard))) return [INDEX, ...shards];
  return names.includes(SINGLE) ? [SINGLE] : undefined;
}

/** The rule, once more: names of files that a folder loses to new ones. */
function lostIn(folder: Folder, written: readonly string[], own: readonly string[]): string[] {
  const old = [SINGLE, ...(folder.shards === null ? [] : [INDEX, ...folder.shards])];
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
        const plan = JSON.parse(planned.stdout);
        const written = [
          ...plan.files,
          ...plan.copied,
          ...(plan.index === null ? [] : [plan.index]),
        ];
        const lost = lostIn(before, written, own);
        const listed = plan.replaced.map(({ name }: { name: string }) => name);
        expect(listed).toEqual(lost);

        const stopped = lost.filter(isWeights);
        const first = await call(args);
        expect([first.code, first.stderr]).toEqual([
          stopped.length > 0 ? 1 : 0,
          stopped.length > 0 ? expect.stringContaining('SAFETENSORS_TARGET_EXISTS') : '',
        ]);
        if (stopped.length > 0) {
          for (const name of stopped) expect(first.stderr).toContain(`"${name}" (`);
          expect(filesOf(folder)).toEqual(old);
        }
        const done = JSON.parse(
          (stopped.length > 0 ? await call([...args, '--force']) : first).stdout,
        );
        expect({ ...done, overflowed: null }).toEqual({ ...plan, dryRun: false });
        const now = filesOf(folder);
        for (const [name, bytes] of old) {
          if (own.includes(name) || now.get(name) === bytes) continue;
          expect(done.replaced).toContainEqual({ name, byteLength: bytes.length });
        }
        const opened = target === folder ? folder : join(dirname(target), basename(target));
        expect(loadCheckpoint(opened).size).toBeGreaterThan(0);
        // Nothing but the result and old files is there.
        const strays = [...now.keys()].filter((name) => !old.has(name) && !written.includes(name));
        expect(strays).toEqual([]);
      }),
      { numRuns: 20, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
    );
  });
});
