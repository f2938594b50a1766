/** What is verified of a DDUF archive besides its models' headers, and what else is read. */
import { createHash } from 'node:crypto';
import { readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { call, printed } from '../../cli/call.js';
import {
  type Checkpoint,
  dequantized,
  openLocalPipeline,
  type VerificationReport,
  verify,
} from '../../support/api.js';
import { intercept } from '../../support/intercept.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { storedArchive } from '../stored-archive.js';
import { FILES } from './pipeline-files.js';

const WEIGHTS = 'unet/diffusion_pytorch_model.safetensors';

const VALUES = { a: Float32Array.of(1, 2), b: Float32Array.of(3) };

/** A file with sums of its tensors, of which those of the names are wrong, and a hash of all. */
function withSums(wrong: readonly string[], hash?: string): Uint8Array {
  const bytesOf = (data: Float32Array): Uint8Array => new Uint8Array(data.buffer);
  const sums = Object.entries(VALUES).map(([name, data]) =>
    createHash('sha256')
      .update(wrong.includes(name) ? 'other' : bytesOf(data))
      .digest('hex'),
  );
  const declaredHashes = hash === undefined ? {} : { 'modelspec.hash_sha256': hash };
  const entries = Object.entries(VALUES).map(([name, data]) => {
    return { name, dtype: 'F32', shape: [data.length], bytes: bytesOf(data) } as const;
  });
  return fileBytes(entries, {
    metadata: { 'safetensors-mmap.sha256': sums.join(''), ...declaredHashes },
  });
}

function archiveOf(files: Readonly<Record<string, string | Uint8Array>>): string {
  const path = temporaryPath('pipeline.dduf');
  writeFileSync(path, storedArchive({ ...FILES, ...files }));
  return path;
}

function flip(path: string, content: Uint8Array | string): void {
  const bytes = readFileSync(path);
  const at = bytes.indexOf(content) + Buffer.from(content as string).length - 1;
  bytes[at] = (bytes[at] as number) ^ 1;
  writeFileSync(path, bytes);
}

async function verified(path: string, headersOnly = false): Promise<VerificationReport> {
  using pipeline = await openLocalPipeline(path, { skipFailed: true });
  return await verify(pipeline, { headersOnly });
}

describe('verify', () => {
  it('compares every entry with its checksum, weights or not', async () => {
    const path = archiveOf({ 'scheduler/scheduler_config.json': '{"steps":1000}' });
    const progress: number[] = [];
    const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }): void =>
      void progress.push(bytes / totalBytes);
    using pipeline = await openLocalPipeline(path);
    expect((await pipeline.verify({ onProgress })).problems).toEqual([]);
    expect(progress.at(-1)).toBe(1);
    expect(progress).toEqual(progress.toSorted((a, b) => a - b));
    expect(pipeline.checks).toEqual(['headers', 'index', 'checksums']);
    flip(path, '{"steps":1000}');
    flip(path, FILES[WEIGHTS]);
    const code = 'SAFETENSORS_CHECKSUM_MISMATCH';
    const { ok, problems, checks } = await verified(path);
    expect([ok, checks]).toEqual([false, ['headers', 'index', 'checksums']]);
    expect(problems).toEqual([
      expect.objectContaining({ file: 'scheduler/scheduler_config.json', code }),
      expect.objectContaining({ file: WEIGHTS, code, message: expect.stringContaining('CRC-32') }),
    ]);
    const quick = await verified(path, true);
    expect(quick).toMatchObject({ ok: true, checks: ['headers', 'index'], problems: [] });
    expect(quick.files.map(({ reason }) => reason)).toEqual(quick.files.map(() => 'skipped'));
    using again = await openLocalPipeline(path);
    expect(await again.verify()).toMatchObject({ ok: false, problems, checks });
    expect((await again.verify({ headersOnly: true })).problems).toEqual([]);
  });

  it('compares many small entries with the buffers of a few', async () => {
    const files = Array.from({ length: 300 }, (_, i) => [`unet/file-${i}.json`, `content ${i}`]);
    const path = archiveOf(Object.fromEntries(files));
    flip(path, 'content 70');
    flip(path, 'content 299');
    const buffers = new Set<ArrayBufferLike>();
    intercept('read', (own, args) => {
      const [, bytes] = args as unknown as [fd: number, bytes: Uint8Array];
      buffers.add(bytes.buffer);
      return own(...args);
    });
    const { problems } = await verified(path);
    expect(problems.map(({ file }) => file)).toEqual(['unet/file-70.json', 'unet/file-299.json']);
    const byteLength = [...buffers].reduce((sum, buffer) => sum + buffer.byteLength, 0);
    expect(byteLength).toBeGreaterThan(0);
    expect(byteLength).toBeLessThan(8 * 2 ** 20);
  });

  it('compares the sums and hashes that the metadata declare', async () => {
    const good = archiveOf({ [WEIGHTS]: withSums([]) });
    expect((await verified(good)).problems).toEqual([]);
    const bad = archiveOf({ [WEIGHTS]: withSums(['b'], `0x${'0'.repeat(64)}`) });
    expect((await verified(bad)).problems).toMatchObject([
      { file: WEIGHTS, tensor: null, code: 'SAFETENSORS_VERIFICATION_FAILED' },
      { file: WEIGHTS, tensor: 'b', code: 'SAFETENSORS_CHECKSUM_MISMATCH' },
    ]);
    const { problems } = JSON.parse((await call(['verify', bad, '--json'])).stdout);
    expect(problems).toHaveLength(2);
  });

  it('can be aborted, and notices that the archive changed', async () => {
    const path = archiveOf({});
    using pipeline = await openLocalPipeline(path);
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(pipeline.verify({ signal })).rejects.toThrow('enough');
    utimesSync(path, 1, 1);
    writeFileSync(path, storedArchive({ ...FILES, 'scheduler/scheduler_config.json': '{"a":1}' }));
    const code = 'SAFETENSORS_FILE_CHANGED';
    // Those of the models are kept when an error ends the reading of the archive.
    const report = await pipeline.verify();
    expect(report).toMatchObject({
      ok: false,
      problems: [
        { file: 'text_encoder/model-00001-of-00002.safetensors', code },
        { file: 'text_encoder/model-00002-of-00002.safetensors', code },
        { file: WEIGHTS, code },
        { file: 'pipeline.dduf', code },
      ],
    });
    expect(await verify(pipeline)).toEqual(await pipeline.verify());
  });
});

describe('a configuration in an archive', () => {
  const quantization_config = { quant_method: 'fp8', weight_block_size: [2, 2] };
  const QUANTIZED = {
    [WEIGHTS]: fileBytes([
      { name: 'up.weight', dtype: 'F8_E4M3', shape: [2, 2], bytes: new Uint8Array(4).fill(0x38) },
      {
        name: 'up.weight_scale_inv',
        dtype: 'F32',
        shape: [1, 1],
        bytes: Buffer.from([0, 0, 0, 64]),
      },
    ]),
    'unet/config.json': JSON.stringify({ quantization_config }),
  };

  it('says how the weights of its model are quantized', async () => {
    const path = archiveOf(QUANTIZED);
    using pipeline = await openLocalPipeline(path);
    const unet = pipeline.models.get('unet');
    expect((await unet?.summary())?.quantization).toBe('fp8');
    const encoder = pipeline.models.get('text_encoder');
    expect((await encoder?.summary())?.quantization).toBeNull();
    const model = await dequantized(unet as Checkpoint);
    expect(await model.getTensor('up.weight').toFloat32Async()).toEqual(
      new Float32Array(4).fill(2),
    );
    const { components } = JSON.parse(await printed(['inspect', path, '--json']));
    expect(components.unet).toMatchObject({ quantization: 'fp8' });
  });
});
