/** The same folder gives the same model, or the same error, through every door. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { storedArchive } from '../foreign/stored-archive.js';
import {
  type Checkpoint,
  download,
  openPipeline,
  openRemote,
  type Pipeline,
  type RemotePipeline,
  type SafetensorsError,
  safeOpen,
  type VerificationReport,
} from '../support/api.js';
import { HubServer } from '../support/hub-server.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';

type Files = ReadonlyMap<string, string | Uint8Array<ArrayBuffer>>;

const REPOSITORY = 'org/random';
const SOURCE = `hf://${REPOSITORY}`;

let hub: HubServer;

beforeAll(async () => {
  hub = await HubServer.start({});
});

beforeEach(() => {
  vi.stubEnv('HF_ENDPOINT', hub.url);
  vi.stubEnv('HF_HUB_OFFLINE', '');
});

afterEach(() => vi.unstubAllEnvs());

afterAll(() => hub.close());

/** What a door gives: tensors and problems, or an error. */
type Outcome = object;

/** The parts of an open checkpoint that are compared. */
interface Opened {
  keys(): string[];
  readonly shards: readonly string[];
  verify(): Promise<VerificationReport>;
  close(): void;
}

async function problemsOf(opened: Pick<Opened, 'verify'>): Promise<unknown> {
  return (await opened.verify()).problems;
}

async function outcomeOf(open: () => Opened | Promise<Opened>): Promise<Outcome> {
  let opened: Opened;
  try {
    opened = await open();
  } catch (error) {
    return failureOf(error);
  }
  try {
    const { shards } = opened;
    return { keys: opened.keys(), shards: [...shards], problems: await problemsOf(opened) };
  } finally {
    opened.close();
  }
}

/** An error without the path at its beginning, and without those in calls. */
function failureOf(error: unknown): Outcome {
  const { code, path, message } = error as SafetensorsError;
  if (code === undefined) throw error;
  const text = path === undefined ? message : message.replace(`${path}: `, '');
  // The opener and its source are the door's own; the folder and the options are not.
  const calls = text
    .replace(/(?:safeO|o)pen\("(?:[^"]*\/|files of )?([^"/]*)"/g, 'open("$1"')
    .replace(/open\("(?:folder|random)"/g, 'open(""');
  return { code, message: calls };
}

function writeFolder(files: Files): string {
  const folder = temporaryPath('folder');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of files) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  return folder;
}

/** Opens the folder through each door. `safeOpen` assembles no distributed checkpoints: nor do the others here. */
async function doors(files: Files, variant?: string): Promise<Record<string, Outcome>> {
  const options = { variant };
  const remote = { variant, formats: ['safetensors'] } as const;
  const folder = writeFolder(files);
  hub.put(REPOSITORY, { files: Object.fromEntries(files) });
  const blobs = new Map(Array.from(files, ([name, content]) => [name, new Blob([content])]));
  return {
    local: await outcomeOf(() => safeOpen(folder, options)),
    blobs: await outcomeOf(() => openRemote(blobs, remote)),
    hub: await outcomeOf(() => openRemote(SOURCE, remote)),
  };
}

async function expectEqualDoors(files: Files, variant?: string): Promise<Outcome> {
  const { local, ...others } = await doors(files, variant);
  for (const [name, outcome] of Object.entries(others))
    expect({ [name]: outcome }).toEqual({ [name]: local });
  return local as Outcome;
}

const MODEL = 'mod\u00e8le';

function weights(name: string): Uint8Array<ArrayBuffer> {
  const tensor = { name: tensorOf(name), dtype: 'U8', shape: [4] } as const;
  return new Uint8Array(fileBytes([tensor]));
}

/** The tensor in a file. */
function tensorOf(name: string): string {
  return `in ${name.normalize('NFC').toLowerCase()}`;
}

function numbered(stem: string, number: number, count: number): string {
  const digits = (value: number): string => String(value).padStart(5, '0');
  return `${stem}-${digits(number)}-of-${digits(count)}.safetensors`;
}

function indexOf(shards: readonly string[], start = ''): string {
  return (
    start +
    JSON.stringify({ weight_map: Object.fromEntries(shards.map((name) => [tensorOf(name), name])) })
  );
}

const stems = fc.constantFrom(
  'model',
  'model',
  'diffusion_pytorch_model',
  'adapter',
  'model.fp16',
  MODEL,
);
const spellings = fc.constantFrom<(name: string) => string>(
  (name) => name,
  (name) => name,
  (name) => name,
  (name) => name.normalize('NFD'),
  (name) => name[0]?.toUpperCase() + name.slice(1),
);

/** Some shards of a model, and perhaps an index of the same or another split. */
const sharded = fc
  .record({
    stem: stems,
    count: fc.integer({ min: 1, max: 3 }),
    missing: fc.constantFrom(0, 0, 0, 1, 2),
    indexed: fc.constantFrom<'none' | 'own' | 'stale'>('none', 'own', 'own', 'stale'),
    spell: spellings,
    isUpperCase: fc.constantFrom(false, false, false, true),
    start: fc.constantFrom('', '', '', '\ufeff'),
  })
  .map(
    ({
      stem,
      count,
      missing,
      indexed,
      spell,
      isUpperCase,
      start,
    }): [string, string | Uint8Array<ArrayBuffer>][] => {
      const all = Array.from({ length: count }, (_, i) => numbered(stem, i + 1, count));
      const files: [string, string | Uint8Array<ArrayBuffer>][] = all
        .filter((_, i) => i + 1 !== missing)
        .map((name) => [spell(name), weights(name)]);
      if (indexed === 'none') return files;
      const other = [1, 2].map((number) => numbered(stem, number, count + 1));
      const text = indexOf(indexed === 'own' ? all : other, start);
      const index = `${stem}.safetensors.index.json`;
      return [...files, [isUpperCase ? index.toUpperCase() : index, text]];
    },
  );

const single = fc
  .record({ stem: stems, spell: spellings })
  .map(({ stem, spell }): [string, Uint8Array<ArrayBuffer>][] => {
    const name = `${stem}.safetensors`;
    return [[spell(name), weights(name)]];
  });

const other = fc
  .constantFrom(
    'config.json',
    'pytorch_model.bin',
    'pytorch_model.bin.index.json',
    'model.gguf',
    'flax_model.msgpack',
    'consolidated.00.safetensors',
    'consolidated.safetensors',
    'shard-00001-model-00001-of-00002.safetensors',
    'old.safetensors.index.json',
    'model.safetensors.index.fp16.json',
  )
  .map((name): [string, string | Uint8Array<ArrayBuffer>][] => {
    if (name.endsWith('.safetensors')) return [[name, weights(name)]];
    if (!name.includes('.safetensors.')) return [[name, '{}']];
    return [[name, indexOf([numbered('model', 1, 2), numbered('model', 2, 2)])]];
  });

/** Names that a file system without case has once. */
function mapOf(entries: readonly (readonly [string, string | Uint8Array<ArrayBuffer>])[]): Files {
  const names = new Set<string>();
  return new Map(
    entries.filter(([name]) => {
      const folded = name.normalize('NFC').toLowerCase();
      return !names.has(folded) && names.add(folded);
    }),
  );
}

const folders = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: sharded },
      { weight: 2, arbitrary: single },
      { weight: 2, arbitrary: other },
    ),
    {
      minLength: 1,
      maxLength: 3,
    },
  )
  .map((parts) => mapOf(parts.flat()))
  // A repository always has a file.
  .filter(({ size }) => size > 0);

/** A pipeline, whose folders are components unless the index leaves them out. */
const pipelines = fc
  .record({
    root: fc.option(folders, { freq: 5, nil: new Map() as Files }),
    unet: folders,
    text_encoder: folders,
    named: fc.subarray(['unet', 'text_encoder', 'vae']),
  })
  .map(({ root, unet, text_encoder, named }): Files => {
    const index = Object.fromEntries(named.map((name) => [name, ['diffusers', 'Model']]));
    return new Map<string, string | Uint8Array<ArrayBuffer>>([
      ...root,
      ['model_index.json', JSON.stringify(index)],
      ...Array.from(unet, ([name, content]) => [`unet/${name}`, content] as const),
      ...Array.from(text_encoder, ([name, content]) => [`text_encoder/${name}`, content] as const),
    ]);
  });

const RUNS = { numRuns: 120 };

it('folders are opened or rejected alike', async () => {
  await fc.assert(
    fc.asyncProperty(
      folders,
      fc.constantFrom(undefined, undefined, 'fp16'),
      async (files, variant) => {
        await expectEqualDoors(files, variant);
      },
    ),
    RUNS,
  );
});

it('so are folders of pipelines', async () => {
  await fc.assert(
    fc.asyncProperty(pipelines, async (files) => {
      await expectEqualDoors(files);
    }),
    { numRuns: 60 },
  );
});

/** A pipeline's models and errors. */
async function pipelineOutcome(
  open: () => Promise<Pipeline<Checkpoint> | RemotePipeline>,
): Promise<Outcome> {
  try {
    using pipeline = await open();
    const models: Record<string, Outcome> = {};
    for (const [name, model] of pipeline.models) models[name] = await outcomeOf(() => model);
    const failed = Array.from(pipeline.failed, ([name, error]) => [name, failureOf(error)]);
    return { models, failed, missing: pipeline.missing };
  } catch (error) {
    return failureOf(error);
  }
}

it('and models of pipelines, in archives, too', async () => {
  await fc.assert(
    fc.asyncProperty(pipelines, fc.constantFrom(undefined, 'fp16'), async (files, variant) => {
      const options = { variant, skipFailed: true };
      const folder = writeFolder(files);
      hub.put(REPOSITORY, { files: Object.fromEntries(files) });
      const local = await pipelineOutcome(() => openPipeline(folder, options));
      const remote = await pipelineOutcome(() => openPipeline(SOURCE, options));
      expect(remote).toEqual(local);
      const archived = archivedFiles(files);
      if (archived === undefined) return;
      const path = temporaryPath('random.dduf');
      writeFileSync(path, storedArchive(archived));
      const plain = writeFolder(new Map(Object.entries(archived)) as Files);
      const inFolder = await pipelineOutcome(() => openPipeline(plain, options));
      expect(await pipelineOutcome(() => openPipeline(path, options))).toEqual(inFolder);
    }),
    { numRuns: 60 },
  );
});

/** The files of a pipeline with the configurations that an archive needs; undefined where it may not hold them. */
function archivedFiles(files: Files): Record<string, string | Uint8Array> | undefined {
  const names = [...files.keys()];
  const { unet, text_encoder } = JSON.parse(files.get('model_index.json') as string);
  const isAllowed = names.every((name) => /^[ -~]*\.(?:json|safetensors)$/.test(name));
  if (!isAllowed || unet === undefined || text_encoder === undefined) return undefined;
  const configs = { 'unet/config.json': '{}', 'text_encoder/config.json': '{}' };
  return { ...Object.fromEntries(files), ...configs };
}

describe('rules', () => {
  const [first, second] = [1, 2].map((number) => numbered('model', number, 2)) as [string, string];
  const files = (...names: string[]): Files =>
    mapOf(names.map((name) => [name, name.endsWith('.safetensors') ? weights(name) : '{}']));

  it('shards 1 to n of n without an index are one checkpoint, whose index is missing', async () => {
    expect(await expectEqualDoors(files(first, second))).toEqual({
      keys: [tensorOf(first), tensorOf(second)],
      shards: [first, second],
      problems: [
        expect.objectContaining({
          file: 'model.safetensors.index.json',
          code: 'SAFETENSORS_INDEX_MISMATCH',
          message: expect.stringContaining('the index of 2 shards is missing'),
        }),
      ],
    });
  });

  it('shards in any order and case have the name of the first', async () => {
    const [one, two] = [numbered('Model', 1, 2), numbered('model', 2, 2)];
    for (const listed of [files(one, two), files(two, one)]) {
      expect(await expectEqualDoors(listed)).toMatchObject({
        shards: [one, two],
        problems: [{ file: 'Model.safetensors.index.json' }],
      });
    }
  });

  it('a lone shard is none', async () => {
    expect(await expectEqualDoors(files(first))).toEqual({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
      message: expect.stringContaining('a shard without its index'),
    });
  });

  it('leftover shards next to their single file are ignored', async () => {
    const leftover = numbered('adapter', 1, 2);
    const outcome = await expectEqualDoors(files('adapter.safetensors', leftover));
    expect(outcome).toMatchObject({ shards: ['adapter.safetensors'], problems: [] });
  });

  it('a stale index names the shards that it does not list', async () => {
    const stale = indexOf([1, 3].map((number) => numbered('model', number, 4)));
    const folder = new Map([
      ...files(first, second),
      ['model.safetensors.index.json', stale] as const,
    ]);
    const { message } = (await expectEqualDoors(folder)) as { message: string };
    expect(message).toContain('found 2 of them missing');
    expect(message).toContain(`does not list: ${JSON.stringify(first)}, ${JSON.stringify(second)}`);
  });

  it.each([
    ['an index in upper case', 'MODEL.SAFETENSORS.INDEX.JSON', first, ''],
    ['a byte order mark', 'model.safetensors.index.json', first, '\ufeff'],
    [
      'decomposed names of shards',
      'model.safetensors.index.json',
      numbered(MODEL.normalize('NFD'), 1, 2),
      '',
    ],
    ['shards in upper case', 'model.safetensors.index.json', first.replace('m', 'M'), ''],
  ])('%s is read', async (_, index, shard, start) => {
    const listed = shard.replace('M', 'm').normalize('NFC');
    const folder = new Map([
      ...files(shard, second),
      [index, indexOf([listed, second], start)] as const,
    ]);
    expect(await expectEqualDoors(folder)).toEqual({
      keys: [listed, second].map(tensorOf).toSorted(),
      shards: [listed, second],
      problems: [],
    });
  });

  it('a tensor in two shards without an index is an error', async () => {
    const same = weights('same');
    const folder = new Map([first, second].map((name) => [name, same] as const));
    expect(await expectEqualDoors(folder)).toMatchObject({ code: 'SAFETENSORS_INDEX_MISMATCH' });
  });

  it('a shard that the index does not list is a problem', async () => {
    const stray = numbered('model', 3, 3);
    const index = indexOf([first, second]);
    const folder = new Map([
      ...files(first, second, stray),
      ['model.safetensors.index.json', index] as const,
    ]);
    expect(await expectEqualDoors(folder)).toMatchObject({
      shards: [first, second],
      problems: [{ file: stray, code: 'SAFETENSORS_INDEX_MISMATCH' }],
    });
  });

  it('a component with weights of torch alone is a failed model', async () => {
    const folder = new Map<string, string | Uint8Array<ArrayBuffer>>([
      ['model_index.json', '{"text_encoder":["transformers","X"],"unet":["diffusers","X"]}'],
      ['text_encoder/pytorch_model.bin', '{}'],
      ['unet/model.safetensors', weights('unet')],
    ]);
    const path = writeFolder(folder);
    hub.put(REPOSITORY, { files: Object.fromEntries(folder) });
    for (const open of [() => openPipeline(path), () => openPipeline(SOURCE)]) {
      expect(await pipelineOutcome(open)).toEqual({
        code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
        message: expect.stringContaining('"pytorch_model.bin"'),
      });
    }
  });

  it('a model_index.json that is too long has one error', async () => {
    const text = `{}${' '.repeat(1.1 * 2 ** 20)}`;
    const folder = new Map<string, string | Uint8Array<ArrayBuffer>>([
      ['model_index.json', text],
      ['unet/config.json', '{}'],
      ['unet/model.safetensors', weights('unet')],
    ]);
    const path = writeFolder(folder);
    hub.put(REPOSITORY, { files: Object.fromEntries(folder) });
    const archive = temporaryPath('long.dduf');
    writeFileSync(archive, storedArchive(Object.fromEntries(folder)));
    const outcomes = [
      await pipelineOutcome(() => openPipeline(path)),
      await pipelineOutcome(() => openPipeline(SOURCE)),
      await pipelineOutcome(() => openPipeline(archive)),
      await download(SOURCE, temporaryPath('copy')).then(() => ({}), failureOf),
    ];
    expect(new Set(outcomes.map((outcome) => JSON.stringify(outcome)))).toHaveLength(1);
    expect(outcomes[0]).toMatchObject({ code: 'SAFETENSORS_INVALID_PIPELINE' });
  });
});
