/** Dequantized weights of several pieces: memory, choices, and failures on the way. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as yieldNow } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { headerOf, npy } from '../../foreign/numpy/arrays.js';
import { bytesOf, codes, type MadeTensor, scales } from '../../quantized/generated-tensors.js';
import {
  convert,
  type Dtype,
  dequantized,
  fromFloat32,
  loadFile,
  SelectionError,
  safeOpen,
  saveCheckpoint,
  select,
  type Tensor,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

type Tensors = Readonly<Record<string, MadeTensor>>;

const saving = { durable: false };
const fast = { ...saving, overwrite: true };
const fp8 = { quant_method: 'fp8', weight_block_size: [128, 128] };
const block = (name: string, [rows, columns]: [number, number]): Tensors => ({
  [`${name}.weight`]: codes('F8_E5M2', [rows, columns]),
  [`${name}.weight_scale_inv`]: scales('F32', [Math.ceil(rows / 128), Math.ceil(columns / 128)]),
});
const norm: Tensors = { 'norm.weight': scales('F32', [64]) };

/** A folder with these tensors, in files of 1 MB, so that scales are in other files than codes. */
async function modelOf(quantization_config: unknown, tensors: Tensors): Promise<string> {
  const folder = temporaryPath('quantized');
  const given = Object.entries(tensors).map(([name, tensor], i) => {
    const { dtype, shape } = tensor;
    return [name, { dtype: dtype as Dtype, shape, data: bytesOf(tensor, i) }] as const;
  });
  await saveCheckpoint(folder, new Map(given) as never, { ...saving, maxShardSize: '1MB' });
  const config = { torch_dtype: 'bfloat16', quantization_config };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  return folder;
}

const contents = (folder: string): [string, Buffer][] =>
  readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]);

/** Weights larger than a piece, whose rows end anywhere in one. */
const LARGE: Readonly<Record<string, readonly [unknown, Tensors]>> = {
  'FP8 with odd rows': [fp8, { ...block('a', [1000, 1357]), ...block('b', [3, 700_001]), ...norm }],
  GPTQ: [
    { quant_method: 'gptq', bits: 4, group_size: 64, sym: false },
    {
      'a.qweight': codes('I32', [960 / 8, 1040]),
      'a.qzeros': codes('I32', [15, 1040 / 8]),
      'a.scales': scales('F16', [15, 1040]),
      ...norm,
    },
  ],
  'gpt-oss': [
    { quant_method: 'mxfp4' },
    {
      'experts.down_proj_blocks': codes('U8', [3, 700, 15, 16]),
      'experts.down_proj_scales': { dtype: 'U8', shape: [3, 700, 15], content: 'scales' },
    },
  ],
  bitsandbytes: [
    { quant_method: 'bitsandbytes', load_in_4bit: true },
    {
      'a.weight': codes('U8', [(1111 * 999 + 1) >> 1, 1]),
      'a.weight.absmax': scales('F32', [Math.ceil((1111 * 999) / 64)]),
      'a.weight.quant_map': scales('F32', [16]),
      'a.weight.quant_state.bitsandbytes__nf4': stateOf({
        quant_type: 'nf4',
        blocksize: 64,
        dtype: 'bfloat16',
        shape: [1111, 999],
      }),
    },
  ],
};

function stateOf(state: object): MadeTensor {
  const text = JSON.stringify(state);
  return { dtype: 'U8', shape: [text.length], content: { text } };
}

describe.each(Object.entries(LARGE))('%s', (_, [config, tensors]) => {
  it.each(['BF16', 'F16', 'F32'] as const)('has the values of the view as %s', async (dtype) => {
    const source = await modelOf(config, tensors);
    const view = await dequantized(safeOpen(source));
    for (const verify of [true, false]) {
      const target = temporaryPath('plain');
      const options = { ...fast, dequantize: dtype, verify, maxShardSize: '2MB' } as const;
      await convert(source, target, options);
      const written = loadFile(target);
      expect([...written.keys()].sort()).toEqual(view.keys());
      for (const name of view.keys()) {
        const { dtype: found, bytes, shape } = written.get(name) as Tensor;
        const isWeight = view.info(name).quantization !== undefined;
        const expected = isWeight
          ? select(view, { names: [name], dtype }).getTensor(name)
          : view.getTensor(name);
        expect([found, shape]).toEqual([isWeight ? dtype : expected.dtype, expected.shape]);
        expect(Buffer.compare(bytes, expected.bytes)).toBe(0);
      }
    }
  });
});

describe('choices', () => {
  let source: string;
  const tensors = { ...block('a', [4, 8]), ...block('b', [8, 4]), ...norm };
  beforeEach(async () => {
    source = await modelOf(fp8, { ...tensors, 'a.bias': scales('BF16', [4]) });
  });

  it('see logical names and the new dtype', async () => {
    const seen: unknown[] = [];
    const target = temporaryPath('plain');
    const done = await convert(source, target, {
      ...fast,
      dequantize: 'F16',
      names: (name, { dtype, shape }) => {
        seen.push([name, dtype, shape]);
        return name !== 'a.bias';
      },
      rename: (name) => `m.${name}`,
    });
    expect(seen.sort()).toEqual([
      ['a.bias', 'BF16', [4]],
      ['a.weight', 'F16', [4, 8]],
      ['b.weight', 'F16', [8, 4]],
      ['norm.weight', 'F32', [64]],
    ]);
    expect(done).toMatchObject({ excluded: ['a.bias'], cast: [] });
    expect([...done.dequantized].sort()).toEqual(['m.a.weight', 'm.b.weight']);
    const names = { names: ['b.weight'], rename: { 'b.weight': 'c' }, dequantize: 'F32' } as const;
    expect(await convert(source, target, { ...fast, ...names })).toMatchObject({
      dequantized: ['c'],
    });
    await expect(
      convert(source, target, { ...fast, dequantize: 'F32', names: ['b.weight_scale_inv'] }),
    ).rejects.toMatchObject({ code: 'SAFETENSORS_TENSOR_NOT_FOUND' });
  });

  it('cast the others, too, and every value is rounded once', async () => {
    const target = temporaryPath('plain');
    const options = { ...fast, dequantize: 'BF16', dtype: 'F16' } as const;
    const done = await convert(source, target, options);
    expect([done.cast, done.notCast]).toEqual([['norm.weight', 'a.bias'], []]);
    const written = loadFile(target);
    expect([...written.values()].map(({ dtype }) => dtype)).toEqual(Array(4).fill('F16'));
    const view = await dequantized(safeOpen(source));
    const cast = select(view, { dtype: 'F16' });
    expect(written.get('a.weight')?.data).toEqual(cast.getTensor('a.weight').data);
    const config = JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'));
    expect(config).toEqual({ torch_dtype: 'float16' });
  });

  it('take another dtype than that of dequantize, F32 too', async () => {
    const view = await dequantized(safeOpen(source));
    const values = view.getTensor('a.weight').toFloat32();
    const dtypes = ['F32', 'F16'] as const;
    for (const [i, dtype] of dtypes.entries()) {
      const target = temporaryPath('plain');
      const options = { ...fast, dequantize: dtypes[1 - i], dtype };
      const done = await convert(source, target, options);
      expect(done.dequantized).toEqual(['a.weight', 'b.weight']);
      const selected = temporaryPath('selected');
      await convert(source, selected, { ...options, names: ['a.weight'], dtype: () => dtype });
      for (const folder of [target, selected]) {
        const { dtype: found, data } = loadFile(folder).get('a.weight') as Tensor;
        expect(found).toBe(dtype);
        expect(data).toEqual(dtype === 'F32' ? values : fromFloat32(values, dtype));
      }
    }
  });

  it('count what is too large for F16', async () => {
    const folder = await modelOf(fp8, {
      'a.weight': { dtype: 'F8_E5M2', shape: [1, 4], content: [0x7b, 0x7b, 0x3c, 0x7c] },
      'a.weight_scale_inv': { dtype: 'F32', shape: [1, 1], content: [6] },
    });
    const done = await convert(folder, temporaryPath('plain'), { ...fast, dequantize: 'F16' });
    expect([...done.overflowed]).toEqual([['a.weight', 2]]);
  });

  it('finish what a killed call left: plain weights beside the old configuration', async () => {
    const text = readFileSync(join(source, 'config.json'));
    const options = { ...fast, dequantize: 'F16' } as const;
    await convert(source, source, options);
    const before = contents(source);
    writeFileSync(join(source, 'config.json'), text);
    writeFileSync(join(source, 'quantize_config.json'), '{}');
    const { deleted, dequantized } = await convert(source, source, options);
    expect([deleted, dequantized]).toEqual([['quantize_config.json'], []]);
    expect(contents(source)).toEqual(before);
  });

  it('keep metadata and aliases, but no count of codes', async () => {
    const folder = temporaryPath('counted');
    const data = new Uint8Array(32);
    const given = {
      'a.weight': { dtype: 'F8_E5M2', shape: [4, 8], data },
      'a.weight_scale_inv': { dtype: 'F32', shape: [1, 1], data: Float32Array.of(1) },
      b: { dtype: 'U8', shape: [32], data },
    } as const;
    const metadata = { total_parameters: '33', 'tied.weight': 'a.weight', license: 'mit' };
    await saveCheckpoint(folder, given, { ...saving, maxShardSize: 32, metadata });
    const options = { ...fast, dequantize: 'F16', maxShardSize: 32 } as const;
    await convert(folder, folder, { ...options, rename: { 'a.weight': 'c' } });
    using checkpoint = safeOpen(folder);
    const { metadata: kept, shards } = checkpoint;
    expect([...(kept ?? [])]).toEqual([
      ['total_size', '96'],
      ['tied.weight', 'c'],
      ['license', 'mit'],
    ]);
    expect(shards.length).toBe(2);
    expect(checkpoint.getTensor('tied.weight').dtype).toBe('F16');
  });

  it('read a config.json as Python writes it', async () => {
    const rest = '"torch_dtype": "bfloat16", "limits": [0.0, Infinity, NaN], "theta": 1e4';
    const quantization = JSON.stringify({ ...fp8, weight_block_size: [2, 4] });
    const blocks = {
      'a.weight': codes('F8_E5M2', [4, 8]),
      'a.weight_scale_inv': scales('F32', [2, 2]),
    };
    const folder = await modelOf(fp8, blocks);
    writeFileSync(join(folder, 'config.json'), `{"quantization_config": ${quantization}, ${rest}}`);
    const done = await convert(folder, folder, { ...fast, dequantize: 'F32' });
    expect(done.dequantized).toEqual(['a.weight']);
    const text = readFileSync(join(folder, 'config.json'), 'utf8');
    expect(text).toBe(`{${rest.replace('bfloat16', 'float32')}}`);
  });

  it('plan the same without writing', async () => {
    writeFileSync(join(source, 'hf_quant_config.json'), '{}');
    const options = { ...fast, dequantize: 'BF16', maxShardSize: 100 } as const;
    const before = contents(source);
    const plan = await convert(source, source, { ...options, dryRun: true });
    expect(contents(source)).toEqual(before);
    const target = await modelOf(fp8, tensors);
    for (const [name, text] of before) writeFileSync(join(target, name), text);
    const { overflowed, failedDeletions, files, path, ...done } = await convert(
      target,
      target,
      options,
    );
    const { files: planned, path: _path, ...known } = plan;
    expect(known).toEqual(done);
    expect(known.copied).toEqual(['config.json']);
    expect(known.deleted).toContain('hf_quant_config.json');
    expect(planned.map(({ name }) => name)).toEqual([...files, done.index, 'config.json']);
    expect(readdirSync(target).sort()).toEqual([...files, done.index, 'config.json'].sort());
    for (const { name, byteLength } of planned) {
      expect(readFileSync(join(target, name)).length).toBe(byteLength);
    }
  });

  it('copy other files, but not those about quantization', async () => {
    for (const name of ['tokenizer.json', 'quant_config.json'])
      writeFileSync(join(source, name), name);
    const target = temporaryPath('plain');
    const options = { ...fast, dequantize: 'BF16', copyOtherFiles: true } as const;
    const { copied } = await convert(source, target, options);
    expect(copied).toEqual(['tokenizer.json', 'config.json']);
    expect(readdirSync(target).sort()).toEqual([
      'config.json',
      'model.safetensors',
      'tokenizer.json',
    ]);
  });

  it('may lead into a file, but not into the source itself', async () => {
    const target = temporaryPath('plain.safetensors');
    const done = await convert(source, target, { ...fast, dequantize: 'BF16' });
    expect([...done.dequantized].sort()).toEqual(['a.weight', 'b.weight']);
    const one = temporaryPath('one');
    await convert(source, one, { ...fast, maxShardSize: Number.POSITIVE_INFINITY });
    const file = join(one, 'model.safetensors');
    await expect(convert(file, file, { dequantize: 'BF16' })).rejects.toThrow(
      /^target must be another file than the source, or its folder/,
    );
  });

  it('must be dtypes of weights, of safetensors', async () => {
    const wrong = convert(source, temporaryPath('x'), { dequantize: 'F8_E4M3' as never });
    await expect(wrong).rejects.toThrow('dequantize must be one of BF16, F16, F32');
    const torch = temporaryPath('model.npy');
    writeFileSync(torch, npy(headerOf('<f4', '(0,)'), Buffer.alloc(0)));
    await expect(convert(torch, temporaryPath('x'), { dequantize: 'F32' })).rejects.toThrow(
      'dequantize must be left out for a NumPy file',
    );
  });

  it('name all tensors that cannot be dequantized, unless they are left out', async () => {
    const { 'a.weight_scale_inv': _a, 'b.weight_scale_inv': _b, ...bad } = tensors;
    const folder = await modelOf(fp8, { ...bad, ...block('c', [4, 8]) });
    const before = contents(folder);
    const failed: unknown = await convert(folder, folder, { ...fast, dequantize: 'BF16' }).catch(
      (error: unknown) => error,
    );
    expect(failed).toBeInstanceOf(SelectionError);
    const { errors } = failed as SelectionError;
    expect(errors.map(({ code, tensor }) => [code, tensor])).toEqual([
      ['SAFETENSORS_QUANTIZATION_INVALID', 'a.weight'],
      ['SAFETENSORS_QUANTIZATION_INVALID', 'b.weight'],
    ]);
    expect(contents(folder)).toEqual(before);
    const names = (name: string): boolean => name.startsWith('c');
    const done = await convert(folder, folder, { ...fast, dequantize: 'BF16', names });
    expect(done.dequantized).toEqual(['c.weight']);
  });
});

describe('a failure on the way leaves the folder as it was', () => {
  const tensors = {
    ...block('a', [1000, 1357]),
    ...block('z', [1000, 1357]),
    'z.weight_scale_inv': { dtype: 'F32', shape: [8, 11], content: Array(88).fill(Number.NaN) },
  } as const;

  it('when a scale is NaN', async () => {
    const folder = await modelOf(fp8, tensors);
    const before = contents(folder);
    const failed = convert(folder, folder, { ...fast, dequantize: 'BF16', maxShardSize: '1MB' });
    await expect(failed).rejects.toMatchObject({
      code: 'SAFETENSORS_QUANTIZATION_INVALID',
      tensor: 'z.weight',
      path: join(folder, 'model.safetensors.index.json'),
    });
    expect(contents(folder)).toEqual(before);
  });

  it('when config.json is cut', async () => {
    const folder = await modelOf(fp8, block('a', [4, 8]));
    writeFileSync(join(folder, 'config.json'), '{"quantization_config": {');
    const before = contents(folder);
    await expect(convert(folder, folder, { dequantize: 'BF16' })).rejects.toThrow(
      /config\.json: expected a key in double quotes at configuration byte 25/,
    );
    expect(contents(folder)).toEqual(before);
  });

  it('when the signal ends it', async () => {
    const many = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => block(name, [1000, 1357]));
    const folder = await modelOf(fp8, Object.assign({}, ...many));
    const before = contents(folder);
    const controller = new AbortController();
    const { signal } = controller;
    const failed = convert(folder, folder, { ...fast, dequantize: 'BF16', signal });
    // Until the first temporary file is there.
    while (readdirSync(folder).length === before.length) await yieldNow();
    controller.abort();
    await expect(failed).rejects.toBe(signal.reason);
    expect(contents(folder)).toEqual(before);
  });
});
