/** DDUF archives: models are read from within; whatever breaks the rules is refused. */
import { readFileSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  FormatError,
  loadFile,
  openLocalPipeline,
  parse,
  saveFile,
  verify,
} from '../../support/api.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { storedArchive } from '../stored-archive.js';
import { FILES, UNET } from './pipeline-files.js';

function written(bytes: Uint8Array, name = 'pipeline.dduf'): string {
  const path = temporaryPath(name);
  writeFileSync(path, bytes);
  return path;
}

function namesIn({ models }: { models: ReadonlyMap<string, Checkpoint> }): object {
  return Object.fromEntries(Array.from(models, ([folder, model]) => [folder, model.keys()]));
}

const bytesIn = (tensors: ReadonlyMap<string, { bytes: Uint8Array }>): Map<string, string> =>
  new Map(Array.from(tensors, ([name, { bytes }]) => [name, Buffer.from(bytes).toString('hex')]));

describe.each(['mmap', 'read'] as const)('an archive with storage %s', (storage) => {
  it('has its models by folder, with the bytes of their files', async () => {
    using pipeline = await openLocalPipeline(written(storedArchive(FILES)), { storage });
    expect(namesIn(pipeline)).toEqual({ text_encoder: ['a', 'b'], unet: ['odd', 'wide'] });
    expect(pipeline.missing).toEqual([]);
    const unet = pipeline.models.get('unet') as Checkpoint;
    const expected = bytesIn(parse(UNET).getTensors());
    expect(bytesIn(await unet.readTensors())).toEqual(expected);
    await unet.prefetch();
    await unet.prefetch(['odd']);
    expect(bytesIn(new Map(unet))).toEqual(expected);
    for (const reuse of [false, true]) {
      const streamed = new Map<string, string>();
      for await (const [name, { bytes }] of unet.stream({ reuse })) {
        streamed.set(name, Buffer.from(bytes).toString('hex'));
      }
      expect(streamed).toEqual(expected);
    }
    const wide = parse(UNET).getTensor('wide');
    const rows = await unet.getTensor('wide').takeFloat32Async([299, 0, 7]);
    expect(rows).toEqual(wide.takeFloat32([299, 0, 7]));
    expect(unet.getSlice('wide', 3).toFloat32()).toEqual(wide.slice(3).toFloat32());
    const target = temporaryPath('saved.safetensors');
    await saveFile(target, unet.getTensors());
    expect(bytesIn(loadFile(target))).toEqual(expected);
    expect(await unet.byteLength()).toBe(UNET.length);
    expect((await pipeline.verify()).problems).toEqual([]);
  });

  it('ends the memory of one model alone', async () => {
    using pipeline = await openLocalPipeline(written(storedArchive(FILES)), { storage });
    const [encoder, unet] = [...pipeline.models.values()] as [Checkpoint, Checkpoint];
    const [kept, gone] = [encoder.getTensor('a').bytes, unet.getTensor('odd').bytes];
    unet.close({ detach: true });
    expect([kept.byteLength, gone.byteLength]).toEqual([4, 0]);
    expect(encoder.getTensor('b').shape).toEqual([4]);
  });

  it('notices that the archive changes', async () => {
    const path = written(storedArchive(FILES));
    using pipeline = await openLocalPipeline(path, { storage });
    const unet = pipeline.models.get('unet') as Checkpoint;
    const bytes = readFileSync(path);
    bytes[40] = (bytes[40] as number) ^ 1;
    writeFileSync(path, bytes);
    utimesSync(path, 1, 1);
    expect(() => unet.getTensor('odd').bytes.slice()).toThrow(/changed|rewritten/);
    truncateSync(path, 100);
    expect(() => unet.getTensor('wide').bytes.slice()).toThrow();
  });
});

describe('models', () => {
  it('may have a variant', async () => {
    const path = written(storedArchive(FILES));
    using pipeline = await openLocalPipeline(path, { variant: 'fp16' });
    expect(namesIn(pipeline)).toEqual({ text_encoder: ['a', 'b'], unet: ['half'] });
    const none = { code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND' };
    await expect(openLocalPipeline(path, { variant: 'int8' })).rejects.toThrow(
      expect.objectContaining(none),
    );
  });

  it('may lack shards, or be broken, which is a problem of one folder', async () => {
    const { 'text_encoder/model-00002-of-00002.safetensors': _, ...less } = FILES;
    const path = written(
      storedArchive({ ...less, 'unet/diffusion_pytorch_model.safetensors': 'no' }),
    );
    const code = 'SAFETENSORS_MISSING_SHARDS';
    await expect(openLocalPipeline(path)).rejects.toThrow(expect.objectContaining({ code }));
    using pipeline = await openLocalPipeline(path, { skipFailed: true });
    const { problems } = await verify(pipeline);
    expect(problems).toMatchObject([
      { file: 'text_encoder/model.safetensors.index.json', code },
      { file: 'unet/diffusion_pytorch_model.safetensors', code: 'SAFETENSORS_HEADER_TOO_SMALL' },
    ]);
  });

  it('may be missing', async () => {
    const { 'scheduler/scheduler_config.json': _, ...less } = FILES;
    using pipeline = await openLocalPipeline(written(storedArchive(less)));
    expect(pipeline.missing).toEqual(['scheduler']);
    expect((await pipeline.verify()).problems).toMatchObject([
      { file: 'model_index.json', message: expect.stringMatching(/scheduler/) },
    ]);
  });
});

/** Archives that Python's reader refuses as well, by the reason. */
const UNSUPPORTED: readonly (readonly [string, () => Buffer])[] = [
  ['a compressed entry', () => storedArchive(FILES, 'unet/config.json')],
  [
    'no model_index.json',
    () => {
      const { 'model_index.json': _, ...less } = FILES;
      return storedArchive(less);
    },
  ],
  [
    'a model_index.json that is a list',
    () => storedArchive({ ...FILES, 'model_index.json': '[]' }),
  ],
  ['a folder that is not named', () => storedArchive({ ...FILES, 'other/config.json': '{}' })],
  [
    'a folder without configuration',
    () => {
      const { 'unet/config.json': _, ...less } = FILES;
      return storedArchive(less);
    },
  ],
  ['two folders', () => storedArchive({ ...FILES, 'unet/deep/config.json': '{}' })],
  ['a program', () => storedArchive({ ...FILES, 'unet/run.py': '' })],
  ['the end missing', () => storedArchive(FILES).subarray(0, -30)],
  ['another file', () => Buffer.from(UNET)],
];

/** Archives that its reader takes, or takes for something else. */
const STRICTER: readonly (readonly [string, () => Buffer])[] = [
  ['a name that leads out', () => storedArchive({ ...FILES, '../config.json': '{}' })],
  ['an absolute name', () => storedArchive({ ...FILES, '/config.json': '{}' })],
  ['a wrong offset', () => patched((bytes, at) => bytes.writeUInt32LE(1, at + 42))],
  [
    'an offset in zip64 that is not there',
    () => patched((bytes, at) => bytes.fill(0xff, at + 42, at + 46)),
  ],
  [
    'two entries of the same bytes',
    () =>
      patched((bytes, at) =>
        bytes.writeUInt32LE(bytes.readUInt32LE(secondAt(bytes) + 42), at + 42),
      ),
  ],
  ['a longer entry', () => patched((bytes, at) => grow(bytes, at))],
  ['bytes before it', () => Buffer.concat([Buffer.from('#!'), storedArchive(FILES)])],
  ['bytes after it', () => Buffer.concat([storedArchive(FILES), Buffer.from('more')])],
  ['a name twice', () => storedArchive({ ...FILES, 'unet/CONFIG.json': '{}' })],
  [
    'a very long model_index.json',
    () => storedArchive({ ...FILES, 'model_index.json': ' '.repeat(2 ** 20 + 1) }),
  ],
];

const DIRECTORY = Uint8Array.of(0x50, 0x4b, 1, 2);

/** The archive after a change of the directory's first entry, which begins at `at`. */
function patched(change: (bytes: Buffer, at: number) => void): Buffer {
  const bytes = storedArchive(FILES);
  change(bytes, bytes.indexOf(DIRECTORY));
  return bytes;
}

function secondAt(bytes: Buffer): number {
  return bytes.indexOf(DIRECTORY, bytes.indexOf(DIRECTORY) + 1);
}

/** Makes an entry reach into the next, by both lengths. */
function grow(bytes: Buffer, at: number): void {
  for (const field of [20, 24])
    bytes.writeUInt32LE(bytes.readUInt32LE(at + field) + 40, at + field);
}

describe('an archive is refused', () => {
  it.each([...UNSUPPORTED, ...STRICTER])('for %s', async (_, make) => {
    await expect(openLocalPipeline(written(make()))).rejects.toThrow(FormatError);
  });

  it('or read as it is, whatever byte of its records is another', async () => {
    const whole = storedArchive(FILES);
    const path = temporaryPath('mutated.dduf');
    const read = async (): Promise<string> => {
      using pipeline = await openLocalPipeline(path, { storage: 'read' });
      return JSON.stringify([
        Array.from(pipeline.models, ([name, model]) => [name, [...bytesIn(new Map(model))]]),
      ]);
    };
    writeFileSync(path, whole);
    const expected = await read();
    const directory = whole.indexOf(DIRECTORY);
    let refused = 0;
    for (let at = directory; at < whole.length; at += 3) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] as number) ^ 0x21;
      writeFileSync(path, bytes);
      try {
        expect(await read()).toBe(expected);
      } catch (error) {
        if (!(error instanceof Error && 'code' in error)) throw error;
        if (!String(error.code).startsWith('SAFETENSORS_')) throw error;
        refused++;
      }
    }
    expect(refused).toBeGreaterThan((whole.length - directory) / 3 / 2);
  });
});

const python = findPython('huggingface_hub');

const EXPORT = `
import sys, json
from huggingface_hub import export_folder_as_dduf, read_dduf_file
export_folder_as_dduf(sys.argv[2], sys.argv[1])
entries = read_dduf_file(sys.argv[2])
print(json.dumps({name: [entry.offset, entry.length] for name, entry in entries.items()}))
`;

const READ = `
import sys, json
from huggingface_hub import read_dduf_file
answers = []
for path in sys.argv[1:]:
    try:
        answers.append(sorted(read_dduf_file(path)))
    except Exception as error:
        answers.append(type(error).__name__)
print(json.dumps(answers))
`;

describe.skipIf(isSkipped(python))(titleWith(python, "the Hub's Python library"), () => {
  it('writes archives that are read with the same bytes at the same places', async () => {
    const folder = temporaryPath('folder');
    for (const [name, content] of Object.entries(FILES)) writeBelow(folder, name, content);
    writeBelow(folder, 'README.md', 'left out');
    const path = temporaryPath('python.dduf');
    const places = JSON.parse(runPython(python, ['-c', EXPORT, folder, path]));
    expect(Object.keys(places).sort()).toEqual(Object.keys(FILES).sort());
    const whole = readFileSync(path);
    for (const [name, [offset, length]] of Object.entries<[number, number]>(places)) {
      const content = Buffer.from(FILES[name as keyof typeof FILES] as string);
      expect(whole.subarray(offset, offset + length)).toEqual(content);
    }
    using pipeline = await openLocalPipeline(path);
    expect(namesIn(pipeline)).toEqual({ text_encoder: ['a', 'b'], unet: ['odd', 'wide'] });
    const unet = pipeline.models.get('unet') as Checkpoint;
    expect(bytesIn(new Map(unet))).toEqual(bytesIn(parse(UNET).getTensors()));
    expect((await pipeline.verify()).problems).toEqual([]);
  });

  it('reads the same archives, and refuses those that break its rules', () => {
    const paths = [['good', () => storedArchive(FILES)] as const, ...UNSUPPORTED].map(
      ([, make], i) => written(make(), `archive-${i}.dduf`),
    );
    const [good, ...refused] = JSON.parse(runPython(python, ['-c', READ, ...paths]));
    expect(good).toEqual(Object.keys(FILES).sort());
    expect(refused.filter((answer: unknown) => typeof answer !== 'string')).toEqual([]);
  });
});
