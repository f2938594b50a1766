/** Quantized checkpoints written as plain ones, by `convert`. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import {
  convert,
  fromFloat32,
  loadFile,
  safeOpen,
  type Tensor,
  type TensorEntry,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';

interface Fixture {
  readonly id: string;
  readonly expect: 'dequantize' | 'refuse';
  readonly logical?: Readonly<Record<string, unknown>>;
  readonly plain?: readonly string[];
}

const folder = join(root, 'test/fixtures/quantized');
const { fixtures }: { fixtures: readonly Fixture[] } = JSON.parse(
  readFileSync(join(folder, 'manifest.json'), 'utf8'),
);
const exact = fixtures.filter((fixture) => fixture.expect === 'dequantize');
const refused = fixtures.filter((fixture) => fixture.expect === 'refuse');
const fast = { durable: false, overwrite: true };
const DTYPES = ['BF16', 'F16', 'F32'] as const;
const TORCH_DTYPES = { BF16: 'bfloat16', F16: 'float16', F32: 'float32' };

/** A copy of a fixture's checkpoint, to write into. */
function copyOf(id: string): string {
  const target = temporaryPath(id);
  cpSync(join(folder, id), target, {
    recursive: true,
    filter: (path) => !/expected|reference/.test(path),
  });
  return target;
}

function factsOf(tensor: Tensor | undefined): unknown {
  return [tensor?.dtype, tensor?.shape, tensor?.bytes];
}

/** One sign for zeros, where the reference loses it. */
function bits(values: Float32Array, isSignFree: boolean): Uint32Array {
  return new Uint32Array(values.map((value) => (isSignFree && value === 0 ? 0 : value)).buffer);
}

describe.each(exact.map((fixture) => [fixture.id, fixture] as const))('%s', (id, fixture) => {
  const expected = loadFile(join(folder, id, 'expected.safetensors'));
  const isSignFree = id.startsWith('modelopt-nvfp4');
  const logical = Object.keys(fixture.logical ?? {}).sort();

  it.each(DTYPES)('has the values of the reference as %s', async (dtype) => {
    const target = temporaryPath('plain');
    const done = await convert(join(folder, id), target, { ...fast, dequantize: dtype });
    expect([...done.dequantized].sort()).toEqual(logical);
    expect([done.cast, done.notCast, done.excluded]).toEqual([[], [], []]);
    const written = loadFile(target);
    expect([...written.keys()].sort()).toEqual([...logical, ...(fixture.plain ?? [])].sort());
    for (const name of logical) {
      const [found, wanted] = [written.get(name) as Tensor, expected.get(name) as Tensor];
      expect([found.dtype, found.shape]).toEqual([dtype, wanted.shape]);
      const values = wanted.toFloat32();
      if (dtype === 'F32') {
        expect(bits(found.toFloat32(), isSignFree)).toEqual(bits(values, isSignFree));
      } else if (!isSignFree) {
        expect(found.data).toEqual(fromFloat32(values, dtype));
      } else {
        const rounded = fromFloat32(values, dtype).map((one) => (one === 0x8000 ? 0 : one));
        expect((found.data as Uint16Array).map((one) => (one === 0x8000 ? 0 : one))).toEqual(
          rounded,
        );
      }
    }
    for (const name of fixture.plain ?? []) {
      expect(factsOf(written.get(name))).toEqual(factsOf(expected.get(name)));
    }
  });

  it('leaves a config without quantization, and needs no second time', async () => {
    const target = copyOf(id);
    const before = JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'));
    writeFileSync(join(target, 'quantize_config.json'), '{}');
    await convert(target, target, { ...fast, dequantize: 'F16' });
    const config = JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'));
    const { quantization_config, quantization, compression_config, ...rest } = before;
    for (const key of ['dtype', 'torch_dtype']) if (key in rest) rest[key] = TORCH_DTYPES.F16;
    expect(config).toEqual(rest);
    expect(existsSync(join(target, 'quantize_config.json'))).toBe(false);
    const names = safeOpen(target).keys();
    const again = await convert(target, target, { ...fast, dequantize: 'F32' });
    expect(again.dequantized).toEqual([]);
    expect(again.copied).toEqual([]);
    expect(safeOpen(target).keys()).toEqual(names);
  });
});

describe('sums of quantized tensors', () => {
  /** A checkpoint with sums; `damaged` changes the last byte of that tensor. */
  async function summed(damaged?: string): Promise<string> {
    const folder = temporaryPath(`summed-${damaged}`);
    const options = { ...fast, digests: true, copyOtherFiles: true };
    await convert(copyOf('gptq-4bit-sym-v1'), folder, options);
    if (damaged === undefined) return folder;
    using file = safeOpen(folder);
    const entry = (await file.tensors()).find(({ name }) => name === damaged) as TensorEntry;
    const path = join(folder, entry.file);
    const bytes = readFileSync(path);
    const at = 8 + Number(bytes.readBigUInt64LE()) + entry.dataOffsets[1] - 1;
    bytes[at] = (bytes[at] as number) ^ 1;
    writeFileSync(path, bytes);
    return folder;
  }

  /** A pipeline of diffusers whose only model that is. */
  function pipelineOf(folder: string): string {
    const pipeline = `${folder}-pipeline`;
    cpSync(folder, join(pipeline, 'transformer'), { recursive: true });
    const index = { transformer: ['diffusers', 'FluxTransformer2DModel'] };
    writeFileSync(join(pipeline, 'model_index.json'), JSON.stringify(index));
    return pipeline;
  }

  it('are compared before weights are computed, unless verify is false', async () => {
    const good = await summed();
    const quantized = safeOpen(good)
      .keys()
      .filter((name) => /\.(?:qweight|scales)$/.test(name));
    expect(quantized.length).toBeGreaterThan(1);
    await convert(good, temporaryPath('good'), { ...fast, dequantize: 'BF16' });
    for (const tensor of quantized) {
      const bad = await summed(tensor);
      const target = temporaryPath(`of-${tensor}`);
      const failed = convert(bad, target, { ...fast, dequantize: 'BF16' });
      await expect(failed).rejects.toMatchObject({ code: 'SAFETENSORS_CHECKSUM_MISMATCH', tensor });
      expect(existsSync(join(target, 'model.safetensors'))).toBe(false);
      await convert(bad, target, { ...fast, dequantize: 'BF16', verify: false });
      const pipeline = pipelineOf(bad);
      const plain = temporaryPath(`pipeline-of-${tensor}`);
      const refused = convert(pipeline, plain, { ...fast, dequantize: 'BF16' });
      await expect(refused).rejects.toMatchObject({
        code: 'SAFETENSORS_CHECKSUM_MISMATCH',
        tensor,
      });
    }
  });
});

it.each(refused.map(({ id }) => id))(
  '%s is refused, and the folder stays as it was',
  async (id) => {
    const target = copyOf(id);
    const content = (): [string, Buffer][] =>
      readdirSync(target).map((name) => [name, readFileSync(join(target, name))]);
    const before = content();
    const failed = convert(target, target, { ...fast, dequantize: 'BF16' });
    await expect(failed).rejects.toMatchObject({ code: 'SAFETENSORS_QUANTIZATION_INVALID' });
    expect(content()).toEqual(before);
  },
);

it.runIf(process.platform !== 'win32')(
  'reads links of the cache, and leaves its blobs',
  async () => {
    const repository = temporaryPath('models--org--name');
    const snapshot = join(repository, 'snapshots', 'c'.repeat(40));
    mkdirSync(snapshot, { recursive: true });
    const blobs = join(repository, 'blobs');
    cpSync(copyOf('fp8-block-ragged'), blobs, { recursive: true });
    for (const name of readdirSync(blobs)) symlinkSync(`../../blobs/${name}`, join(snapshot, name));
    const target = temporaryPath('plain');
    const { copied } = await convert(snapshot, target, { ...fast, dequantize: 'F32' });
    expect(copied).toEqual(['config.json']);
    const config = JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'));
    expect([config.quantization_config, config.torch_dtype]).toEqual([undefined, 'float32']);
    await expect(convert(snapshot, snapshot, { ...fast, dequantize: 'F32' })).rejects.toMatchObject(
      { code: 'SAFETENSORS_HUB_CACHE_BLOB' },
    );
    const blob = readFileSync(join(blobs, 'config.json'));
    expect(blob).toEqual(readFileSync(join(folder, 'fp8-block-ragged', 'config.json')));
    // Files in a folder of the cache that leads elsewhere are not read.
    const elsewhere = copyOf('fp8-block-ragged');
    rmSync(join(elsewhere, 'config.json'));
    symlinkSync(join(blobs, 'config.json'), join(elsewhere, 'config.json'));
    await expect(convert(elsewhere, target, { ...fast, dequantize: 'F32' })).rejects.toMatchObject({
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
    });
  },
);
