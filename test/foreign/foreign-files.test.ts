/** Files and folders of other formats: every way to open them names the format. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { call } from '../cli/call.js';
import {
  convert,
  loadFile,
  open,
  openRemote,
  openTorch,
  safeOpen,
  safeOpenAsync,
  verify,
} from '../support/api.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';
import { Random } from '../support/random.js';
import { storedArchive } from './stored-archive.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const COUNT = 12;
const FIXTURES = join(import.meta.dirname, '../fixtures');

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

function word(random: Random, length = random.from(1, 12)): string {
  return Array.from({ length }, () => String.fromCharCode(97 + random.below(26))).join('');
}

interface Made {
  readonly name: string;
  readonly bytes: Buffer;
}

const MODEL = fileBytes([{ name: 'w', dtype: 'F32', shape: [2, 2] }]);

/** The text of a link, as Git writes it without symbolic links. */
function linkText(random: Random): string {
  return random.do(
    () => `../../blobs/${random.bytes(32).toString('hex')}`,
    () => `../${word(random)}/${word(random)}.safetensors`,
    () => `${word(random)}.safetensors`,
    () => `/${word(random)}/${word(random)} ${word(random)}/model.safetensors`,
    () => `.git/annex/objects/${word(random)}/${word(random)}/SHA256E-s12--${word(random)}.bin`,
  );
}

/** Random files of a format, by content unless their names are part of it. */
const MAKERS: Readonly<Record<string, (random: Random) => Made>> = {
  'zipped-safetensors': (random) => {
    const before = random.chance(0.5) ? { [`${word(random)}.json`]: '{}' } : {};
    const folder = random.chance(0.5) ? `${word(random)}/` : '';
    const bytes = storedArchive({ ...before, [`${folder}${word(random)}.safetensors`]: MODEL });
    return { name: random.pick(['model.zip', 'model.safetensors', 'model.bin']), bytes };
  },
  'torch-export': (random) => {
    const name = word(random);
    const files = random.do(
      () => ({ [`${name}/data/weights/weight_0`]: 'xxxx', [`${name}/archive_format`]: 'pt2' }),
      () => ({ [`${name}/archive_format`]: 'pt2' }),
      () => ({ 'serialized_exported_program.json': '{}', version: '1' }),
    );
    return { name: random.pick(['model.pt2', 'model.pt', 'x']), bytes: storedArchive(files) };
  },
  keras: (random) => {
    const weights = { 'metadata.json': '{}', 'config.json': '{}', 'model.weights.h5': 'x' };
    return random.do(
      () => ({ name: `${word(random)}.keras`, bytes: storedArchive({ 'metadata.json': '{}' }) }),
      () => ({ name: 'model.pt', bytes: storedArchive({ 'model.weights.h5': word(random) }) }),
      () => ({ name: `${word(random)}.KERAS`, bytes: storedArchive(weights) }),
    );
  },
  link: (random) => {
    const end = random.pick(['', '\n']);
    return { name: 'model.safetensors', bytes: latin1(`${linkText(random)}${end}`) };
  },
  'git-lfs-pointer': (random) => {
    const oid = random.bytes(32).toString('hex');
    const text = `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${random.below(1e9)}\n`;
    return { name: random.pick(['model.safetensors', 'pytorch_model.bin']), bytes: latin1(text) };
  },
  msgpack: (random) => {
    const key = word(random, random.from(1, 31));
    const head = random.do(
      () => [0x80 + random.from(1, 15)],
      () => [0xde, 0, random.from(16, 255)],
    );
    const bytes = Buffer.concat([
      Buffer.from([...head, 0xa0 + key.length]),
      latin1(key),
      random.bytes(20),
    ]);
    return { name: random.pick(['flax_model.msgpack', 'weights', 'model.bin']), bytes };
  },
  'saved-model': (random) => {
    const bytes = Buffer.concat([Buffer.from([8, 1, 0x12]), random.bytes(40)]);
    return { name: random.pick(['saved_model.pb', 'model']), bytes };
  },
  'torch-distributed': (random) => {
    const folder = join(FIXTURES, 'dcp/dcp-single');
    return random.do(
      () => ({
        name: '.metadata',
        bytes: latin1('\x80\x02ctorch.distributed.checkpoint.metadata\n'),
      }),
      () => {
        const module = 'torch.distributed.checkpoint.metadata';
        const frame = `\x80\x04\x95${'\0'.repeat(8)}\x8c${String.fromCharCode(module.length)}${module}`;
        return { name: `${word(random)}.pkl`, bytes: latin1(frame) };
      },
      () => {
        const name = `__${random.below(9)}_${random.below(9)}.distcp`;
        return {
          name,
          bytes: storedArchive({ 'archive/data.pkl': folder, 'archive/version': '3' }),
        };
      },
    );
  },
  tflite: (random) => {
    const bytes = Buffer.concat([Buffer.from([0x1c, 0, 0, 0]), latin1('TFL3'), random.bytes(30)]);
    return { name: 'model.tflite', bytes };
  },
  onnx: (random) => {
    const head = [8, random.from(3, 12), 0x12, 7];
    return { name: 'model.onnx', bytes: Buffer.concat([Buffer.from(head), latin1('pytorch1')]) };
  },
  hdf5: (random) => {
    const bytes = Buffer.concat([latin1('\x89HDF\r\n\x1a\n'), random.bytes(30)]);
    return { name: random.pick(['tf_model.h5', 'model.safetensors']), bytes };
  },
};

/** The found format of an error; undefined without an error. */
async function foundBy(work: () => unknown): Promise<unknown> {
  try {
    const opened = await work();
    if (typeof Object(opened).close === 'function') (opened as { close(): void }).close();
    return 'no error';
  } catch (error) {
    return (error as { foundFormat?: unknown }).foundFormat ?? error;
  }
}

const OPENERS: Readonly<Record<string, (path: string, bytes: Buffer) => unknown>> = {
  safeOpen: (path) => safeOpen(path),
  safeOpenAsync: (path) => safeOpenAsync(path),
  loadFile: (path) => loadFile(path),
  openTorch: (path) => openTorch(path),
  convert: (path) => convert(path, temporaryPath('converted')),
  openRemote: (path, bytes) =>
    openRemote(new File([new Uint8Array(bytes)], path.slice(path.lastIndexOf('/') + 1))),
};

describe.each(Object.entries(MAKERS))('%s', (format, make) => {
  it.each(Array.from({ length: COUNT }, (_, number) => number))(
    `seed ${SEED}, number %i`,
    async (number) => {
      const { name, bytes } = make(new Random(SEED, number));
      const folder = temporaryPath('case');
      mkdirSync(folder, { recursive: true });
      const path = join(folder, name);
      writeFileSync(path, bytes);
      for (const [opener, open] of Object.entries(OPENERS)) {
        const found = await foundBy(() => open(path, bytes));
        // The first bytes of an archive show the format only if the first entry does.
        const isOfHead = !['openTorch', 'convert'].includes(opener);
        const isZip = isOfHead && format === 'zipped-safetensors' && found === 'zip';
        expect([opener, name, isZip ? format : found]).toEqual([opener, name, format]);
      }
      const { code, stderr } = await call(['convert', path, temporaryPath('target')]);
      expect([code, stderr]).toEqual([1, expect.stringContaining('SAFETENSORS_')]);
    },
  );
});

describe('content comes before names', () => {
  const names = [
    'm.keras',
    'm.onnx',
    'm.arrow',
    'm.capnp',
    'm.gguf',
    'm.h5',
    'm.msgpack',
    'm.pt2',
    'saved_model.pb',
  ];

  it.each(names)('a safetensors file called %s opens', (name) => {
    const path = temporaryPath(name);
    writeFileSync(path, MODEL);
    expect(safeOpen(path).keys()).toEqual(['w']);
  });

  it.each(names)('a torch file called %s opens', async (name) => {
    const path = temporaryPath(name);
    cpSync(join(FIXTURES, 'torch/zip-all-dtypes.pt'), path);
    const checkpoint = await openTorch(path);
    expect(checkpoint.size).toBeGreaterThan(0);
    checkpoint.close();
  });

  it('an array archive called m.pt2 opens', async () => {
    const path = temporaryPath('m.pt2');
    const header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
    const npy = latin1(
      `\x93NUMPY\x01\0${String.fromCharCode(header.length + 1)}\0${header}\n\x01\x02`,
    );
    writeFileSync(path, storedArchive({ 'w.npy': npy }));
    const arrays = await open(path, { remote: false, formats: ['numpy'] });
    expect(arrays.keys()).toEqual(['w']);
    arrays.close();
  });
});

describe('a folder', () => {
  it.each([
    ['torch-distributed', ['__0.metadata', '__0_0.distcp'], /reads its folder/],
    ['deepspeed', ['latest', 'global_step10', 'zero_to_fp32.py'], /zero_to_fp32\.py/],
    [
      'deepspeed',
      ['mp_rank_00_model_states.pt', 'zero_pp_rank_0_mp_rank_00_optim_states.pt'],
      /DeepSpeed/,
    ],
    ['saved-model', ['saved_model.pb', 'variables', 'keras_metadata.pb'], /SavedModel/],
    [
      'tensorflow-checkpoint',
      ['checkpoint', 'm.ckpt-1.index', 'm.ckpt-1.data-00000-of-00001'],
      /TensorFlow/,
    ],
    ['msgpack', ['config.json', 'flax_model.msgpack'], /MessagePack/],
    ['keras', ['model.keras'], /Keras model/],
    ['hdf5', ['tf_model.h5', 'config.json'], /HDF5/],
    ['onnx', ['model.onnx', 'model.onnx_data'], /ONNX/],
    ['gguf', ['model-Q4_K_M.gguf', 'model-Q8_0.gguf'], /GGUF/],
    ['openvino', ['openvino_model.xml', 'openvino_model.bin.txt'], /OpenVINO/],
    ['coreml', ['Model.mlpackage'], /Core ML/],
    ['orbax', ['_CHECKPOINT_METADATA', 'manifest.ocdbt', 'd'], /Orbax/],
    ['torch-export', ['model.pt2'], /\.pt2/],
  ] as const)('%s: %j', async (format, names, description) => {
    const folder = temporaryPath('folder');
    mkdirSync(folder, { recursive: true });
    for (const name of names) writeFileSync(join(folder, name), 'x');
    const error = expect.objectContaining({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
      foundFormat: format,
      message: expect.stringMatching(description),
    });
    expect(() => safeOpen(folder)).toThrow(error);
    await expect(convert(folder, temporaryPath('out'))).rejects.toThrow(error);
    const blobs = new Map(names.map((name) => [name, new Blob(['x'])]));
    await expect(openRemote(blobs)).rejects.toThrow(error);
    const { problems } = await verify(folder);
    expect(problems).toEqual([
      expect.objectContaining({ code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND' }),
    ]);
    const { code, stderr } = await call(['inspect', folder]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(description)]);
  });

  it.each([
    [['.metadata', '__0_0.distcp', '__1_0.distcp']],
    [['.metadata', '__0_0.distcp', 'common.pt', 'metadata.json']],
  ])('of a distributed checkpoint: only open reads it: %j', async (names) => {
    const folder = temporaryPath('folder');
    mkdirSync(folder, { recursive: true });
    for (const name of names) writeFileSync(join(folder, name), 'x');
    const error = expect.objectContaining({ foundFormat: 'torch-distributed' });
    expect(() => safeOpen(folder)).toThrow(error);
    const inMetadata = { code: 'SAFETENSORS_INVALID_PICKLE', path: join(folder, '.metadata') };
    await expect(open(folder, { remote: false })).rejects.toMatchObject(inMetadata);
  });

  it('with a model next to files of other formats opens the model', () => {
    const folder = temporaryPath('both');
    mkdirSync(folder, { recursive: true });
    for (const name of ['flax_model.msgpack', 'tf_model.h5', 'saved_model.pb', 'model.onnx']) {
      writeFileSync(join(folder, name), 'x');
    }
    writeFileSync(join(folder, 'model.safetensors'), MODEL);
    const checkpoint = safeOpen(folder);
    expect(checkpoint.keys()).toEqual(['w']);
    checkpoint.close();
  });
});
