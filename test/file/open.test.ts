import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { FormatError, loadFile, parse, safeOpen, safeOpenAsync } from '../support/api.js';
import { openBoth } from '../support/both-ways.js';
import { countedBytes, fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { openDescriptors } from '../support/open-descriptors.js';

const entries = [
  { name: 'a', dtype: 'F32', shape: [2, 2] },
  { name: 'b', dtype: 'U8', shape: [3] },
] as const;

describe('paths', () => {
  test.each(['модель-模型-🙂.safetensors', 'a b%20c.safetensors'])('%s', async (name) => {
    const path = temporaryPath(name);
    writeFileSync(path, fileBytes(entries));
    for (const spelling of [path, pathToFileURL(path), Buffer.from(path)]) {
      const file = await openBoth(spelling);
      expect(file.path).toBe(path);
      expect(file.getTensor('b').bytes).toEqual(countedBytes(3));
      file.close();
    }
  });

  test('a Buffer reaches a name that is not Unicode', async () => {
    const path = Buffer.concat([Buffer.from(`${temporaryPath('x')}-`), Buffer.from([0xff, 0xfe])]);
    writeFileSync(path, fileBytes(entries));
    using file = await openBoth(path);
    expect(file.getTensor('b').bytes).toEqual(countedBytes(3));
  });

  test.each([[undefined], [true], [{}], [new Uint8Array(3)]])('%o is not a path', async (path) => {
    await expect(openBoth(path as never)).rejects.toThrow(
      expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' }),
    );
  });
});

describe('what is not a regular file', () => {
  test('a missing file is ENOENT, as from node:fs', async () => {
    const path = temporaryPath('missing.safetensors');
    await expect(openBoth(path)).rejects.toThrow(
      expect.objectContaining({ code: 'ENOENT', syscall: 'open', path }),
    );
  });

  test('a FIFO without a writer does not hang', async () => {
    const path = temporaryPath('fifo');
    execFileSync('mkfifo', [path]);
    await expect(openBoth(path)).rejects.toThrow(/found a named pipe/);
  });

  test('a socket', async () => {
    const path = temporaryPath('socket');
    const server = createServer().listen(path);
    await once(server, 'listening');
    await expect(openBoth(path)).rejects.toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_NOT_A_REGULAR_FILE',
        message: expect.stringMatching(/found a socket$/),
      }),
    );
    server.close();
  });

  test('what could be a repository, but is not in the cache', async () => {
    for (const id of ['org/name', 'org/name@main']) {
      await expect(openBoth(id)).rejects.toThrow(
        expect.objectContaining({
          code: 'ENOENT',
          errno: -2,
          syscall: 'stat',
          message: expect.stringMatching(
            /^ENOENT: .*; no repository of that name is in the Hub cache/,
          ),
        }),
      );
    }
    await expect(openBoth('org/name.safetensors')).rejects.toThrow(/open 'org\/name.safetensors'$/);
  });

  test.each(['https://host/model.safetensors', new URL('http://host/model.safetensors')])(
    'what is not on this machine: %s',
    async (url) => {
      for (const open of [openBoth]) {
        await expect(open(url)).rejects.toThrow(
          expect.objectContaining({
            name: 'TypeError',
            code: 'ERR_INVALID_URL_SCHEME',
            message: `path must be on this machine, but is "${url}"; open() reads remote checkpoints, download() fetches files`,
          }),
        );
      }
    },
  );

  test('a device', async () => {
    await expect(openBoth('/dev/null')).rejects.toThrow(/found a character device/);
  });

  test('refused files leave no descriptor open', async () => {
    const devices = openDescriptors('/dev/null');
    const path = temporaryPath('bad.safetensors');
    writeFileSync(path, 'not a safetensors file at all');
    for (let i = 0; i < 50; i++) {
      await expect(openBoth(path)).rejects.toThrow(FormatError);
      await expect(openBoth('/dev/null')).rejects.toThrow();
    }
    expect(openDescriptors()).toEqual([]);
    expect(openDescriptors('/dev/null')).toEqual(devices);
  });
});

describe('what is not safetensors', () => {
  const foreign: readonly (readonly [string, string | Uint8Array, string, RegExp])[] = [
    ['an empty file', '', 'SAFETENSORS_HEADER_TOO_SMALL', /found an empty file/],
    ['a zip', 'PK\x03\x04aaaaaaaaaaaaaa', 'SAFETENSORS_HEADER_TOO_LARGE', /zip/i],
    ['a pickle', Buffer.from('8002637468', 'hex'), 'SAFETENSORS_HEADER_TOO_SMALL', /pickle/i],
    ['GGUF', 'GGUF\x03\0\0\0aaaaaaaaaaaa', 'SAFETENSORS_HEADER_TOO_LARGE', /GGUF/],
    ['HDF5', '\x89HDF\r\n\x1a\naaaaaaaaaa', 'SAFETENSORS_HEADER_TOO_LARGE', /HDF5/],
    ['HTML', '<!DOCTYPE html><html></html>', 'SAFETENSORS_HEADER_TOO_LARGE', /HTML/],
    [
      'an LFS pointer',
      'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n',
      'SAFETENSORS_HEADER_TOO_LARGE',
      /Git LFS pointer/,
    ],
  ];

  test.each(foreign)('%s', async (_, content, code, message) => {
    const path = temporaryPath('model.safetensors');
    writeFileSync(path, typeof content === 'string' ? Buffer.from(content, 'latin1') : content);
    const expected = { code, path, message: expect.stringMatching(message) };
    await expect(openBoth(path)).rejects.toThrow(expect.objectContaining(expected));
  });

  test('the oldest draft is named', () => {
    const json = '{"w":{"dtype":"float32","shape":[1],"offsets":[0,4]}}';
    const bytes = new Uint8Array(8 + json.length + 4);
    bytes[0] = json.length;
    bytes.set(Buffer.from(json), 8);
    expect(() => parse(bytes)).toThrow(/draft/);
  });
});

describe('options', () => {
  test('the limit on the header can be lowered and is checked', async () => {
    const path = writeTemporary(entries);
    await expect(openBoth(path, { maxHeaderByteLength: 20 })).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_HEADER_TOO_LARGE' }),
    );
    await expect(openBoth(path, { maxHeaderByteLength: -1 })).rejects.toThrow(RangeError);
    expect(() => parse(fileBytes(entries), { maxHeaderByteLength: 20 })).toThrow(FormatError);
  });

  test('values that mean nothing are refused', async () => {
    const path = writeTemporary(entries);
    await expect(openBoth(path, { storage: 'map' as never })).rejects.toThrow(
      /storage must be 'mmap'/,
    );
    await expect(openBoth(path, { guard: 1 as never })).rejects.toThrow(/guard must be a boolean/);
    await expect(openBoth(path, { access: 'sequential' as never })).rejects.toThrow(
      /access must be 'random'/,
    );
    using file = await openBoth(path);
    expect(() => file.close({ detach: 'yes' as never })).toThrow(/detach must be a boolean/);
    expect(() => file.getTensors(3 as never)).toThrow(/names must be an iterable/);
  });

  test.each([['read'], [3], [null]])('%j in place of options is a TypeError', async (options) => {
    using file = await openBoth(writeTemporary(entries));
    const wrong = options as never;
    const refused = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' });
    for (const call of [
      () => safeOpen('path', wrong),
      () => parse(new Uint8Array(8), wrong),
      () => file.close(wrong),
      () => file.getTensor('a').toFloat32(wrong),
      () => [...file.getTensor('a').chunks(wrong)],
    ]) {
      expect(call).toThrow(refused);
    }
    for (const promise of [
      safeOpenAsync('path', wrong),
      safeOpenAsync('path', wrong),
      file.prefetch(undefined, wrong),
      file.readTensors(undefined, wrong),
      file.getTensor('a').toFloat32Async(wrong),
    ]) {
      await expect(promise).rejects.toThrow(refused);
    }
  });

  test.each(['mmap', 'read'] as const)('storage %s is what is used', async (storage) => {
    using file = await openBoth(writeTemporary(entries), { storage });
    expect(file.storage).toBe(storage);
  });
});

describe('loadFile', () => {
  test.each(['mmap', 'read'] as const)('%s: tensors outlive the handle', (storage) => {
    const tensors = loadFile(writeTemporary(entries), { storage });
    expect([...tensors.keys()]).toEqual(['a', 'b']);
    expect(tensors.get('a')?.bytes).toEqual(countedBytes(16));
    expect(tensors.get('b')?.bytes).toEqual(countedBytes(3));
    if (storage === 'read') expect(openDescriptors()).toEqual([]);
  });
});

describe('parse', () => {
  test('tensors are views of the memory given', () => {
    const bytes = fileBytes(entries);
    const file = parse(bytes);
    expect(file.storage).toBe('memory');
    expect(file.path).toBeUndefined();
    const tensor = file.getTensor('b');
    expect(tensor.buffer).toBe(bytes.buffer);
    tensor.bytes[0] = 200;
    expect(bytes.at(-3)).toBe(200);
  });

  test('bytes inside a larger buffer', () => {
    const whole = new Uint8Array(7 + fileBytes(entries).length);
    whole.set(fileBytes(entries), 7);
    const tensor = parse(whole.subarray(7)).getTensor('a');
    expect(tensor.bytes).toEqual(countedBytes(16));
    expect(tensor.data).toEqual(new Float32Array(countedBytes(16).buffer));
  });

  // A Buffer's slice is a view, a Uint8Array's a copy.
  test.each([
    ['Uint8Array', fileBytes(entries)],
    ['Buffer', Buffer.from(fileBytes(entries))],
  ])('writing to the header part of a %s later changes nothing', (_, bytes) => {
    const file = parse(bytes);
    bytes.fill(0x20, 0, bytes.length - 19);
    expect(file.keys()).toEqual(['a', 'b']);
    expect(file.info('a').shape).toEqual([2, 2]);
  });

  test('the getters of a subclass are not believed', () => {
    class Lying extends Uint8Array<ArrayBuffer> {
      override get byteLength(): number {
        return 8;
      }
    }
    const bytes = fileBytes(entries).slice();
    expect(parse(new Lying(bytes.buffer)).getTensor('a').bytes).toEqual(countedBytes(16));
  });

  test('shared memory serves as well', () => {
    const bytes = new Uint8Array(new SharedArrayBuffer(fileBytes(entries).length));
    bytes.set(fileBytes(entries));
    expect(parse(bytes).getTensor('b').bytes).toEqual(countedBytes(3));
  });

  test('other arguments are refused', () => {
    expect(() => parse(new ArrayBuffer(8) as never)).toThrow(/bytes must be a Uint8Array/);
  });
});
