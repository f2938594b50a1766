import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { safeOpen } from '../../support/api.js';
import { TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';
import { type Entry, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { call, golden, printed } from '../call.js';
import { HOSTILE_ENTRIES, HOSTILE_METADATA, HOSTILE_NAMES, UNSAFE_OUTPUT } from '../hostile.js';

const ENTRIES: readonly Entry[] = [{ name: 'w', dtype: 'U8', shape: [4] }];

const METADATA = {
  format: 'pt',
  ss_network_dim: '16',
  ss_learning_rate: '0.0001',
  ss_dataset_dirs: '{"/mnt/data/cats": {"n_repeats": 2}}',
  origin: 'C:\\Users\\somebody\\model.ckpt',
  site: 'https://models.example/home/cats',
};

const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const SPEC = {
  'modelspec.sai_model_spec': '1.0.1',
  'modelspec.architecture': 'stable-diffusion-xl-v1-base/lora',
  'modelspec.implementation': 'diffusers',
  'modelspec.title': 'Cats',
  'modelspec.thumbnail': `data:image/png;base64,${PNG.toString('base64')}`,
};

function writeModel(metadata: Readonly<Record<string, string>> = METADATA): string {
  return writeTemporary(ENTRIES, { metadata });
}

/** The metadata of a file, after checking that its tensor is unchanged. */
function metadataOf(path: string): Record<string, string> {
  const file = safeOpen(path);
  expect(file.getTensor('w').bytes).toEqual(Uint8Array.of(1, 2, 3, 4));
  const metadata = Object.fromEntries(file.metadata ?? []);
  file.close();
  return metadata;
}

async function shown(path: string, args: readonly string[], columns = 80): Promise<string> {
  return (await printed(args, { columns })).replaceAll(dirname(path), 'DIR');
}

describe('metadata get', () => {
  it('prints all, or those asked for', async () => {
    const path = writeModel();
    const result = JSON.parse(await printed(['metadata', 'get', path, '--json']));
    expect(result).toEqual({ source: path, metadata: METADATA, missing: [] });
    expect(await printed(['metadata', 'get', path, 'format'])).toBe('pt\n');
  });

  it('reads the metadata of an index, too', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    expect(await printed(['metadata', 'get', folder, 'total_size'])).toBe('34\n');
  });

  it('is no when a key is not there', async () => {
    const path = writeModel();
    const { code, stdout } = await call(['metadata', 'get', path, 'format', 'lost', '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ metadata: { format: 'pt' }, missing: ['lost'] });
    const lost = await call(['metadata', 'get', path, 'lost']);
    expect([lost.stdout, lost.stderr]).toEqual(['', 'no key lost\n']);
  });

  it('shows hostile keys and values harmlessly', async () => {
    const path = writeTemporary(HOSTILE_ENTRIES, HOSTILE_METADATA);
    for (const args of [['get'], ['export'], ['get', '--json'], ['clear', '--dry-run']]) {
      const text = await printed(['metadata', args[0] ?? '', path, ...args.slice(1)]);
      expect(UNSAFE_OUTPUT.exec(text)).toBeNull();
    }
    for (const name of HOSTILE_NAMES) {
      const text = await printed(['metadata', 'get', path, name], { columns: 80 });
      expect(UNSAFE_OUTPUT.exec(text)).toBeNull();
    }
  });
});

describe('metadata that is changed', () => {
  it('by set gets new values, in a new file', async () => {
    const path = writeModel();
    const { ino } = statSync(path);
    const args = ['metadata', 'set', path, 'license=mit', 'note=a=b', 'format='];
    await expect(await shown(path, args)).toMatchFileSnapshot(golden('metadata-set'));
    expect(metadataOf(path)).toEqual({ ...METADATA, license: 'mit', note: 'a=b', format: '' });
    expect(statSync(path).ino).not.toBe(ino);
    expect(await printed(args)).toContain('nothing to change');
  });

  it('by set --in-place stays in its file', async () => {
    const path = writeTemporary(ENTRIES, { metadata: { a: 'long enough' }, padding: 64 });
    const { ino } = statSync(path);
    const args = ['metadata', 'set', path, 'b=2', '--in-place', '--json'];
    expect(JSON.parse(await printed(args))).toEqual({
      ...{ path, method: 'inPlace', set: { b: '2' }, removed: {}, missing: [] },
    });
    expect(metadataOf(path)).toEqual({ a: 'long enough', b: '2' });
    expect(statSync(path).ino).toBe(ino);
    expect(existsSync(`${path}.header-backup`)).toBe(false);
    const full = await call(['metadata', 'set', path, `c=${'x'.repeat(99)}`, '--in-place']);
    expect(full.code).toBe(1);
    expect(full.stderr).toContain('SAFETENSORS_HEADER_FULL');
  });

  it('by rm and clear loses keys', async () => {
    const path = writeModel();
    const { code, stdout } = await call(['metadata', 'rm', path, 'site', 'lost', '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      removed: { site: METADATA.site },
      missing: ['lost'],
    });
    expect((await call(['metadata', 'rm', path, 'lost'])).stdout).toContain('\nno key lost\n');
    const { site: _, ...others } = METADATA;
    expect(metadataOf(path)).toEqual(others);
    await printed(['metadata', 'clear', path]);
    expect(metadataOf(path)).toEqual({});
  });

  it('by --dry-run is not', async () => {
    const path = writeModel();
    const before = readFileSync(path);
    for (const action of ['clear', 'strip']) {
      const text = await shown(path, ['metadata', action, path, '--dry-run']);
      expect(text).toMatch(
        /^DIR\/model\.safetensors: nothing written \(--dry-run\); .*removed\n- /,
      );
    }
    expect(readFileSync(path)).toEqual(before);
  });

  it.each([[[]], [['--dry-run']]])('in place needs room, with %j too', async (options) => {
    const path = writeModel();
    const set = ['metadata', 'set', path, `long=${'x'.repeat(1000)}`, '--in-place'];
    const { code, stderr } = await call([...set, ...options]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /SAFETENSORS_HEADER_FULL: .*; without --in-place the file is rewritten$/m,
    );
    expect(metadataOf(path)).toEqual(METADATA);
  });

  it('takes each key once, and options of edits for edits alone', async () => {
    const path = writeModel();
    for (const [args, message] of [
      [['set', path, 'a=1', 'a=2'], '"a" is given twice'],
      [['get', path, '--in-place'], '--in-place is for changes, and get only reads'],
      [['export', path, '--dry-run'], '--dry-run is for changes, and export only reads'],
      [['modelspec', 'check', path, '--in-place'], 'modelspec check only reads'],
    ] as const) {
      const { code, stderr } = await call(['metadata', ...args]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
    }
  });

  it('by strip loses what trainers left, and local paths', async () => {
    const path = writeModel();
    const result = JSON.parse(await printed(['metadata', 'strip', path, '--json']));
    const { ss_learning_rate, ss_dataset_dirs, origin, ...kept } = METADATA;
    expect(result.removed).toEqual({ ss_learning_rate, ss_dataset_dirs, origin });
    expect(metadataOf(path)).toEqual(kept);
  });

  it('by import becomes what export gave', async () => {
    const path = writeModel();
    const saved = join(dirname(path), 'metadata.json');
    const exported = await printed(['metadata', 'export', path]);
    expect(await printed(['metadata', 'export', path, '--json'])).toBe(
      `${JSON.stringify(JSON.parse(exported))}\n`,
    );
    writeFileSync(saved, exported);
    await printed(['metadata', 'set', path, 'other=1', 'format=np']);
    await printed(['metadata', 'import', path, saved]);
    expect(metadataOf(path)).toEqual(METADATA);
  });

  it.each([
    ['[1]', 'expected an object of strings, found object'],
    ['{"a":1}', 'expected an object of strings, found number at "a"'],
    ['{', 'expected JSON'],
  ])('by import of %s is refused', async (text, message) => {
    const path = writeModel();
    const from = temporaryPath('bad.json');
    writeFileSync(from, text);
    const { code, stderr } = await call(['metadata', 'import', path, from]);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(metadataOf(path)).toEqual(METADATA);
  });

  it('is only on this machine', async () => {
    const { code, stderr } = await call(['metadata', 'set', 'https://models.example/m', 'a=b']);
    expect(code).toBe(2);
    expect(stderr).toContain('a local file');
  });
});

describe('metadata modelspec', () => {
  it('show prints the keys without their prefix', async () => {
    const path = writeModel({ ...SPEC, format: 'pt' });
    const text = await shown(path, ['metadata', 'modelspec', 'show', path]);
    await expect(text).toMatchFileSnapshot(golden('modelspec-show'));
    const { modelspec } = JSON.parse(
      await printed(['metadata', 'modelspec', 'show', path, '--json']),
    );
    expect(modelspec).toEqual(SPEC);
    expect((await call(['metadata', 'modelspec', 'show', writeModel()])).code).toBe(1);
  });

  it('check says what is missing', async () => {
    const path = writeModel({ 'modelspec.title': 'Cats', 'modelspec.date': 'yesterday' });
    const { code, stdout } = await call(['metadata', 'modelspec', 'check', path]);
    expect(code).toBe(1);
    await expect(stdout).toMatchFileSnapshot(golden('modelspec-check'));
    const good = await call(['metadata', 'modelspec', 'check', writeModel(SPEC)]);
    expect(good.code).toBe(0);
    expect(good.stdout).toContain('follows ModelSpec\n');
  });

  it('set adds the prefix and the version', async () => {
    const path = writeModel({});
    await printed(['metadata', 'modelspec', 'set', path, 'title=Cats', 'modelspec.author=me']);
    expect(metadataOf(path)).toEqual({
      'modelspec.title': 'Cats',
      'modelspec.author': 'me',
      'modelspec.sai_model_spec': '1.0.1',
    });
  });

  it('set hash_sha256=auto writes the hash that hash and verify find right', async () => {
    const path = writeModel({ format: 'pt' });
    const args = ['metadata', 'modelspec', 'set', path, 'hash_sha256=auto', 'title=Cats'];
    const dry = JSON.parse(await printed([...args, '--dry-run', '--json']));
    const hash = `0x${createHash('sha256')
      .update(Uint8Array.of(1, 2, 3, 4))
      .digest('hex')}`;
    expect(dry.set).toMatchObject({ 'modelspec.hash_sha256': hash, 'modelspec.title': 'Cats' });
    expect(metadataOf(path)).toEqual({ format: 'pt' });
    expect(JSON.parse(await printed([...args, '--json']))).toMatchObject({ set: dry.set });
    expect(metadataOf(path)).toEqual({ format: 'pt', ...dry.set });
    expect(await printed(['hash', path])).toContain('modelspec.hash_sha256: as declared\n');
    const { problems } = JSON.parse(
      (await call(['metadata', 'modelspec', 'check', path, '--json'])).stdout,
    );
    expect(problems.map(({ key }: { key: string }) => key)).not.toContain('modelspec.hash_sha256');
    expect(await printed(args)).toContain('nothing to change');
  });

  it.each([
    ['png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1]],
    ['jpeg', [0xff, 0xd8, 0xff, 0xe0, 1]],
    ['webp', [...Buffer.from('RIFF\x04\x00\x00\x00WEBPVP8 ', 'latin1')]],
  ])('set thumbnail=@FILE puts an image in (%s)', async (type, image) => {
    const path = writeModel({});
    const from = join(dirname(path), 'image');
    writeFileSync(from, Uint8Array.from(image));
    await printed(['metadata', 'modelspec', 'set', path, `thumbnail=@${from}`]);
    const value = `data:image/${type};base64,${Buffer.from(image).toString('base64')}`;
    expect(metadataOf(path)['modelspec.thumbnail']).toBe(value);
    const to = join(dirname(path), `copy.${type}`);
    await printed(['metadata', 'modelspec', 'thumbnail', path, to]);
    expect(readFileSync(to)).toEqual(Buffer.from(image));
  });

  it.each([
    ['no image', Buffer.from('GIF89a'), 'expected a PNG, JPEG or WebP image'],
    ['a short one', Buffer.from('RIFF'), 'expected a PNG, JPEG or WebP image'],
    ['too long', Buffer.concat([PNG, Buffer.alloc(2 ** 20)]), 'at most 1048576 bytes'],
  ])('set thumbnail=@FILE refuses %s', async (_, image, message) => {
    const path = writeModel({});
    const from = join(dirname(path), 'image');
    writeFileSync(from, image);
    const args = ['metadata', 'modelspec', 'set', path, `thumbnail=@${from}`];
    const { code, stderr } = await call(args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    expect(metadataOf(path)).toEqual({});
    args[4] = `thumbnail=@${from}-lost`;
    expect((await call(args)).stderr).toContain('ENOENT');
  });

  it('thumbnail writes the image, and over nothing', async () => {
    const path = writeModel(SPEC);
    const target = join(dirname(path), 'cats.png');
    const args = ['metadata', 'modelspec', 'thumbnail', path, target];
    expect(await shown(path, args)).toBe('DIR/cats.png: image/png, 8 B\n');
    expect(readFileSync(target)).toEqual(PNG);
    const again = await call(args);
    expect(again.code).toBe(1);
    expect(again.stderr).toContain('EEXIST');
    const lacking = ['metadata', 'modelspec', 'thumbnail', writeModel({}), `${target}2`];
    const none = await call(lacking);
    expect([none.code, none.stderr]).toEqual([1, '']);
    expect(none.stdout).toContain('has no thumbnail');
    const { code, stdout } = await call([...lacking, '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ target: `${target}2`, type: null, byteLength: 0 });
    expect(existsSync(`${target}2`)).toBe(false);
  });
});

describe('metadata', () => {
  it.each([
    [['metadata', 'gte', 'x'], 'metadata has no "gte"; it takes get, set, rm'],
    [['metadata', 'set', 'x'], 'KEY=VALUE is missing'],
    [['metadata', 'set', 'x', 'key'], 'expected KEY=VALUE, found "key"'],
    [['metadata', 'rm', 'x'], 'KEY is missing'],
    [['metadata', 'clear', 'x', 'y'], 'unexpected argument "y"'],
    [['metadata', 'import', 'x'], 'JSON-FILE is missing'],
    [['metadata', 'modelspec', 'shw', 'x'], 'metadata modelspec has no "shw"; did you mean show?'],
    [['metadata', 'modelspec', 'show'], 'SOURCE is missing'],
    [['metadata', 'modelspec', 'thumbnail', 'x'], 'the file to write the image to is missing'],
    [['metadata', 'get'], 'SOURCE is missing'],
  ])('%j is wrong use', async (args, message) => {
    const { code, stderr } = await call(args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});
