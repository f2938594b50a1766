/** Commands on remote sources. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FileServer } from '../remote/download/file-server.js';
import { safeOpen, serialize } from '../support/api.js';
import { filesOf, TWO_SHARDS, writeCheckpoint } from '../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { call, printed } from './call.js';
import { LAYERED } from './models.js';

const INDEX = 'model.safetensors.index.json';

let server: FileServer;

beforeEach(async () => {
  server = await FileServer.start();
  const files = new Map([...filesOf(TWO_SHARDS), ['one.safetensors', fileBytes(LAYERED)]]);
  for (const [name, bytes] of files) server.files.set(name, { bytes, tag: `"${name}"` });
});

afterEach(async () => {
  await server.close();
});

describe('of a server', () => {
  it('inspect says what it says of the same files here', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const here = JSON.parse(await printed(['inspect', join(folder, INDEX), '--json']));
    const there = JSON.parse(await printed(['inspect', server.url(INDEX), '--json']));
    const where = { source: server.url(INDEX), path: server.url(INDEX) };
    expect(there).toEqual({ ...here, ...where });
  });

  it('inspect counts the bytes of tensors that the index does not name', async () => {
    const [first = '', second = ''] = Object.keys(TWO_SHARDS.shards);
    const unnamed = filesOf({ ...TWO_SHARDS, weightMap: { embed: first, 'b.bias': second } });
    for (const [name, bytes] of unnamed) server.files.set(name, { bytes, tag: `"${name}"` });
    const { files, tensors } = JSON.parse(await printed(['inspect', server.url(INDEX), '--json']));
    expect(files.map(({ byteLength }: { byteLength: number }) => byteLength)).toEqual(
      [first, second].map((name) => unnamed.get(name)?.length),
    );
    expect(tensors.map(({ name }: { name: string }) => name)).toEqual(['embed', 'b.bias']);
  });

  it('diff lists names in the order of their bytes, as of files here', async () => {
    const path = writeTemporary([{ name: 'x', dtype: 'U8', shape: [] }]);
    const here = await call(['diff', writeCheckpoint(TWO_SHARDS), path, '--quick']);
    const there = await call(['diff', server.url(INDEX), path, '--quick']);
    expect(there.stdout).toBe(here.stdout);
    expect(there.stdout).toContain('- embed\n- a.weight\n- b.weight\n- b.bias\n');
  });

  it('download says how many tensors it dequantized, as convert does', async () => {
    const bytes = serialize({
      'a.weight': { dtype: 'F8_E5M2', shape: [1, 2], data: Uint8Array.of(0x3c, 0x7b) },
      'a.weight_scale_inv': { dtype: 'F32', shape: [1, 1], data: Float32Array.of(2) },
    });
    server.files.set('quantized.safetensors', { bytes, tag: '"quantized"' });
    const local = temporaryPath('quantized.safetensors');
    writeFileSync(local, bytes);
    for (const [command, source] of [
      ['download', server.url('quantized.safetensors')],
      ['convert', local],
    ] as const) {
      const target = temporaryPath(`${command}.safetensors`);
      const text = await printed([command, source, target, '--dequantize', 'F16']);
      const lines =
        '1 tensor dequantized\nwarning: a.weight: 1 element too large for the new dtype\n';
      expect(text.endsWith(lines), text).toBe(true);
      expect(safeOpen(target).getTensor('a.weight').data).toEqual(Uint16Array.of(0x4000, 0x7c00));
    }
  });

  it('download says how many elements are too large for the new dtype, as convert does', async () => {
    const data = Float32Array.of(1, 1e6, -1e6);
    const bytes = serialize({ a: { dtype: 'F32', shape: [3], data } });
    server.files.set('large.safetensors', { bytes, tag: '"large"' });
    const download = (name: string, ...options: string[]): Promise<string> =>
      printed([
        ...['download', server.url('large.safetensors'), temporaryPath(name)],
        ...['--dtype', 'F16', ...options],
      ]);
    expect(await download('a.safetensors')).toContain(
      '1 tensor cast\nwarning: a: 2 elements too large for the new dtype\n',
    );
    expect(JSON.parse(await download('b.safetensors', '--json'))).toMatchObject({
      castCount: 1,
      notCast: [],
      overflowed: { a: 2 },
    });
  });

  it('header, metadata and verify read headers alone', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    expect(await printed(['header', server.url(INDEX)])).toBe(await printed(['header', folder]));
    expect(await printed(['metadata', 'get', server.url(INDEX), 'total_size'])).toBe('34\n');
    expect(await printed(['verify', server.url(INDEX)])).toBe(
      'no problems; checked: headers, index; data not verified: remote tensors are not read (`hash` reads them)\n',
    );
  });

  it('verify finds a tensor that is not in its shard', async () => {
    const [first = ''] = Object.keys(TWO_SHARDS.shards);
    const bytes = fileBytes([{ name: 'embed', dtype: 'U8', shape: [4, 2] }]);
    server.files.set(first, { bytes, tag: '"other"' });
    const { code, stdout } = await call(['verify', server.url(INDEX)]);
    expect(code).toBe(1);
    expect(stdout).toContain('SAFETENSORS_INDEX_MISMATCH');
  });

  it('show fetches what it shows, and diff compares with files here', async () => {
    const text = await printed(['show', server.url(INDEX), 'embed', '--slice', '-1']);
    expect(text).toBe('embed  U8  [2]  2 B\n[7 8]\n');
    const folder = writeCheckpoint(TWO_SHARDS);
    expect((await call(['diff', server.url(INDEX), folder])).code).toBe(0);
  });

  it('download copies, and says what it would', async () => {
    const target = temporaryPath('model.safetensors');
    const url = server.url('one.safetensors');
    const plan = JSON.parse(await printed(['download', url, target, '--dry-run', '--json']));
    const { bytes } = server.files.get('one.safetensors') ?? { bytes: new Uint8Array() };
    expect(plan).toMatchObject({ dryRun: true, path: target, byteLength: bytes.length });
    const done = JSON.parse(await printed(['download', url, target, '--json']));
    expect(done).toMatchObject({
      ...{ dryRun: false, path: target, downloadedBytes: bytes.length, reusedBytes: 0 },
    });
    expect(readFileSync(target)).toEqual(Buffer.from(bytes));
    const chosen = temporaryPath('chosen.safetensors');
    const choice = [
      'download',
      url,
      chosen,
      '--filter',
      'model.layers.0.*',
      '--dtype',
      'F16',
      '--json',
    ];
    const chosenPlan = JSON.parse(await printed([...choice, '--dry-run']));
    expect(existsSync(chosen)).toBe(false);
    expect(chosenPlan).toMatchObject({ dryRun: true, files: [{ name: 'chosen.safetensors' }] });
    const written = JSON.parse(await printed(choice));
    const { downloadedBytes, overflowed } = written;
    expect(written).toEqual({ ...chosenPlan, dryRun: false, downloadedBytes, overflowed });
    // 64 + 128 + 8 elements of two bytes, behind a header.
    expect(statSync(chosen).size).toBe(written.byteLength);
    expect(written.byteLength).toBeGreaterThan(400);
    const none = await call(['download', url, temporaryPath('none'), '--filter', 'zzz*']);
    expect(none.code).toBe(1);
    expect(none.stderr).toMatch(/^safetensors-mmap: no name matches --filter zzz\*\n$/);
    const parted = ['download', url, temporaryPath('parted'), '--exclude', 'model.layers.0.*'];
    const planned = JSON.parse(await printed([...parted, '--dry-run', '--json']));
    const { byteLength, path } = JSON.parse(await printed([...parted, '--json']));
    expect(planned.byteLength).toBeGreaterThan(0);
    expect(planned.excluded).toHaveLength(3);
    expect(await printed([...parted, '--dry-run'])).toMatch(
      /^would leave out 3 tensors: model\.layers\.0\..*, /m,
    );
    expect(byteLength).toBe(planned.byteLength);
    expect(JSON.parse(await printed(['inspect', path, '--filter', '*', '--json'])).tensors).toEqual(
      expect.not.arrayContaining([
        expect.objectContaining({ name: expect.stringMatching(/layers\.0/) }),
      ]),
    );
    const { tensors } = JSON.parse(await printed(['inspect', chosen, '--json']));
    expect(tensors.map(({ dtype }: { dtype: string }) => dtype)).toEqual(['F16', 'F16', 'F16']);
  });

  it('download in files of another size says which they would be', async () => {
    const args = ['download', server.url('one.safetensors'), temporaryPath('folder')];
    const sized = [...args, '--max-shard-size', '600B', '--json'];
    const plan = JSON.parse(await printed([...sized, '--dry-run']));
    const { files } = JSON.parse(await printed(sized));
    const namesOf = (some: readonly { name: string }[]): string[] => some.map(({ name }) => name);
    expect(plan.files.length).toBeGreaterThan(1);
    expect(namesOf(files)).toEqual(namesOf(plan.files));
  });

  it('download into a folder that is there takes the name of the URL', async () => {
    const folder = temporaryPath('folder');
    mkdirSync(folder, { recursive: true });
    const path = join(folder, 'one.safetensors');
    const args = ['download', server.url('one.safetensors?query=1'), folder, '--force', '--json'];
    for (const more of [['--dry-run'], [], ['--filter', 'model.layers.0.*']]) {
      expect(JSON.parse(await printed([...args, ...more])).path).toBe(path);
    }
    expect(readdirSync(folder)).toContain('one.safetensors');
    server.files.set('one%20more.safetensors', { bytes: fileBytes(LAYERED), tag: '"more"' });
    const more = ['download', server.url('one%20more.safetensors'), folder, '--json'];
    for (const options of [['--dry-run'], []]) {
      const { path: found } = JSON.parse(await printed([...more, ...options]));
      expect(found).toBe(join(folder, 'one more.safetensors'));
    }
    const named = await call(['download', server.url('one.safetensors'), join(folder, 'x.gguf')]);
    expect([named.code, named.stderr]).toEqual([2, expect.stringContaining('.gguf files are not')]);
  });

  it.each([
    ['"1"', 'run the same command again to continue, even with a newly signed URL'],
    ['W/"1"', 'the next call starts from the beginning'],
  ])('download that is interrupted says how to go on: %s', async (tag, text) => {
    const folder = temporaryPath('folder');
    mkdirSync(folder, { recursive: true });
    server.files.set('large', { bytes: new Uint8Array(60_000_000), tag });
    const stop = new AbortController();
    const timer = setInterval(() => {
      if (server.sentByteLength > 13_000_000) stop.abort();
    }, 1);
    const args = ['download', server.url('large'), join(folder, 'file')];
    const { code, stderr } = await call(args, undefined, stop.signal);
    clearInterval(timer);
    expect([code, stderr]).toEqual([1, `safetensors-mmap: interrupted; ${text}\n`]);
  });

  it('download names one file as it is called here', async () => {
    const { bytes, tag } = server.files.get('one.safetensors') ?? {
      bytes: new Uint8Array(),
      tag: '',
    };
    server.files.set('get', { bytes, tag });
    const args = ['download', server.url('get?file=a'), temporaryPath('x.safetensors'), '--json'];
    const { files } = JSON.parse(await printed(args));
    expect(files).toEqual([{ name: 'x.safetensors', byteLength: bytes.length }]);
  });

  it('download is for what is somewhere else', async () => {
    const { code, stderr } = await call(['download', writeTemporary(LAYERED), 'x']);
    expect(code).toBe(2);
    expect(stderr).toContain('expected a URL, or hf://org/name (');
    const { stderr: ofName } = await call(['download', 'org/missing-model', 'x']);
    expect(ofName).toContain('did you mean hf://org/missing-model?');
  });

  it('what is missing is an error with its code', async () => {
    const { code, stderr } = await call(['inspect', server.url('missing.safetensors')]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^safetensors-mmap: SAFETENSORS_REMOTE_NOT_FOUND: .*\n$/);
  });

  it.each([
    ['join', ['x', '-o', 'folder'], '`convert SOURCE TARGET` does'],
    ['convert', ['-', '--dry-run'], '`convert SOURCE TARGET` does'],
    ['scan', [], 'download it first'],
  ])('%s needs local files, and says what to do', async (name, args, advice) => {
    const { code, stderr } = await call([name, server.url('one.safetensors'), ...args]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/expected a local (file|source)/);
    expect(stderr).toContain(advice);
  });
});

it('show names the range of the layers of a remote model', async () => {
  const entry = (name: string) => ({ name, dtype: 'U8', shape: [1] }) as const;
  const bytes = fileBytes([entry('model.layers.0.w'), entry('model.layers.1.w')]);
  server.files.set('layers.safetensors', { bytes, tag: '"layers"' });
  const { code, stderr } = await call(['show', server.url('layers.safetensors'), 'layers.7.w']);
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining('no such tensor; numbers in "model.layers.*" go from 0 to 1\n'),
  ]);
});
