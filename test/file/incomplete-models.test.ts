/** Files that are not a model: every way to open them throws, by code. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FileServer } from '../remote/download/file-server.js';
import {
  convert,
  download,
  editMetadata,
  loadFile,
  open,
  openRemote,
  parse,
  parseSafetensorsMetadata,
  safeOpen,
  safeOpenAsync,
  verify,
} from '../support/api.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';
import { Random } from '../support/random.js';
import { type Case, deltaCase, distributedCase } from './incomplete-models.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const COUNT = 80;

const FIXTURES = join(import.meta.dirname, '../fixtures');

/** The code of an error; undefined without an error. */
async function codeOf(work: () => unknown): Promise<unknown> {
  try {
    const opened = await work();
    if (typeof Object(opened).close === 'function') (opened as { close(): void }).close();
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? error;
  }
}

/** Every way to open a path. Targets are in a temporary folder. */
const OF_PATHS: Readonly<Record<string, (path: string) => unknown>> = {
  safeOpen,
  safeOpenAsync,
  loadFile,
  reshard: (path) => convert(path, temporaryPath('resharded')),
  convert: (path) => convert(path, temporaryPath('converted')),
  parseSafetensorsMetadata: (source) => parseSafetensorsMetadata({ source }),
};

/** The same for a file that is not an index. */
const OF_FILES: typeof OF_PATHS = {
  safeOpen: (path) => safeOpen(path),
  safeOpenAsync: (path) => safeOpenAsync(path),
  loadFile: (path) => loadFile(path),
  'storage: read': (path) => safeOpen(path, { storage: 'read' }),
  editMetadata: (path) => editMetadata(path, { DCP_SHARDING_INFO: null, format: null }),
};

function write({ files }: Case): string {
  const folder = temporaryPath('case');
  mkdirSync(folder, { recursive: true });
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  return folder;
}

async function codesOf(work: typeof OF_PATHS, path: string): Promise<Record<string, unknown>> {
  const codes: Record<string, unknown> = {};
  for (const [name, open] of Object.entries(work)) codes[name] = await codeOf(() => open(path));
  return codes;
}

const all = (work: object, code: unknown): object =>
  Object.fromEntries(Object.keys(work).map((name) => [name, code]));

describe.each([
  ['parts', distributedCase],
  ['deltas', deltaCase],
] as const)('random %s', (_, make) => {
  for (let number = 0; number < COUNT; number++) {
    const made = make(new Random(SEED, number));
    const { about, files, name, code, isInHeader, isInName = files.size === 1 } = made;
    const isIndex = name.endsWith('.json');
    it(`seed ${SEED}, number ${number}: ${about}, ${code ?? 'a model'}`, async () => {
      const path = join(write(made), name);
      expect(await codesOf(OF_PATHS, path)).toEqual(all(OF_PATHS, code));
      if (!isIndex) expect(await codesOf(OF_FILES, path)).toEqual(all(OF_FILES, code));
      const { problems } = await verify(path);
      expect(problems.map((problem) => problem.code)).toEqual(code === undefined ? [] : [code]);
    });

    it(`seed ${SEED}, number ${number}: ${about}, remote`, async () => {
      const blobs = [...files].map(
        ([at, bytes]) => [at, new Blob([bytes as Uint8Array<ArrayBuffer>])] as const,
      );
      const bytes = files.get(name) as Uint8Array<ArrayBuffer>;
      // A Map has one model: with siblings only a usual name is chosen.
      const isChosen = isIndex || files.size === 1 || name === 'model.safetensors';
      if (isChosen) {
        const local = await codeOf(() => open(write(made), { remote: false }));
        expect(await codeOf(() => openRemote(new Map(blobs)))).toBe(local);
        if (local !== 'SAFETENSORS_MISSING_SHARDS') expect(local).toBe(code);
      }
      if (isIndex) return;
      const expected = isInHeader ? code : undefined;
      expect(await codeOf(() => parse(bytes))).toBe(expected);
      expect(await codeOf(() => openRemote(new Blob([bytes])))).toBe(expected);
      const named = new File([bytes], name);
      expect(await codeOf(() => openRemote(named))).toBe(isInHeader || isInName ? code : undefined);
    });
  }
});

describe('a part of a distributed checkpoint', () => {
  const folder = join(FIXTURES, 'dcp/dcp-hf-two-ranks/ckpt');
  const part = (rank: number): string =>
    join(folder, `shard-0000${rank + 1}-model-00001-of-00001.safetensors`);

  it('is named in the error, with its rank and the sign', () => {
    expect(() => safeOpen(part(0))).toThrow(
      `${part(0)}: the file is part of a distributed checkpoint (rank 0), not a model ` +
        `("shard-00001-model-00001-of-00001.safetensors" is the name of a rank's file); ` +
        'open() in Node reads a folder with the files of all ranks',
    );
    expect(() => safeOpen(part(1))).toThrow('(rank 1), not a model ("rows" begins at [4, 0]);');
  });

  it('of a folder, all are named', () => {
    expect(() => safeOpen(folder)).toThrow(
      `${folder}: the folder contains parts of a distributed checkpoint, not a model ` +
        '("shard-00001-model-00001-of-00001.safetensors", "shard-00002-model-00001-of-00001.safetensors");',
    );
  });

  it('has foundFormat', () => {
    expect(() => safeOpen(part(1))).toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_DISTRIBUTED_PART',
        foundFormat: 'distributed-part',
      }),
    );
  });

  it('is recognised by its metadata when it is opened by a descriptor', async () => {
    const handle = await openFile(part(1));
    try {
      expect(await codeOf(() => safeOpen(handle))).toBe('SAFETENSORS_DISTRIBUTED_PART');
    } finally {
      await handle.close();
    }
  });

  it('a complete checkpoint with the same metadata is a model', () => {
    const complete = join(FIXTURES, 'dcp/dcp-hf-one-rank-offsets-zero/ckpt');
    const checkpoint = safeOpen(complete);
    expect(checkpoint.keys()).toEqual(['norm', 'rows']);
    expect(safeOpen(join(complete, checkpoint.shards[0] as string)).size).toBe(2);
    checkpoint.close();
  });

  it('a file with the name of a part that an index lists is a model', () => {
    const name = 'shard-00001-model-00001-of-00001.safetensors';
    const bytes = fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }]);
    const index = new TextEncoder().encode(JSON.stringify({ weight_map: { a: name } }));
    const files = new Map([
      [name, bytes],
      ['model.safetensors.index.json', index],
    ]);
    const made = { about: '', files, name, code: undefined, isInHeader: false };
    expect(safeOpen(join(write(made), name)).size).toBe(1);
  });

  const files = (names: readonly string[], tensor = (_: string): string => 'a'): string =>
    write({
      about: '',
      files: new Map(
        names.map((name) => [name, fileBytes([{ name: tensor(name), dtype: 'U8', shape: [1] }])]),
      ),
      name: '',
      code: undefined,
      isInHeader: false,
    });

  it.each([
    [['rank0.safetensors', 'rank1.safetensors', 'rank2.safetensors']],
    [['model-tp-00-of-02.safetensors', 'model-tp-01-of-02.safetensors']],
    [['model-tp-00-of-02.safetensors']],
  ])('is recognised by its name: %j', async (names) => {
    const made = files(names);
    for (const [rank, name] of names.entries()) {
      const path = join(made, name);
      expect(await codesOf(OF_FILES, path)).toEqual(all(OF_FILES, 'SAFETENSORS_DISTRIBUTED_PART'));
      expect(() => safeOpen(path)).toThrow(`(rank ${rank}), not a model`);
    }
  });

  it.each([
    [['rank0.safetensors']],
    [['rank0.safetensors', 'rank32.safetensors']],
    [['rank1.safetensors', 'rank2.safetensors']],
    [['rank32.safetensors', 'rank64.safetensors']],
    [['model-tp-00-of-01.safetensors']],
  ])('no part has these names: %j', (names) => {
    const made = files(names);
    for (const name of names) expect(safeOpen(join(made, name)).size).toBe(1);
  });

  it('files of ranks with other tensors are models', () => {
    const made = files(['rank0.safetensors', 'rank1.safetensors'], (name) => name);
    expect(safeOpen(join(made, 'rank0.safetensors')).size).toBe(1);
  });
});

describe('siblings', () => {
  const whole = { DCP_SHARDING_INFO: JSON.stringify({ a: { saved_offsets: [0] } }) };
  const moved = { DCP_SHARDING_INFO: JSON.stringify({ a: { saved_offsets: [4] } }) };
  const file = (shape: number[], metadata: Record<string, string>): Uint8Array<ArrayBuffer> =>
    fileBytes([{ name: 'a', dtype: 'U8', shape }], { metadata }) as Uint8Array<ArrayBuffer>;
  const name = 'model.safetensors';
  const adapters = Array.from({ length: 300 }, (_, i) => `adapter_${i}.safetensors`);
  const unrelated = new Map(
    [name, ...adapters].map((one, i) => [one, file([4 + i], whole)] as const),
  );

  it('at most 16 of them are read', async () => {
    const read = new Set<string>();
    class Watched extends Blob {
      readonly #name: string;
      constructor(name: string, bytes: Uint8Array<ArrayBuffer>) {
        super([bytes]);
        this.#name = name;
      }
      override slice(...range: [number?, number?]): Blob {
        read.add(this.#name);
        return super.slice(...range);
      }
    }
    const blobs = Array.from(unrelated, ([at, bytes]) => [at, new Watched(at, bytes)] as const);
    const checkpoint = await openRemote(new Map(blobs));
    expect(checkpoint.size).toBe(1);
    checkpoint.close();
    expect(read.size).toBe(17);
  });

  it.each([
    ['zero offsets', file([2], whole), undefined],
    ['the offsets of another part', file([2], moved), 'SAFETENSORS_DISTRIBUTED_PART'],
  ])('those with the names of parts come first: %s', async (_, part, code) => {
    const files = new Map([...unrelated, ['shard-2.safetensors', part]]);
    const made = { about: '', files, name, code: undefined, isInHeader: false };
    const expected = code ?? 'SAFETENSORS_DISTRIBUTED_PART';
    expect(await codeOf(() => safeOpen(join(write(made), name)))).toBe(expected);
    const blobs = Array.from(files, ([at, bytes]) => [at, new Blob([bytes])] as const);
    expect(await codeOf(() => openRemote(new Map(blobs)))).toBe(expected);
  });
});

describe('a file with the name of a part, on a server', () => {
  const name = 'shard-00001-model-00001-of-00002.safetensors';
  const bytes = fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }]);
  const index = (shard: string): Uint8Array =>
    new TextEncoder().encode(JSON.stringify({ weight_map: { a: shard } }));

  it.each([
    ['no index', undefined, 'SAFETENSORS_DISTRIBUTED_PART'],
    ['an index of other files', index('b.safetensors'), 'SAFETENSORS_DISTRIBUTED_PART'],
    ['a malformed index', new TextEncoder().encode('{'), 'SAFETENSORS_DISTRIBUTED_PART'],
    ['an index that lists it', index(name), undefined],
  ])('%s', async (_, indexBytes, code) => {
    const server = await FileServer.start();
    try {
      server.files.set(name, { bytes, tag: '"1"' });
      if (indexBytes !== undefined) {
        server.files.set('model.safetensors.index.json', { bytes: indexBytes, tag: '"2"' });
      }
      const url = server.url(name);
      expect(await codeOf(() => openRemote(url))).toBe(code);
      const options = { names: ['a'] };
      expect(await codeOf(() => download(url, temporaryPath('copy'), options))).toBe(code);
    } finally {
      await server.close();
    }
  });
});

describe('a delta', () => {
  it.each([
    ['delta-xor-xxh3/stream/weight_v000001', 'the index is a delta (xor), not a model'],
    ['delta-overwrite-adler32/stream/weight_v000001', 'the index is a delta (overwrite), not a'],
    [
      'delta-xor-xxh3/stream/weight_v000001/model-00000-of-00002.safetensors',
      'the file is a delta (compressed changes), not a model; apply it to its base checkpoint first',
    ],
    [
      'trl-gap-delta/deltas/step_000001.safetensors',
      'the file is a delta (gap_delta), not a model',
    ],
    ['trl-v1-indices-values/deltas/step_000001.safetensors', 'a delta (indices and values), not a'],
  ])('%s', async (path, message) => {
    const whole = join(FIXTURES, 'deltas', path);
    expect(() => safeOpen(whole)).toThrow(message);
    expect(await codesOf(OF_PATHS, whole)).toEqual(all(OF_PATHS, 'SAFETENSORS_DELTA'));
    expect(() => safeOpen(whole)).toThrow(expect.objectContaining({ foundFormat: 'delta' }));
  });

  it('the complete checkpoints among them are models', () => {
    const checkpoint = safeOpen(join(FIXTURES, 'deltas/trl-gap-delta/anchors'));
    expect(checkpoint.size).toBe(3);
    checkpoint.close();
  });
});
