import { createHash } from 'node:crypto';
import { cpSync, rmSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { call } from '../cli/call.js';
import { FileServer } from '../remote/download/file-server.js';
import {
  FormatError,
  openRemote,
  safeOpen,
  type VerifiableSource,
  VerificationError,
  verifyCheckpoint,
} from '../support/api.js';
import { HubCache } from '../support/hub-cache.js';
import { openFile, openNumpy, openTorchCheckpoint } from '../support/internal-openers.js';
import {
  type CheckpointDescription,
  filesOf,
  openUntilEnd,
  TWO_SHARDS,
  writeBelow,
  writeCheckpoint,
} from '../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { root } from '../support/source-tree.js';

const [FIRST = '', SECOND = ''] = Object.keys(TWO_SHARDS.shards);
const INDEX = 'model.safetensors.index.json';
const BOTH = { embed: FIRST, 'a.weight': FIRST, 'b.weight': SECOND, 'b.bias': SECOND };
const MISMATCH = 'SAFETENSORS_INDEX_MISMATCH';

describe('verifyCheckpoint', () => {
  it('finds nothing wrong with what is right, and says what it looked at', async () => {
    const none = { comparedTensors: 0, checks: [], notCompared: [] };
    expect(await verifyCheckpoint(writeCheckpoint(TWO_SHARDS))).toEqual({
      ...{ ok: true, checks: ['headers', 'index'], problems: [] },
      files: [
        { ...none, file: FIRST, tensors: 2, reason: 'no-digests' },
        { ...none, file: SECOND, tensors: 2, reason: 'no-digests' },
      ],
    });
    const file = writeTemporary([{ name: 'w', dtype: 'U8', shape: [2] }]);
    expect(await verifyCheckpoint(file, { hashes: false })).toEqual({
      ...{ ok: true, checks: ['headers'], problems: [] },
      files: [{ ...none, file: basename(file), tensors: 1, reason: 'skipped' }],
    });
  });

  it('lists all problems, each with its file and tensor, and goes on after each', async () => {
    const folder = writeCheckpoint({
      metadata: { total_size: '999' },
      shards: { ...TWO_SHARDS.shards, 'third.safetensors': [] },
      weightMap: { ...BOTH, 'a.weight': SECOND, gone: FIRST, x: 'third.safetensors' },
    });
    truncateSync(join(folder, 'third.safetensors'), 4);
    const { ok, problems } = await verifyCheckpoint(folder);
    expect(ok).toBe(false);
    expect(problems.map(({ file, tensor, code }) => [file, tensor, code])).toEqual([
      [FIRST, 'gone', MISMATCH],
      [FIRST, 'a.weight', MISMATCH],
      [SECOND, 'a.weight', MISMATCH],
      ['third.safetensors', null, 'SAFETENSORS_HEADER_TOO_SMALL'],
    ]);
  });

  it('compares total_size as verify() of an open checkpoint does, also as text', async () => {
    const folder = writeCheckpoint({ ...TWO_SHARDS, metadata: { total_size: '999' } });
    const problem = {
      ...{ file: INDEX, tensor: null, code: MISMATCH },
      message: 'total_size is 999, but the tensors have 34 bytes',
    };
    expect((await verifyCheckpoint(folder)).problems).toEqual([problem]);
  });

  it('lists missing shards, with which nothing can be opened', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    rmSync(join(folder, SECOND));
    const { problems } = await verifyCheckpoint(folder);
    expect(problems).toMatchObject([{ file: SECOND, tensor: null, code: 'ENOENT' }]);
    rmSync(join(folder, FIRST));
    expect((await verifyCheckpoint(join(folder, INDEX))).problems).toHaveLength(2);
  });

  it('says that an index or a folder cannot be opened, and why', async () => {
    const folder = temporaryPath('folder');
    writeBelow(folder, INDEX, '{');
    expect((await verifyCheckpoint(folder)).problems).toMatchObject([
      { file: INDEX, code: 'SAFETENSORS_INVALID_INDEX' },
    ]);
    rmSync(join(folder, INDEX));
    expect((await verifyCheckpoint(folder)).problems).toMatchObject([
      { file: basename(folder), code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND' },
    ]);
  });

  it('verifies every model of a pipeline, whatever is wrong with others', async () => {
    const folder = temporaryPath('pipeline');
    const bytes = fileBytes([{ name: 'w', dtype: 'U8', shape: [2] }]);
    writeBelow(folder, 'model_index.json', '{}');
    writeBelow(folder, `text_encoder/${INDEX}`, '{"weight_map":{}} ?');
    writeBelow(folder, 'unet/model.fp16.safetensors', bytes.subarray(0, 9));
    writeBelow(folder, 'vae/model.safetensors', bytes);
    expect((await verifyCheckpoint(folder)).problems).toMatchObject([
      { file: `text_encoder/${INDEX}`, code: 'SAFETENSORS_INVALID_INDEX' },
      { file: 'unet/model.fp16.safetensors', code: 'SAFETENSORS_INVALID_HEADER_LENGTH' },
    ]);
  });

  it('compares hashes that somebody claims, with one progress for all files', async () => {
    const folder = writeCheckpoint({
      ...TWO_SHARDS,
      fileOptions: { metadata: { 'modelspec.hash_sha256': '0xab' } },
    });
    const seen: { bytes: number; totalBytes: number }[] = [];
    const onProgress = (progress: { bytes: number; totalBytes: number }) => seen.push(progress);
    const { problems } = await verifyCheckpoint(folder, { onProgress });
    expect(problems.map(({ file, code }) => [file, code])).toEqual([
      [FIRST, 'SAFETENSORS_VERIFICATION_FAILED'],
      [SECOND, 'SAFETENSORS_VERIFICATION_FAILED'],
    ]);
    expect(problems[0]?.message).toMatch(
      /^modelspec\.hash_sha256 claims 0xab, found 0x[\da-f]{64}$/,
    );
    expect(seen.at(-1)?.bytes).toBe(seen.at(-1)?.totalBytes);
    expect((await verifyCheckpoint(folder, { hashes: false })).ok).toBe(true);
  });

  it('takes a right claim for right', async () => {
    const entries = [{ name: 'w', dtype: 'U8', shape: [2] }] as const;
    const bare = fileBytes(entries);
    const data = bare.subarray(
      8 + Number(new DataView(bare.buffer, bare.byteOffset).getBigUint64(0, true)),
    );
    const digest = createHash('sha256').update(data).digest('hex');
    const metadata = { 'modelspec.hash_sha256': `0x${digest}` };
    expect((await verifyCheckpoint(writeTemporary(entries, { metadata }))).ok).toBe(true);
  });

  it('rejects where nothing is, and when it was aborted', async () => {
    await expect(verifyCheckpoint('nothing/here.safetensors')).rejects.toMatchObject({
      code: 'ENOENT',
    });
    const reason = new Error('enough');
    const folder = writeCheckpoint(TWO_SHARDS);
    const signal = AbortSignal.abort(reason);
    await expect(verifyCheckpoint(folder, { signal })).rejects.toBe(reason);
    // @ts-expect-error no option of this name
    await expect(verifyCheckpoint(folder, { hash: true })).rejects.toThrow(TypeError);
  });
});

describe('verifyCheckpoint of a path in another format', () => {
  const torch = join(root, 'test/fixtures/torch');
  it.each([
    ['zip-state-dict.pt', 'zip-state-dict.pt', null],
    ['legacy-basic.pt', 'legacy-basic.pt', 'no-checksums'],
    ['np-savez.npz', 'np-savez.npz', null],
    ['np-x-npz-crc.npz', 'np-x-npz-crc.npz', null],
    ['a folder', 'zip-state-dict.pt', null],
  ] as const)('is what the command prints: %s', async (place, file, reason) => {
    const path = place === file ? join(torch, file) : temporaryPath('folder');
    if (place !== file) cpSync(join(torch, file), join(path, 'pytorch_model.bin'));
    const report = await verifyCheckpoint(path);
    const { stdout } = await call(['verify', path, '--json']);
    const { source: _, ...printed } = JSON.parse(stdout);
    expect(printed).toEqual(report);
    expect(report.ok).toBe(!file.endsWith('crc.npz'));
    expect(report.files).toMatchObject([{ reason }]);
    expect(report.checks).toEqual(reason === null ? ['headers', 'checksums'] : ['headers']);
  });

  it('lists all problems of shards', async () => {
    const folder = temporaryPath('shards');
    const index = writeBelow(
      folder,
      'pytorch_model.bin.index.json',
      '{"weight_map":{"v":"a.bin","w":"b.bin"}}',
    );
    writeBelow(folder, 'b.bin', 'junk');
    const { problems, files } = await verifyCheckpoint(index);
    expect(problems.map(({ file, code }) => [file, code])).toEqual([
      ['a.bin', 'ENOENT'],
      ['b.bin', 'SAFETENSORS_FOREIGN_FORMAT'],
    ]);
    expect(files.map(({ file, reason }) => [file, reason])).toEqual([
      ['a.bin', 'unreadable'],
      ['b.bin', 'unreadable'],
    ]);
  });

  it('takes the options of that format, and rejects those of others', async () => {
    const path = join(torch, 'zip-state-dict.pt');
    expect((await verifyCheckpoint(path, { root: [] })).ok).toBe(true);
    await expect(verifyCheckpoint(path, { voidDtype: 'BF16' })).rejects.toThrow(RangeError);
    await expect(verifyCheckpoint(writeCheckpoint(TWO_SHARDS), { root: [] })).rejects.toThrow(
      RangeError,
    );
  });
});

describe('verifyCheckpoint with a function', () => {
  const fixture = (name: string): string => join(root, 'test/fixtures/torch', name);

  it('refuses a function that opens no checkpoint', async () => {
    const all = { verify: () => {}, close: () => {} };
    const checks = { ...all, checks: 1 };
    for (const opened of [undefined, null, 7, {}, { verify: () => {} }, all, checks]) {
      await expect(verifyCheckpoint(() => opened as never)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG_TYPE',
      });
    }
  });

  it('closes what it refuses', async () => {
    const file = openFile(writeTemporary([{ name: 'a', dtype: 'U8', shape: [1] }]));
    await expect(verifyCheckpoint(() => file as never)).rejects.toThrow(TypeError);
    expect(file.ok).toBe(false);
  });

  it('verifies what it opens, and closes it', async () => {
    const checkpoint = openTorchCheckpoint(fixture('zip-state-dict.pt'));
    expect(await verifyCheckpoint(async () => checkpoint)).toEqual({
      ...{ ok: true, checks: ['headers', 'checksums'], problems: [] },
      files: [
        {
          ...{ file: 'zip-state-dict.pt', tensors: 7, comparedTensors: 7, checks: ['checksums'] },
          ...{ reason: null, notCompared: [] },
        },
      ],
    });
    expect([checkpoint.ok, checkpoint.checks]).toEqual([false, ['headers', 'checksums']]);
    const local = safeOpen(writeCheckpoint({ ...TWO_SHARDS, metadata: { total_size: 1 } }));
    expect(await verifyCheckpoint(() => local)).toMatchObject({
      ...{ ok: false, checks: ['headers', 'index'] },
      problems: [{ file: INDEX, tensor: null, code: MISMATCH }],
    });
    expect(local.ok).toBe(false);
  });

  it('lists wrong checksums, and says how far it is', async () => {
    const path = fixture('np-x-npz-crc.npz');
    const seen: number[] = [];
    const onProgress = ({ bytes }: { bytes: number }) => seen.push(bytes);
    const { ok, checks, problems } = await verifyCheckpoint(() => openNumpy(path), { onProgress });
    expect([ok, checks]).toEqual([false, ['headers', 'checksums']]);
    expect(problems.map(({ file, code }) => [file, code])).toEqual([
      [basename(path), 'SAFETENSORS_CHECKSUM_MISMATCH'],
    ]);
    expect(seen.length).toBeGreaterThan(0);
  });

  it('has an error of opening as the problem', async () => {
    const path = fixture('evil-os-system.pt');
    expect(await verifyCheckpoint(() => openTorchCheckpoint(path))).toEqual({
      ok: false,
      checks: ['headers'],
      problems: [
        {
          ...{ file: path, tensor: null, code: 'SAFETENSORS_FORBIDDEN_GLOBAL' },
          message: expect.not.stringContaining(path),
        },
      ],
      files: [],
    });
  });

  it('reads no bytes without hashes, and claims no checksums of files without', async () => {
    const wrong = fixture('np-x-npz-crc.npz');
    const quick = await verifyCheckpoint(() => openNumpy(wrong), { hashes: false });
    expect(quick).toMatchObject({
      ...{ ok: true, checks: ['headers'], problems: [], files: [{ reason: 'skipped' }] },
    });
    const legacy = await verifyCheckpoint(() => openTorchCheckpoint(fixture('legacy-basic.pt')));
    expect(legacy).toMatchObject({
      ...{ ok: true, checks: ['headers'], problems: [] },
      files: [{ file: 'legacy-basic.pt', comparedTensors: 0, reason: 'no-checksums' }],
    });
  });

  it('refuses a variant and a revision, which a function chooses by itself', async () => {
    const open = vi.fn();
    for (const options of [{ variant: 'fp16' }, { revision: 'main' }]) {
      await expect(verifyCheckpoint(open, options)).rejects.toThrow(TypeError);
    }
    expect(open).not.toHaveBeenCalled();
  });

  it('has all problems that an error holds', async () => {
    const problems = ['a', 'b'].map((file) => {
      return { file, tensor: null, code: 'ENOENT', message: 'no such file' };
    });
    const error = new VerificationError(problems, 'index');
    expect(await verifyCheckpoint(() => Promise.reject(error))).toMatchObject({ problems });
  });

  it('tells messages as they are, without a path that stands before them', async () => {
    const told = async (error: Error): Promise<unknown> =>
      (await verifyCheckpoint(() => Promise.reject(error))).problems;
    const code = 'SAFETENSORS_INVALID_OFFSET';
    const message = 'expected x: found y: x';
    expect(await told(new FormatError(code, message))).toEqual([
      { file: '', tensor: null, code, message },
    ]);
    expect(await told(new FormatError(code, message, { path: 'x', tensor: 't' }))).toEqual([
      { file: 'x', tensor: 't', code, message: `tensor "t": ${message}` },
    ]);
  });

  it('rejects with what is no problem of the files', async () => {
    const missing = fixture('missing.pt');
    await expect(verifyCheckpoint(() => openTorchCheckpoint(missing))).rejects.toMatchObject({
      code: 'ENOENT',
    });
    const closed = safeOpen(writeCheckpoint(TWO_SHARDS));
    closed.close();
    await expect(verifyCheckpoint(() => closed)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CLOSED',
    });
    const own = new Error('mine');
    await expect(verifyCheckpoint(() => Promise.reject(own))).rejects.toBe(own);
    const reason = new Error('enough');
    const signal = AbortSignal.abort(reason);
    const open = vi.fn();
    await expect(verifyCheckpoint(open, { signal })).rejects.toBe(reason);
    expect(open).not.toHaveBeenCalled();
    await expect(
      verifyCheckpoint(() => safeOpen('hf://org/not-in-the-cache')),
    ).rejects.toMatchObject({
      code: 'SAFETENSORS_NOT_IN_CACHE',
    });
  });
});

describe('a pipeline in the cache of the Hub', () => {
  afterEach(() => vi.unstubAllEnvs());

  it.each(['org/name', 'hf://org/name'])('is verified model by model: %s', async (id) => {
    const cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    cache.addPlain('model_index.json', '{}');
    cache.addPlain('unet/model.safetensors', fileBytes([{ name: 'w', dtype: 'U8', shape: [] }]));
    cache.addPlain('vae/diffusion_pytorch_model.fp16.safetensors', 'cut');
    const { checks, problems } = await verifyCheckpoint(id);
    expect(checks).toEqual(['headers', 'hashes']);
    expect(problems.map(({ file, code }) => [file, code])).toEqual([
      ['vae/diffusion_pytorch_model.fp16.safetensors', 'SAFETENSORS_HEADER_TOO_SMALL'],
    ]);
  });
});

describe('problems', () => {
  let server: FileServer;
  beforeEach(async () => {
    server = await FileServer.start();
  });
  afterEach(() => server.close());

  function serve(files: ReadonlyMap<string, Uint8Array>): void {
    for (const [name, bytes] of files) server.files.set(name, { bytes, tag: `"${name}"` });
  }

  const cases: readonly [string, CheckpointDescription][] = [
    ['a tensor that is nowhere', { ...TWO_SHARDS, weightMap: { ...BOTH, c: SECOND } }],
    [
      'tensors in the wrong shards',
      { ...TWO_SHARDS, weightMap: { ...BOTH, embed: SECOND, 'b.bias': FIRST } },
    ],
    ['a wrong total_size', { ...TWO_SHARDS, metadata: { total_size: 35.0 } }],
  ];

  it.each(cases)('have messages that do not repeat the file: %s', async (_, wrong) => {
    const { problems } = await verifyCheckpoint(writeCheckpoint(wrong));
    for (const { file, message } of problems) expect(message).not.toContain(file);
  });

  it.each(cases)(
    'are the same of a path, an open and a remote checkpoint: %s',
    async (_, wrong) => {
      const folder = writeCheckpoint(wrong);
      const { problems } = await verifyCheckpoint(folder);
      expect(problems.length).toBeGreaterThan(0);
      const local = await openUntilEnd(folder)
        .verify()
        .catch((error: unknown) => error);
      expect(local).toBeInstanceOf(VerificationError);
      expect((local as VerificationError).problems).toEqual(problems);
      serve(filesOf(wrong));
      using checkpoint = await openRemote(server.url(INDEX));
      const remote = await checkpoint.verify().catch((error: unknown) => error);
      expect((remote as VerificationError).problems).toEqual(problems);
    },
  );

  it('of a remote checkpoint name shards that are missing or bad, and nothing is secret', async () => {
    const files = filesOf(TWO_SHARDS);
    files.delete(FIRST);
    files.set(SECOND, (files.get(SECOND) as Uint8Array).subarray(0, 20));
    serve(files);
    using checkpoint = await openRemote(`${server.url(INDEX)}?sig=geheim`);
    const error = await checkpoint.verify().catch((reason: unknown) => reason);
    const opened = await openRemote(`${server.url(INDEX)}?sig=geheim`);
    const report = await verifyCheckpoint(() => opened, { onProgress: () => {} });
    expect(report.checks).toEqual(['headers', 'index']);
    expect(report.problems).toEqual((error as VerificationError).problems);
    const source: VerifiableSource = checkpoint;
    const noBytes = { onProgress: () => {}, checksums: false };
    await expect(source.verify(noBytes)).rejects.toEqual(error);
    await expect(source.verify({ checksums: 1 as never })).rejects.toThrow(TypeError);
    expect(opened.ok).toBe(false);
    expect((error as VerificationError).problems).toMatchObject([
      { file: FIRST, code: 'SAFETENSORS_REMOTE_NOT_FOUND' },
      { file: SECOND, code: 'SAFETENSORS_INVALID_HEADER_LENGTH' },
    ]);
    expect(JSON.stringify((error as VerificationError).problems)).not.toContain('geheim');
  });
});
