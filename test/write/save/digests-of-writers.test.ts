/** `digests` of every way to write: each writes the hashes of the bytes, and `verify` agrees. */

import { createHash } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { NamedTensorsInMemory } from '../../../src/write/input/tensor-input.js';
import {
  convert,
  createWriter,
  editMetadata,
  loadFile,
  type NamedTensors,
  safeOpen,
  saveCheckpoint,
  saveFile,
  serializeStream,
  verify,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { root } from '../../support/source-tree.js';

const KEY = 'safetensors-mmap.sha256';
const MIB = 2 ** 20;

const TENSORS = {
  long: {
    dtype: 'F32',
    shape: [1536, 1024],
    data: Float32Array.from({ length: 1.5 * MIB }, (_, i) => i),
  },
  none: { dtype: 'F64', shape: [0], data: new Float64Array(0) },
  short: { dtype: 'U8', shape: [3], data: Uint8Array.of(1, 2, 3) },
} as const satisfies NamedTensorsInMemory;

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Expects the sums of a file's tensors in its metadata, and that the check finds them right. */
async function expectSums(path: string): Promise<void> {
  using file = safeOpen(path, { storage: 'read' });
  const expected = file.offsetKeys().map((name) => sha256(file.getTensor(name).bytes));
  expect(file.metadata?.get(KEY)).toBe(expected.join(''));
  expect(await verify(path)).toMatchObject({ ok: true });
}

async function savedWithSums(tensors: NamedTensors = TENSORS): Promise<string> {
  const path = temporaryPath('source.safetensors');
  await saveFile(path, tensors, { digests: true });
  return path;
}

describe('saveFile', () => {
  it('writes sums of memory, and of files that were never read', async () => {
    const source = await savedWithSums();
    await expectSums(source);
    const target = temporaryPath('target.safetensors');
    using file = safeOpen(source);
    await saveFile(target, file, { digests: true, metadata: file.metadata });
    expect(readFileSync(target).equals(readFileSync(source))).toBe(true);
  });
});

describe('createWriter', () => {
  it('writes sums at close, whatever the order and the kind of the bytes', async () => {
    using file = safeOpen(await savedWithSums());
    const target = temporaryPath('target.safetensors');
    const writer = await createWriter(target, TENSORS, { digests: true });
    await writer.write('short', [Uint8Array.of(1), Uint8Array.of(2, 3)]);
    // A write that failed counts for nothing.
    await expect(writer.write('long', [new Uint8Array(5)])).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
    });
    await Promise.all([
      writer.write('long', file.getTensor('long')),
      writer.write('none', new Float64Array(0)),
    ]);
    await writer.close();
    expect(readFileSync(target).equals(readFileSync(file.path ?? ''))).toBe(true);
    await expectSums(target);
  });
});

describe('saveCheckpoint', () => {
  it.each([{}, { maxShardSize: '1MB' }])('writes sums into every file (%j)', async (options) => {
    const folder = temporaryPath('saved');
    const { files } = await saveCheckpoint(folder, TENSORS, { ...options, digests: true });
    expect(files).toHaveLength('maxShardSize' in options ? 2 : 1);
    for (const file of files) await expectSums(`${folder}/${file}`);
    expect(await verify(folder)).toMatchObject({ ok: true });
  });

  it('plans files as long as it writes them', async () => {
    const folder = temporaryPath('saved');
    const { files } = await saveCheckpoint(folder, TENSORS, { digests: true, dryRun: true });
    await saveCheckpoint(folder, TENSORS, { digests: true });
    const [planned] = files;
    expect(readFileSync(`${folder}/${planned?.name}`)).toHaveLength(planned?.byteLength ?? 0);
  });
});

describe('convert', () => {
  it.each([{}, { maxShardSize: '1MB' }, { dtype: 'F16' }, { names: ['short', 'long'] }] as const)(
    'write sums of what they write (%j)',
    async (options) => {
      const source = await savedWithSums();
      const folder = temporaryPath('target');
      const { files } = await convert(source, folder, { ...options, digests: true });
      for (const file of files) await expectSums(`${folder}/${file}`);
    },
  );

  it('write sums of torch, into one file', async () => {
    const target = temporaryPath('torch.safetensors');
    const source = `${root}test/fixtures/torch/zip-state-dict.pt`;
    await convert(source, target, { digests: true });
    await expectSums(target);
  });

  it('refuse other values than booleans', async () => {
    const wrong = { digests: 1 as unknown as boolean };
    const source = await savedWithSums();
    const code = 'ERR_INVALID_ARG_TYPE';
    const target = temporaryPath('x');
    await expect(convert(source, target, wrong)).rejects.toMatchObject({ code });
    const file = `${target}.safetensors`;
    await expect(convert(source, file, wrong)).rejects.toMatchObject({ code });
    await expect(createWriter(file, {}, wrong)).rejects.toMatchObject({ code });
    await expect(saveFile(file, {}, wrong)).rejects.toThrow('digests');
    expect(() => serializeStream({}, wrong)).toThrow('digests');
  });
});

describe('serializeStream', () => {
  async function read(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
    const pieces: Uint8Array[] = [];
    for await (const piece of stream) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  it('gives the bytes of saveFile, of files, memory and functions', async () => {
    const path = await savedWithSums();
    using file = safeOpen(path);
    function* pieces(): Generator<Uint8Array> {
      for (let i = 1; i <= 3; i++) yield Uint8Array.of(i);
    }
    const tensors: NamedTensors = {
      ...TENSORS,
      long: file.getTensor('long'),
      short: { dtype: 'U8', shape: [3], data: pieces },
    };
    const stream = serializeStream(tensors, { digests: true });
    const bytes = await read(stream);
    expect(bytes.equals(readFileSync(path))).toBe(true);
    expect(stream.byteLength).toBe(bytes.length);
  });

  it('refuses streams that can be read once, at once', () => {
    async function* once(): AsyncGenerator<Uint8Array> {
      yield Uint8Array.of(1);
    }
    const data = once();
    const tensors: NamedTensors = { a: { dtype: 'U8', shape: [1], data } };
    expect(() => serializeStream(tensors, { digests: true })).toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
        tensor: 'a',
        message: expect.stringContaining('read twice'),
      }),
    );
  });

  it.each([1, 3 * MIB])(
    'never ends a file whose data is not the same when it is read again (%d bytes)',
    async (length) => {
      let calls = 0;
      const data = (): Uint8Array => {
        const bytes = new Uint8Array(length);
        bytes[length - 1] = calls++;
        return bytes;
      };
      const tensors: NamedTensors = { a: { dtype: 'U8', shape: [length], data } };
      const stream = serializeStream(tensors, { digests: true });
      const got: Uint8Array[] = [];
      const reading = (async () => {
        for await (const piece of stream) got.push(piece);
      })();
      await expect(reading).rejects.toMatchObject({
        code: 'SAFETENSORS_CHECKSUM_MISMATCH',
        tensor: 'a',
      });
      expect(Buffer.concat(got).length).toBeLessThan(stream.byteLength);
      expect(calls).toBe(2);
    },
  );

  it('notices a file that changes before it is read again, and an abort', async () => {
    const path = await savedWithSums();
    using file = safeOpen(path);
    const changed = serializeStream(file, { digests: true })[Symbol.asyncIterator]();
    await changed.next();
    appendFileSync(path, 'x');
    const rest = (async () => {
      while ((await changed.next()).done !== true);
    })();
    await expect(rest).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
    const ending = new AbortController();
    let calls = 0;
    const data = (): Uint8Array => {
      calls++;
      ending.abort(new Error('enough'));
      return new Uint8Array(3 * MIB);
    };
    const { signal } = ending;
    const tensors: NamedTensors = { a: { dtype: 'U8', shape: [3 * MIB], data } };
    const stopped = await read(serializeStream(tensors, { digests: true, signal })).catch(String);
    expect({ stopped, calls }).toEqual({ stopped: 'Error: enough', calls: 1 });
  });
});

describe('a save with sums that fails', () => {
  it('leaves the old file and nothing else', async () => {
    const path = temporaryPath('model.safetensors');
    writeFileSync(path, 'old');
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield new Uint8Array(MIB);
      throw new Error('broken');
    }
    const tensors: NamedTensors = { a: { dtype: 'U8', shape: [2 * MIB], data: broken() } };
    await expect(saveFile(path, tensors, { digests: true })).rejects.toThrow('broken');
    const ending = new AbortController();
    const { signal } = ending;
    const onProgress = (): void => ending.abort(new Error('enough'));
    const save = saveFile(path, loadFile(await savedWithSums()), {
      digests: true,
      signal,
      onProgress,
    });
    ending.abort(new Error('enough'));
    await expect(save).rejects.toThrow('enough');
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(dirname(path)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });
});

const python = findPython('safetensors', 'numpy');

/** Reads each file by the library, and compares the sums with those of hashlib. */
const CHECK = `
import hashlib, json, sys
from safetensors import safe_open
from safetensors.numpy import load_file
for path in sys.argv[1:]:
    raw = open(path, 'rb').read()
    n = int.from_bytes(raw[:8], 'little')
    header = json.loads(raw[8:8 + n])
    sums = header.pop('__metadata__')['${KEY}']
    data = raw[8 + n:]
    order = sorted(header.values(), key=lambda one: one['data_offsets'])
    found = [hashlib.sha256(data[slice(*one['data_offsets'])]).hexdigest() for one in order]
    assert ''.join(found) == sums, path
    with safe_open(path, 'np') as file: assert file.metadata()['${KEY}'] == sums
    print(sorted(load_file(path)))
`;

describe.skipIf(isSkipped(python))(titleWith(python, 'files with sums'), () => {
  it('of every writer are read by the reference, and have the sums of hashlib', async () => {
    const folder = temporaryPath('written');
    const source = await savedWithSums();
    await saveCheckpoint(folder, TENSORS, { digests: true });
    const paths = [source, `${folder}/model.safetensors`];
    const target = (name: string): string => {
      paths.push(`${folder}/${name}.safetensors`);
      return paths.at(-1) as string;
    };
    await convert(source, target('convert'), { digests: true });
    const writer = await createWriter(target('writer'), TENSORS, { digests: true });
    for (const [name, { data }] of Object.entries(TENSORS)) await writer.write(name, data);
    await writer.close();
    const pieces: Uint8Array[] = [];
    for await (const piece of serializeStream(TENSORS, { digests: true })) pieces.push(piece);
    writeFileSync(target('stream'), Buffer.concat(pieces));
    const edited = target('edited');
    await saveFile(edited, TENSORS);
    await editMetadata(edited, {}, { digests: true });
    const names = "['long', 'none', 'short']";
    expect(runPython(python, ['-c', CHECK, ...paths])).toBe(`${names}\n`.repeat(paths.length));
  });
});
