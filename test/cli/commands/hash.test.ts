import { createHash } from 'node:crypto';
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { crc32 } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import { hashFile } from '../../../src/file/verification/hash-file.js';
import { inTurn } from '../../../src/write/replacement/locks.js';
import { FILES } from '../../foreign/dduf/pipeline-files.js';
import { HubCache } from '../../support/hub-cache.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import {
  type Entry,
  fileBytes,
  temporaryPath,
  writeSparse,
  writeTemporary,
} from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { call, golden, printed } from '../call.js';

const ENTRIES: readonly Entry[] = [
  { name: 'w', dtype: 'F32', shape: [3] },
  { name: 'empty', dtype: 'F32', shape: [0] },
  { name: 'b', dtype: 'U8', shape: [5] },
];

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Of the bytes after the header. */
function dataHash(path: string): string {
  const bytes = readFileSync(path);
  return sha256(bytes.subarray(8 + bytes.readUInt32LE()));
}

/** CRC-32, where this Node has it. */

describe('hash', () => {
  it('prints what the field calls them', async () => {
    const path = writeTemporary(ENTRIES);
    const bytes = readFileSync(path);
    const whole = sha256(bytes);
    const data = dataHash(path);
    const result = JSON.parse(await printed(['hash', path, '--all', '--json']));
    expect(result).toEqual({
      source: path,
      ok: true,
      files: [
        {
          name: 'model.safetensors',
          byteLength: bytes.length,
          sha256: whole,
          // Of nothing: the file has no bytes there.
          autoV1: 'e3b0c442',
          autoV2: whole.slice(0, 10),
          autoV3: data.slice(0, 12),
          modelspec: `0x${data}`,
          sshs: data,
          crc32: crc32(bytes).toString(16).padStart(8, '0'),
          declaredHashes: [],
          tensors: {
            w: sha256(bytes.subarray(-17, -5)),
            empty: sha256(new Uint8Array()),
            b: sha256(bytes.subarray(-5)),
          },
        },
      ],
    });
    const text = (await printed(['hash', path], { columns: 80 })).replace(/^CRC32.*$/m, 'CRC32');
    await expect(text).toMatchFileSnapshot(golden('hash'));
  });

  it('hashes a long file with a second thread, and gets the same', async () => {
    const path = writeSparse(80 * 2 ** 20);
    const bytes = readFileSync(path);
    const [file] = JSON.parse(await printed(['hash', path, '--all', '--json'])).files;
    expect(file).toMatchObject({
      sha256: sha256(bytes),
      autoV1: sha256(bytes.subarray(0x100000, 0x110000)).slice(0, 8),
      sshs: dataHash(path),
      tensors: { t: dataHash(path) },
    });
  });

  it('hashes every file of a checkpoint', async () => {
    const { files } = JSON.parse(await printed(['hash', writeCheckpoint(TWO_SHARDS), '--json']));
    expect(files.map(({ name }: { name: string }) => name)).toEqual(Object.keys(TWO_SHARDS.shards));
  });

  it('compares what the metadata declare', async () => {
    const hash = dataHash(writeTemporary(ENTRIES));
    const declaredHashes = {
      'modelspec.hash_sha256': `0x${hash.toUpperCase()}`,
      sshs_model_hash: hash,
    };
    const right = writeTemporary(ENTRIES, { metadata: declaredHashes });
    expect(await printed(['hash', right])).toContain('sshs_model_hash: as declared\n');
    const wrong = { ...declaredHashes, sshs_model_hash: 'ab'.repeat(32), other: '\x1b' };
    const { code, stdout } = await call(['hash', writeTemporary(ENTRIES, { metadata: wrong })]);
    expect(code).toBe(1);
    expect(stdout).toContain('modelspec.hash_sha256: as declared\n');
    expect(stdout).toContain(`sshs_model_hash: declares ${'ab'.repeat(32)}, which is wrong\n`);
    // Other trainers write other hashes under this name.
    const short = writeTemporary(ENTRIES, { metadata: { sshs_model_hash: 'ab'.repeat(16) } });
    expect(JSON.parse(await printed(['hash', short, '--json'])).files[0].declaredHashes).toEqual(
      [],
    );
  });

  it('compares an upper-case sshs_model_hash', async () => {
    const hash = dataHash(writeTemporary(ENTRIES));
    const write = (sshs_model_hash: string): string =>
      writeTemporary(ENTRIES, { metadata: { sshs_model_hash } });
    const right = write(hash.toUpperCase());
    expect(await printed(['hash', right])).toContain('sshs_model_hash: as declared\n');
    const wrong = write('AB'.repeat(32));
    expect((await call(['hash', wrong])).code).toBe(1);
    const { code, stdout } = await call(['verify', wrong]);
    expect(code).toBe(1);
    expect(stdout).toContain(`sshs_model_hash declares ${'ab'.repeat(32)}, found ${hash}`);
  });

  describe('compares sshs_legacy_hash', () => {
    const legacyOf = (bytes: Uint8Array): string =>
      sha256(bytes.subarray(0x100000, 0x110000)).slice(0, 8);
    const training = { ss_network_dim: '16', ss_note: 'ein "größeres" Bild\n' };
    const entries: readonly Entry[] = [{ name: 'w', dtype: 'U8', shape: [0x108000] }];
    /** As the trainer has it in memory: a header that is filled up, with the keys of the training alone. */
    const first = (metadata: Readonly<Record<string, string>>): Uint8Array => {
      const length = Buffer.from(fileBytes(entries, { metadata })).readUInt32LE();
      return fileBytes(entries, { metadata, padding: (8 - (length % 8)) % 8 });
    };
    const legacy = legacyOf(first(training));
    const write = (metadata: Readonly<Record<string, string>>, padding = 3): string =>
      writeTemporary(entries, { metadata, padding });

    it.each([0, 1, 2, 3, 4, 5, 6, 7])('of a file with other keys, too (%i)', async (more) => {
      const trained = { ...training, ss_more: 'x'.repeat(more) };
      const declared = legacyOf(first(trained)).toUpperCase();
      const path = write({ 'modelspec.title': 'Cats', ...trained, sshs_legacy_hash: declared });
      expect(legacyOf(readFileSync(path))).not.toBe(declared.toLowerCase());
      expect(await printed(['hash', path])).toContain('sshs_legacy_hash: as declared\n');
    });

    it('which is wrong when it is another one', async () => {
      const path = write({ ...training, sshs_legacy_hash: 'abababab' });
      const { code, stdout } = await call(['hash', path]);
      expect(code).toBe(1);
      expect(stdout).toContain('sshs_legacy_hash: declares abababab, which is wrong\n');
      expect((await call(['verify', path])).stdout).toMatch(
        /sshs_legacy_hash declares abababab, found [\da-f]{8}\n/,
      );
    });

    it('which is of earlier metadata when sshs_model_hash is right', async () => {
      const hashes = { sshs_legacy_hash: legacy, sshs_model_hash: dataHash(write(training)) };
      const path = write({ ss_network_dim: '16', ...hashes });
      const text = await printed(['hash', path]);
      expect(text).toContain(
        `sshs_legacy_hash: declares ${legacy}, from before a change of the metadata\n`,
      );
      const [{ declaredHashes }] = JSON.parse(await printed(['hash', path, '--json'])).files;
      expect(declaredHashes).toContainEqual(
        expect.objectContaining({ by: 'sshs_legacy_hash', declared: legacy, ok: null }),
      );
      expect((await call(['verify', path])).code).toBe(0);
      expect(await printed(['hash', write({ ...training, ...hashes })])).toContain(
        'sshs_legacy_hash: as declared\n',
      );
    });

    it('but not where the order of a long header decides', async () => {
      const path = write({ ss_tag_frequency: 'x'.repeat(0x100000), sshs_legacy_hash: 'abababab' });
      expect(JSON.parse(await printed(['hash', path, '--json'])).files[0].declaredHashes).toEqual(
        [],
      );
    });
  });

  it('compares the name of the blob in the cache of the Hub', async () => {
    const path = writeTemporary(ENTRIES);
    const folder = join(dirname(path), 'models--org--name');
    mkdirSync(join(folder, 'blobs'), { recursive: true });
    mkdirSync(join(folder, 'snapshots'));
    const link = join(folder, 'snapshots/model.safetensors');
    const good = join(folder, 'blobs', sha256(readFileSync(path)));
    renameSync(path, good);
    symlinkSync(good, link);
    expect(await printed(['hash', link])).toContain('Hub cache: as declared\n');
    const bad = join(folder, 'blobs', 'ab'.repeat(32));
    renameSync(good, bad);
    symlinkSync(bad, `${link}2.safetensors`);
    expect((await call(['hash', `${link}2.safetensors`])).code).toBe(1);
    const { stdout } = await call(['verify', `${link}2.safetensors`]);
    const found = sha256(readFileSync(bad));
    expect(stdout).toContain(
      `Hub cache declares ${'ab'.repeat(32)}, found ${found}; delete ${realpathSync(bad)}, and download`,
    );
  });

  it('writes the sums of tensors into the metadata, where verify finds them', async () => {
    const path = writeTemporary(ENTRIES, { metadata: { format: 'pt' } });
    const before = readFileSync(path);
    const sums = ['w', 'empty', 'b']
      .map((_, i) => sha256(before.subarray(...([[-17, -5], [0, 0], [-5]][i] as [number]))))
      .join('');
    const set = { 'safetensors-mmap.sha256': sums };
    const dry = JSON.parse(await printed(['hash', path, '--write', '--dry-run', '--json']));
    expect(dry).toEqual({ path, method: 'dryRun', set, removed: {}, missing: [] });
    expect(readFileSync(path)).toEqual(before);
    const result = JSON.parse(await printed(['hash', '--write', path, '--json']));
    expect(result).toMatchObject({ method: 'rewritten', set });
    expect(await printed(['hash', path])).toContain('safetensors-mmap.sha256: as declared\n');
    expect(await printed(['hash', '--write', path])).toContain(': nothing to change\n');
    const bytes = readFileSync(path);
    bytes[bytes.length - 1] = 0;
    writeFileSync(path, bytes);
    expect((await call(['verify', path])).stdout).toContain('for tensor "b", found');
    const { code, stderr } = await call(['hash', '--write', path]);
    expect(code).toBe(1);
    expect(stderr).toContain('SAFETENSORS_CHECKSUM_MISMATCH');
  });

  describe('--write of a folder', () => {
    const [first, second] = Object.keys(TWO_SHARDS.shards) as [string, string];
    const write = async (source: string, ...more: string[]) =>
      JSON.parse(await printed(['hash', source, '--write', '--json', ...more]));

    it('writes the digests of every shard, where verify finds them', async () => {
      const folder = writeCheckpoint(TWO_SHARDS);
      const paths = [first, second].map((name) => join(folder, name));
      const before = paths.map((path) => readFileSync(path));
      const { files } = await write(folder, '--dry-run');
      expect(files.map(({ path }: { path: string }) => path)).toEqual(paths);
      expect(files).toMatchObject([{ method: 'dryRun' }, { method: 'dryRun' }]);
      expect(paths.map((path) => readFileSync(path))).toEqual(before);
      const written = await write(folder);
      expect(written.source).toBe(folder);
      expect(written).not.toHaveProperty('failed');
      for (const [i, { method, set, removed, missing }] of written.files.entries()) {
        expect({ method, set, removed, missing }).toEqual({
          ...files[i],
          method: 'rewritten',
          path: undefined,
        });
      }
      expect(await printed(['verify', folder])).toContain('digests (2 of 2 files)');
      expect((await write(join(folder, 'model.safetensors.index.json'))).files).toMatchObject([
        { method: 'none' },
        { method: 'none' },
      ]);
    });

    it('prints a line for each file', async () => {
      const folder = writeCheckpoint(TWO_SHARDS);
      const text = await printed(['hash', folder, '--write']);
      expect(text.replaceAll(folder, 'FOLDER').split('\n')).toEqual([
        `FOLDER/${first}: replaced by a new file; 1 key set, 0 keys removed`,
        `FOLDER/${second}: replaced by a new file; 1 key set, 0 keys removed`,
        'the hashes of the files have changed (SHA-256, AutoV2, CRC32); those of the tensors have not',
        '',
      ]);
    });

    it('writes the models of a pipeline', async () => {
      const folder = temporaryPath('pipeline');
      for (const [name, content] of Object.entries(FILES)) writeBelow(folder, name, content);
      const { files } = await write(folder);
      expect(files.map(({ path }: { path: string }) => relative(folder, path)).toSorted()).toEqual([
        'text_encoder/model-00001-of-00002.safetensors',
        'text_encoder/model-00002-of-00002.safetensors',
        'unet/diffusion_pytorch_model.safetensors',
      ]);
      expect(await printed(['verify', folder])).toContain('digests (3 of 3 files)');
    });

    it('ends at a file that it cannot write, and prints those before', async () => {
      const folder = writeCheckpoint(TWO_SHARDS);
      const path = join(folder, second);
      await write(path);
      const bytes = readFileSync(path);
      bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1;
      writeFileSync(path, bytes);
      const { code, stdout, stderr } = await call(['hash', folder, '--write', '--json']);
      expect(code).toBe(1);
      expect(JSON.parse(stdout)).toMatchObject({
        source: folder,
        files: [{ path: join(folder, first), method: 'rewritten' }],
      });
      expect(JSON.parse(stderr)).toMatchObject({ code: 'SAFETENSORS_CHECKSUM_MISMATCH', path });
      expect(JSON.parse(stdout)).toMatchObject({ failed: path, fileCount: 2 });
      expect(readFileSync(path)).toEqual(bytes);
      const again = await call(['hash', folder, '--write']);
      const lines = [`${join(folder, first)}: nothing to change`, `${path}: failed`];
      expect(again.stdout.split('\n')).toEqual([...lines, 'stopped after 1 of 2 files', '']);
      const preview = await call(['hash', folder, '--write', '--dry-run', '--json']);
      expect(JSON.parse(preview.stdout)).toMatchObject({
        ...{ files: [{ method: 'dryRun' }], failed: path, fileCount: 2 },
      });
    });

    /** The output of a call that is interrupted at the second of three files. */
    async function interrupted(...options: string[]): Promise<{ folder: string; stdout: string }> {
      const shards = { ...TWO_SHARDS.shards, 'model-00003-of-00003.safetensors': ENTRIES };
      const folder = writeCheckpoint({ shards }, temporaryPath(`interrupted${options.join('')}`));
      const [path, other] = [
        join(folder, second),
        join(folder, 'model-00003-of-00003.safetensors'),
      ];
      const before = [path, other].map((one) => readFileSync(one));
      const ending = new AbortController();
      let release = (): void => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      // The edit of the second file waits for this one.
      const earlier = inTurn(realpathSync(path), undefined, () => held);
      const called = call(['hash', folder, '--write', ...options], undefined, ending.signal);
      await vi.waitFor(() => {
        expect(readFileSync(join(folder, first)).includes('safetensors-mmap.sha256')).toBe(true);
      });
      ending.abort();
      const { code, stdout, stderr } = await called;
      release();
      await earlier;
      expect([code, stderr]).toEqual([1, '']);
      expect([path, other].map((one) => readFileSync(one))).toEqual(before);
      return { folder, stdout };
    }

    it('ends with the signal, and lists no file as failed', async () => {
      const json = await interrupted('--json');
      const result = JSON.parse(json.stdout);
      expect(result).toMatchObject({ files: [{ path: join(json.folder, first) }], fileCount: 3 });
      expect(result).not.toHaveProperty('failed');
      const { folder, stdout } = await interrupted();
      expect(stdout.replaceAll(folder, 'FOLDER').split('\n').slice(0, 2)).toEqual([
        `FOLDER/${first}: replaced by a new file; 1 key set, 0 keys removed`,
        'stopped after 1 of 3 files',
      ]);
    });

    it('rejects a snapshot of the Hub cache', async () => {
      const cache = new HubCache();
      const content = fileBytes(ENTRIES);
      const path = cache.addPlain('model.safetensors', content);
      for (const source of [cache.snapshot(), path]) {
        const { code, stderr } = await call(['hash', source, '--write', '--json']);
        expect([code, JSON.parse(stderr).code]).toEqual([1, 'SAFETENSORS_HUB_CACHE_BLOB']);
      }
      expect(readFileSync(path)).toEqual(Buffer.from(content));
      expect(readdirSync(join(cache.repository(), 'blobs'))).toEqual([sha256(content)]);
    });

    it('writes every hard link of a file', async () => {
      const content = fileBytes(ENTRIES);
      const folder = temporaryPath('links');
      const paths = [first, second].map((name) => join(folder, name)) as [string, string];
      const index = { weight_map: { w: first, b: second } };
      writeBelow(folder, 'model.safetensors.index.json', JSON.stringify(index));
      linkSync(writeBelow(folder, first, content), paths[1]);
      const outside = temporaryPath('outside.safetensors');
      linkSync(paths[0], outside);
      const { files } = await write(folder);
      expect(files).toMatchObject(paths.map((path) => ({ path, method: 'rewritten' })));
      for (const path of paths) {
        expect(await printed(['verify', path])).toContain('digests (1 of 1 file)');
      }
      // Links outside the model keep the old bytes.
      expect(readFileSync(outside)).toEqual(Buffer.from(content));
    });

    it('takes only safetensors', async () => {
      const folder = temporaryPath('torch');
      mkdirSync(folder);
      copyFileSync('test/fixtures/torch/zip-state-dict.pt', join(folder, 'pytorch_model.bin'));
      const { code, stderr } = await call(['hash', folder, '--write']);
      expect(code).toBe(1);
      expect(stderr).toContain('SAFETENSORS_FOREIGN_FORMAT');
    });
  });

  it.each([
    [['--all', '--write'], '--all prints digests'],
    [['--write', '--variant', 'fp16'], '--variant chooses in a folder or repository'],
    [['--write', '--revision', 'main'], '--revision chooses in a folder or repository'],
    [['--dry-run'], '--dry-run is for --write'],
  ])('is wrong use with %j', async (options, message) => {
    const { code, stderr } = await call(['hash', writeTemporary(ENTRIES), ...options]);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect((await call(['hash', 'https://models.example/a.safetensors', '--write'])).code).toBe(2);
  });

  it('ends with the signal, and leaves nothing behind', async () => {
    const path = writeSparse(80 * 2 ** 20);
    const ending = new AbortController();
    const layout = { dataStart: 0, legacyBegin: null, ranges: [] };
    const options = { signal: ending.signal, onBytes: () => ending.abort(new Error('enough')) };
    await expect(hashFile(path, layout, options)).rejects.toThrow('enough');
  });

  it('is an error for files that are missing or cut short', async () => {
    const path = temporaryPath('cut.safetensors');
    expect((await call(['hash', path])).code).toBe(1);
    const other = writeTemporary(ENTRIES);
    truncateSync(other, 20);
    expect((await call(['hash', other])).stderr).toContain('SAFETENSORS_INVALID_HEADER_LENGTH');
  });
});

/** As kohya's scripts get both hashes, and save the file. */
const SAVE_TRAINED = `
import hashlib, sys
import torch
from safetensors.torch import save, save_file
path, words = sys.argv[1], sys.argv[2:]
metadata = {'modelspec.title': 'Cats', 'ss_tag_frequency': '{"größer": {"a b": 3}}', 'ss_epoch': '\\x07"', **dict(w.split('=') for w in words)}
tensors = {f'lora_unet_{i}.weight': torch.arange(i * 1000 + 7, dtype=torch.int32 if i % 2 else torch.uint8) for i in range(40)}
data = save(tensors, {key: value for key, value in metadata.items() if key.startswith('ss_')})
begin = 8 + int.from_bytes(data[:8], 'little')
metadata['sshs_model_hash'] = hashlib.sha256(data[begin:]).hexdigest()
metadata['sshs_legacy_hash'] = hashlib.sha256(data[0x100000:0x110000]).hexdigest()[:8]
save_file(tensors, path, metadata)
`;

const python = findPython('torch', 'safetensors');

describe.skipIf(isSkipped(python))(titleWith(python, 'hash, beside what trainers write'), () => {
  it.each([[[]], [['ss_a=1']], [['ss_bc=23', 'other=4']]])(
    'confirms both hashes (%j)',
    async (words) => {
      const path = temporaryPath('trained.safetensors');
      runPython(python, ['-c', SAVE_TRAINED, path, ...words]);
      const [{ declaredHashes, autoV1 }] = JSON.parse(
        await printed(['hash', path, '--json']),
      ).files;
      expect(declaredHashes).toMatchObject([
        { by: 'sshs_model_hash', ok: true },
        { by: 'sshs_legacy_hash', ok: true },
      ]);
      expect(declaredHashes[1].declared).not.toBe(autoV1);
    },
  );
});
