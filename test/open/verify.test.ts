import { createHash } from 'node:crypto';
import { cpSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { VerifiableSource } from '../../src/file/checkpoint/verify.js';
import { call } from '../cli/call.js';
import { storedArchive } from '../foreign/stored-archive.js';
import { FileServer } from '../remote/download/file-server.js';
import { open, openPipeline, openRemote, parse, safeOpen, verify } from '../support/api.js';
import { HubCache } from '../support/hub-cache.js';
import { HubServer } from '../support/hub-server.js';
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

describe('verify', () => {
  it('finds nothing wrong with what is right, and says what it looked at', async () => {
    const none = { comparedTensors: 0, checks: [], notCompared: [] };
    expect(await verify(writeCheckpoint(TWO_SHARDS))).toEqual({
      ...{ ok: true, checks: ['headers', 'index'], problems: [] },
      files: [
        { ...none, file: FIRST, tensors: 2, reason: 'no-digests' },
        { ...none, file: SECOND, tensors: 2, reason: 'no-digests' },
      ],
    });
    const file = writeTemporary([{ name: 'w', dtype: 'U8', shape: [2] }]);
    expect(await verify(file, { headersOnly: true })).toEqual({
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
    const { ok, problems } = await verify(folder);
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
    expect((await verify(folder)).problems).toEqual([problem]);
  });

  it('lists missing shards, with which nothing can be opened', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    rmSync(join(folder, SECOND));
    const { problems } = await verify(folder);
    expect(problems).toMatchObject([{ file: SECOND, tensor: null, code: 'ENOENT' }]);
    rmSync(join(folder, FIRST));
    expect((await verify(join(folder, INDEX))).problems).toHaveLength(2);
  });

  it('says that an index or a folder cannot be opened, and why', async () => {
    const folder = temporaryPath('folder');
    writeBelow(folder, INDEX, '{');
    expect((await verify(folder)).problems).toMatchObject([
      { file: INDEX, code: 'SAFETENSORS_INVALID_INDEX' },
    ]);
    rmSync(join(folder, INDEX));
    expect((await verify(folder)).problems).toMatchObject([
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
    expect((await verify(folder)).problems).toMatchObject([
      { file: `text_encoder/${INDEX}`, code: 'SAFETENSORS_INVALID_INDEX' },
      { file: 'unet/model.fp16.safetensors', code: 'SAFETENSORS_INVALID_HEADER_LENGTH' },
    ]);
  });

  it('compares declared hashes, with one progress for all files', async () => {
    const folder = writeCheckpoint({
      ...TWO_SHARDS,
      fileOptions: { metadata: { 'modelspec.hash_sha256': '0xab' } },
    });
    const seen: { bytes: number; totalBytes: number }[] = [];
    const onProgress = (progress: { bytes: number; totalBytes: number }) => seen.push(progress);
    const { problems } = await verify(folder, { onProgress });
    expect(problems.map(({ file, code }) => [file, code])).toEqual([
      [FIRST, 'SAFETENSORS_VERIFICATION_FAILED'],
      [SECOND, 'SAFETENSORS_VERIFICATION_FAILED'],
    ]);
    expect(problems[0]?.message).toMatch(
      /^modelspec\.hash_sha256 declares 0xab, found 0x[\da-f]{64}$/,
    );
    expect(seen.at(-1)?.bytes).toBe(seen.at(-1)?.totalBytes);
    expect((await verify(folder, { headersOnly: true })).ok).toBe(true);
  });

  it('accepts a right hash', async () => {
    const entries = [{ name: 'w', dtype: 'U8', shape: [2] }] as const;
    const bare = fileBytes(entries);
    const data = bare.subarray(
      8 + Number(new DataView(bare.buffer, bare.byteOffset).getBigUint64(0, true)),
    );
    const digest = createHash('sha256').update(data).digest('hex');
    const metadata = { 'modelspec.hash_sha256': `0x${digest}` };
    expect((await verify(writeTemporary(entries, { metadata }))).ok).toBe(true);
  });

  it('rejects where nothing is, and when it was aborted', async () => {
    await expect(verify('nothing/here.safetensors')).rejects.toMatchObject({
      code: 'ENOENT',
    });
    const reason = new Error('enough');
    const folder = writeCheckpoint(TWO_SHARDS);
    const signal = AbortSignal.abort(reason);
    await expect(verify(folder, { signal })).rejects.toBe(reason);
    // @ts-expect-error no option of this name
    await expect(verify(folder, { hash: true })).rejects.toThrow(TypeError);
  });
});

describe('verify of a path in another format', () => {
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
    const report = await verify(path);
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
    const { problems, files } = await verify(index);
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
    expect((await verify(path, { root: [] })).ok).toBe(true);
    await expect(verify(path, { voidDtype: 'BF16' })).rejects.toThrow(RangeError);
    await expect(verify(writeCheckpoint(TWO_SHARDS), { root: [] })).rejects.toThrow(RangeError);
  });
});

describe('verify of a handle', () => {
  const fixture = (name: string): string => join(root, 'test/fixtures/torch', name);
  const bytes = fileBytes([{ name: 'w', dtype: 'U8', shape: [2] }]);
  const index = JSON.stringify({ unet: ['diffusers', 'UNet2DConditionModel'] });
  const PIPELINE = { 'model_index.json': index, 'unet/model.safetensors': bytes };
  let server: FileServer;
  let hub: HubServer;
  beforeAll(async () => {
    server = await FileServer.start();
    server.files.set('model.safetensors', { bytes, tag: '"1"' });
    hub = await HubServer.start({ 'org/pipe': { files: PIPELINE } });
  });
  beforeEach(() => {
    vi.stubEnv('HF_ENDPOINT', hub.url);
    vi.stubEnv('HF_HUB_OFFLINE', '');
  });
  afterEach(() => vi.unstubAllEnvs());
  afterAll(async () => {
    await server.close();
    await hub.close();
  });

  function pipelineFolder(): string {
    const folder = temporaryPath('pipeline');
    for (const [path, content] of Object.entries(PIPELINE)) writeBelow(folder, path, content);
    return folder;
  }

  function archive(): string {
    const path = temporaryPath('pipeline.dduf');
    writeFileSync(path, storedArchive({ ...PIPELINE, 'unet/config.json': '{}' }));
    return path;
  }

  it.each([
    ['a file', () => writeTemporary([{ name: 'w', dtype: 'U8', shape: [2] }])],
    ['a folder', () => writeCheckpoint(TWO_SHARDS)],
    ['a PyTorch file', () => fixture('zip-state-dict.pt')],
    ['a PyTorch file without checksums', () => fixture('legacy-basic.pt')],
    ['NumPy arrays', () => fixture('np-savez.npz')],
    ['wrong checksums', () => fixture('np-x-npz-crc.npz')],
    ['a wrong index', () => writeCheckpoint({ ...TWO_SHARDS, metadata: { total_size: 1 } })],
  ])('has the report of the path, and leaves the handle open: %s', async (_, place) => {
    const path = place();
    using checkpoint = await open(path, { remote: false });
    for (const headersOnly of [false, true]) {
      const report = await verify(checkpoint, { headersOnly });
      expect(report).toEqual(await verify(path, { headersOnly }));
      expect(report.files).not.toEqual([]);
    }
    expect(checkpoint.ok).toBe(true);
    expect(checkpoint.getTensor(checkpoint.keys()[0] as string).bytes).toBeInstanceOf(Uint8Array);
  });

  it.each([
    ['a folder', pipelineFolder],
    ['a DDUF archive', archive],
  ])('has the report of the path, and leaves a pipeline open: %s', async (_, place) => {
    const path = place();
    const pipeline = await openPipeline(path);
    expect(await verify(pipeline)).toEqual(await verify(path));
    const [model] = pipeline.models.values();
    expect(model?.ok).toBe(true);
    pipeline.close();
    expect(model?.ok).toBe(false);
  });

  it('compares nothing of bytes in memory', async () => {
    const unread = { file: '', tensors: 1, comparedTensors: 0, checks: [], notCompared: [] };
    using checkpoint = parse(bytes);
    expect(await verify(checkpoint)).toEqual({
      ...{ ok: true, checks: ['headers'], problems: [], files: [{ ...unread, reason: 'skipped' }] },
    });
    expect(checkpoint.getTensor('w').shape).toEqual([2]);
  });

  it('reads no tensor of remote handles, and leaves them open', async () => {
    const unread = { tensors: 1, comparedTensors: 0, checks: [], notCompared: [] };
    const expected = { ok: true, checks: ['headers'], problems: [] };
    using checkpoint = await openRemote(server.url('model.safetensors'));
    using blob = await openRemote(new Blob([bytes]));
    for (const opened of [checkpoint, blob]) {
      const files = [{ ...unread, file: expect.any(String), reason: 'not-read' }];
      expect(await verify(opened)).toEqual({ ...expected, files });
      expect(await verify(opened, { headersOnly: true })).toMatchObject({
        ...{ ...expected, files: [{ reason: 'skipped' }] },
      });
      expect((await opened.getTensor('w')).shape).toEqual([2]);
    }
    using pipeline = await openPipeline('hf://org/pipe');
    expect(await verify(pipeline)).toEqual({
      ...{
        ...expected,
        files: [{ ...unread, file: 'unet/model.safetensors', reason: 'not-read' }],
      },
    });
    expect((await pipeline.models.get('unet')?.getTensor('w'))?.shape).toEqual([2]);
  });

  it('reports the models of a pipeline that cannot be opened', async () => {
    const folder = pipelineFolder();
    writeBelow(folder, 'vae/model.safetensors', 'cut');
    const pipeline = await openPipeline(folder, { skipFailed: true });
    const report = await verify(pipeline);
    pipeline.close();
    expect(report.problems).toMatchObject([
      { file: 'vae/model.safetensors', code: 'SAFETENSORS_HEADER_TOO_SMALL' },
    ]);
    expect(report.problems).toEqual((await verify(folder)).problems);
  });

  it('reports progress', async () => {
    using checkpoint = await open(fixture('np-x-npz-crc.npz'), { remote: false });
    const seen: number[] = [];
    const onProgress = ({ bytes }: { bytes: number }) => seen.push(bytes);
    const { problems } = await verify(checkpoint, { onProgress });
    expect(problems.map(({ code }) => code)).toEqual(['SAFETENSORS_CHECKSUM_MISMATCH']);
    expect(seen.length).toBeGreaterThan(0);
  });

  it('passes the options of its method only', async () => {
    const report = { ok: true, checks: [], problems: [], files: [] };
    const method = vi.fn(async () => report);
    const onProgress = (): void => {};
    const { signal } = new AbortController();
    expect(await verify({ verify: method }, { headersOnly: true, signal, onProgress })).toBe(
      report,
    );
    expect(method.mock.calls).toEqual([[{ headersOnly: true, signal, onProgress }]]);
  });

  it('rejects options that select what a path opens', async () => {
    const method = vi.fn();
    for (const options of [{ variant: 'fp16' }, { revision: 'main' }, { root: [] }]) {
      const [name] = Object.keys(options);
      await expect(verify({ verify: method }, options)).rejects.toMatchObject({
        ...{ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' },
        message: `${name} must be left out for an open handle`,
      });
    }
    // @ts-expect-error no option of this name
    await expect(verify({ verify: method }, { checksums: true })).rejects.toThrow(TypeError);
    await expect(verify({ verify: method }, { headersOnly: 1 as never })).rejects.toThrow(
      TypeError,
    );
    expect(method).not.toHaveBeenCalled();
  });

  it('rejects if it is closed or aborted, and with any error that is not about the files', async () => {
    const closed = safeOpen(writeCheckpoint(TWO_SHARDS));
    closed.close();
    await expect(verify(closed)).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
    const reason = new Error('enough');
    const method = vi.fn(() => Promise.reject(reason));
    const signal = AbortSignal.abort(reason);
    await expect(verify({ verify: method }, { signal })).rejects.toBe(reason);
    expect(method).not.toHaveBeenCalled();
    await expect(verify({ verify: method })).rejects.toBe(reason);
  });
});

it.each([
  ['undefined', undefined],
  ['null', null],
  ['a number', 7],
  ['an object', {}],
  ['an array', []],
  ['a function', () => 'model.safetensors'],
  ['a function with the method', Object.assign(() => {}, { verify: () => {} })],
  ['an object with a property of that name', { verify: true }],
  ['bytes', new Uint8Array(8)],
  ['a Blob', new Blob([])],
])('verify rejects any other source with a TypeError: %s', async (_, source) => {
  await expect(verify(source as never)).rejects.toMatchObject({
    ...{ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' },
    message: expect.stringMatching(
      /^source must be a path, a file: URL, an open checkpoint or an open pipeline, but is /,
    ),
  });
});

describe('verify of a path', () => {
  const fixture = (name: string): string => join(root, 'test/fixtures/torch', name);

  it('closes what it opened, whatever the report', async () => {
    for (const [name, ok] of [
      ['zip-state-dict.pt', true],
      ['np-x-npz-crc.npz', false],
    ] as const) {
      const path = fixture(name);
      using other = await open(path, { remote: false });
      const close = vi.spyOn(Object.getPrototypeOf(other), 'close');
      const report = await verify(path);
      const [closed, ...more] = close.mock.contexts as (typeof other)[];
      close.mockRestore();
      expect(report).toMatchObject({ ok, checks: ['headers', 'checksums'] });
      expect(report.problems).toHaveLength(ok ? 0 : 1);
      expect([closed?.path, closed?.ok, closed?.checks]).toEqual([path, false, report.checks]);
      expect([more, other.ok]).toEqual([[], true]);
    }
  });

  it('reports an error of opening as the problem', async () => {
    const path = fixture('evil-os-system.pt');
    expect(await verify(path)).toEqual({
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

  it('rejects for a missing file of another format, and when it is aborted', async () => {
    const missing = fixture('missing.pt');
    await expect(verify(missing)).rejects.toMatchObject({ code: 'ENOENT' });
    const own = new Error('mine');
    const signal = AbortSignal.abort(own);
    await expect(verify(fixture('zip-state-dict.pt'), { signal })).rejects.toBe(own);
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
    const { checks, problems } = await verify(id);
    expect(checks).toEqual(['headers', 'digests']);
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
    const { problems } = await verify(writeCheckpoint(wrong));
    for (const { file, message } of problems) expect(message).not.toContain(file);
  });

  it.each(cases)(
    'are the same of a path, an open and a remote checkpoint: %s',
    async (_, wrong) => {
      const folder = writeCheckpoint(wrong);
      const { problems } = await verify(folder);
      expect(problems.length).toBeGreaterThan(0);
      expect((await openUntilEnd(folder).verify()).problems).toEqual(problems);
      serve(filesOf(wrong));
      using checkpoint = await openRemote(server.url(INDEX));
      expect((await checkpoint.verify()).problems).toEqual(problems);
    },
  );

  it('of a remote checkpoint name shards that are missing or bad, and nothing is secret', async () => {
    const files = filesOf(TWO_SHARDS);
    files.delete(FIRST);
    files.set(SECOND, (files.get(SECOND) as Uint8Array).subarray(0, 20));
    serve(files);
    using checkpoint = await openRemote(`${server.url(INDEX)}?sig=geheim`);
    const ofMethod = await checkpoint.verify();
    const opened = await openRemote(`${server.url(INDEX)}?sig=geheim`);
    const report = await verify(opened, { onProgress: () => {} });
    expect(opened.ok).toBe(true);
    opened.close();
    expect(report.checks).toEqual(['headers', 'index']);
    expect(report).toEqual(ofMethod);
    const source: VerifiableSource = checkpoint;
    const noBytes = { onProgress: () => {}, headersOnly: true };
    expect((await source.verify(noBytes)).problems).toEqual(report.problems);
    await expect(source.verify({ headersOnly: 1 as never })).rejects.toThrow(TypeError);
    expect(report.problems).toMatchObject([
      { file: FIRST, code: 'SAFETENSORS_REMOTE_NOT_FOUND' },
      { file: SECOND, code: 'SAFETENSORS_INVALID_HEADER_LENGTH' },
    ]);
    expect(JSON.stringify(report.problems)).not.toContain('geheim');
  });
});
