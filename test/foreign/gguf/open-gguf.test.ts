/** GGUF files that no fixture has: byte order, split models, texts of numbers. */

import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type Checkpoint,
  convert,
  dequantize,
  loadFile,
  open,
  saveCheckpoint,
  saveFile,
  select,
  serialize,
  verify,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { Encoder, ggufBytes, type MadeGguf, writtenGguf } from './generated-gguf.js';

const opened = async (path: string): Promise<Checkpoint> => await open(path, { remote: false });

/** One block of Q8_0 with the scale 0.5, and the codes 0 to 31. */
const block = (isBigEndian: boolean): Uint8Array => {
  const scale = isBigEndian ? [0x38, 0] : [0, 0x38];
  return Uint8Array.from([...scale, ...Array(32).keys()]);
};

describe.each([
  { version: 1 },
  { version: 2 },
  { version: 3 },
  { version: 3, isBigEndian: true },
] as const)('%j', (form) => {
  const encoder = new Encoder(form);
  const file: MadeGguf = {
    ...form,
    keys: [
      ['general.name', [8, encoder.text('test')]],
      ['epsilon', [6, encoder.f32(1e-5)]],
      ['list', encoder.array(8, 2, [encoder.text('a'), encoder.text('é')])],
      ['bytes', [8, Buffer.concat([encoder.length(1), Uint8Array.of(0xff)])]],
    ],
    tensors: [
      { name: 'q', dims: [32, 1], type: 8, offset: 0 },
      { name: 'n', dims: [2], type: 0, offset: 64 },
    ],
    data: Buffer.concat([
      block(form.version === 3 && 'isBigEndian' in form),
      Buffer.alloc(30),
      encoder.f32(1.5),
      encoder.f32(-2),
    ]),
  };

  test('values and metadata', async () => {
    using gguf = await opened(writtenGguf(ggufBytes(file)));
    expect(gguf.format).toBe('gguf');
    expect([...gguf.getTensor('n').toFloat32()]).toEqual([1.5, -2]);
    using view = await dequantize(gguf);
    const { shape } = view.info('q');
    expect(shape).toEqual([1, 32]);
    expect([...view.getTensor('q').toFloat32()]).toEqual(
      Array.from(Array(32).keys(), (i) => i / 2),
    );
    expect([...(gguf.metadata ?? [])]).toEqual([
      ['general.name', 'test'],
      ['epsilon', '0.00001'],
    ]);
    expect(await gguf.extra()).toEqual(
      new Map<string, unknown>([
        ['general.name', 'test'],
        ['epsilon', Math.fround(1e-5)],
        ['list', ['a', 'é']],
        ['bytes', Uint8Array.of(0xff)],
      ]),
    );
  });

  test('converts', async () => {
    const target = temporaryPath('out.safetensors');
    const source = writtenGguf(ggufBytes(file));
    await convert(source, target, { dequantize: 'BF16' });
    const written = loadFile(target);
    expect(written.get('q')?.dtype).toBe('BF16');
    expect([...(written.get('q')?.toFloat32() ?? [])]).toEqual(
      Array.from(Array(32).keys(), (i) => i / 2),
    );
    expect([...(written.get('n')?.toFloat32() ?? [])]).toEqual([1.5, -2]);
    await expect(convert(source, temporaryPath('b.safetensors'))).rejects.toMatchObject({
      code: 'SAFETENSORS_QUANTIZATION_UNSUPPORTED',
      tensor: 'q',
      message: expect.stringContaining('cannot hold blocks of gguf-q8_0: dequantize them'),
    });
    const { files } = await convert(source, temporaryPath('c.safetensors'), { names: ['n'] });
    expect(files).toEqual(['c.safetensors']);
  });
});

test('blocks are rejected by writers, and their values written', async () => {
  const tensors = [{ name: 'q', dims: [32], type: 8, offset: 0 }];
  using gguf = await opened(writtenGguf(ggufBytes({ tensors, data: Buffer.alloc(64) })));
  const target = temporaryPath('a.safetensors');
  const rejected = { code: 'SAFETENSORS_QUANTIZATION_UNSUPPORTED', tensor: 'q' };
  await expect(saveFile(target, gguf)).rejects.toMatchObject(rejected);
  await expect(saveFile(target, select(gguf))).rejects.toMatchObject(rejected);
  await expect(saveCheckpoint(temporaryPath('folder'), gguf)).rejects.toMatchObject(rejected);
  expect(() => serialize(gguf)).toThrow(expect.objectContaining(rejected));
  await saveFile(target, await dequantize(gguf));
  expect(loadFile(target).get('q')?.dtype).toBe('F32');
});

test('a codebook type in a big-endian file is a problem of that tensor', async () => {
  const tensors = [{ name: 'q', dims: [256], type: 16, offset: 0 }];
  const path = writtenGguf(ggufBytes({ isBigEndian: true, tensors, data: Buffer.alloc(96) }));
  using gguf = await opened(path);
  expect(gguf.problems).toMatchObject([{ code: 'SAFETENSORS_UNSUPPORTED_TENSOR', tensor: 'q' }]);
  await expect(
    convert(path, temporaryPath('a.safetensors'), { dequantize: 'F16' }),
  ).rejects.toMatchObject({ tensor: 'q' });
});

describe('a split model', () => {
  const encoder = new Encoder();
  const part = (number: number, count: number, names: readonly string[], total = 2): Buffer =>
    ggufBytes({
      keys: [
        ['general.name', [8, encoder.text('split')]],
        ['split.no', [2, encoder.u16(number)]],
        ['split.count', [2, encoder.u16(count)]],
        ['split.tensors.count', [5, encoder.u32(total)]],
      ],
      tensors: names.map((name, i) => ({ name, dims: [8], type: 0, offset: 32 * i })),
      data: Buffer.alloc(32 * names.length, number),
    });
  const nameOf = (number: number, count: number): string =>
    `model-${String(number).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.gguf`;
  function written(files: readonly (readonly string[])[], total?: number): string {
    const first = temporaryPath(nameOf(1, files.length));
    for (const [i, names] of files.entries()) {
      const path = join(dirname(first), nameOf(i + 1, files.length));
      writeFileSync(path, part(i, files.length, names, total));
    }
    return dirname(first);
  }

  test.each([1, 2, 3])('opens by its file %i, and by its folder', async (number) => {
    const folder = written([[], ['a'], ['b']]);
    for (const path of [join(folder, nameOf(number, 3)), folder]) {
      using gguf = await opened(path);
      expect([gguf.format, gguf.keys()]).toEqual(['gguf', ['a', 'b']]);
      expect(gguf.getTensor('b').bytes[0]).toBe(2);
      expect(gguf.metadata?.get('general.name')).toBe('split');
    }
    const target = temporaryPath('whole.safetensors');
    await convert(folder, target);
    expect([...loadFile(target).keys()]).toEqual(['a', 'b']);
    expect((await verify(folder)).ok).toBe(true);
  });

  test('with a missing file, a wrong name or a wrong count is an error', async () => {
    const path = writtenGguf(part(0, 2, ['a']), nameOf(1, 2));
    await expect(opened(path)).rejects.toMatchObject({ code: 'SAFETENSORS_MISSING_SHARDS' });
    const renamed = writtenGguf(part(0, 2, ['a']), 'renamed.gguf');
    await expect(opened(renamed)).rejects.toMatchObject({ code: 'SAFETENSORS_INVALID_GGUF' });
    const fewer = join(written([['a'], ['b']], 3), nameOf(1, 2));
    await expect(opened(fewer)).rejects.toMatchObject({ code: 'SAFETENSORS_INVALID_GGUF' });
    const double = join(written([['a'], ['a']]), nameOf(1, 2));
    await expect(opened(double)).rejects.toMatchObject({ code: 'SAFETENSORS_INDEX_MISMATCH' });
  });
});
