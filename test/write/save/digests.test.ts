/** Sums of tensors in the metadata: what writes them, and who notices other bytes. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  convert,
  type EditMetadataOptions,
  editMetadata,
  loadFile,
  type NamedTensors,
  safeOpen,
  saveCheckpoint,
  saveFile,
  serialize,
  type TransferProgress,
  verify,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';

const KEY = 'safetensors-mmap.sha256';

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function* pieces(): Generator<Uint8Array> {
  for (let i = 0; i < 300; i++) yield new Uint8Array(10_000).fill(i);
}

/** Memory, a long stream, tensors without bytes, and short neighbours. */
const TENSORS: NamedTensors = {
  long: { dtype: 'U8', shape: [3_000_000], data: pieces },
  memory: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
  none: { dtype: 'F32', shape: [0], data: new Float32Array(0) },
  empty: { dtype: 'U8', shape: [0, 3], data: new Uint8Array(0) },
  step: { dtype: 'I64', shape: [], data: BigInt64Array.of(7n) },
};

async function saved(): Promise<string> {
  const path = temporaryPath('model.safetensors');
  await saveFile(path, TENSORS, { digests: true, metadata: { format: 'pt' } });
  return path;
}

/** Changes the last byte of the data. */
function damage(path: string): void {
  const bytes = readFileSync(path);
  bytes[bytes.length - 1] = ~(bytes.at(-1) as number);
  writeFileSync(path, bytes);
}

describe('saveFile with digests', () => {
  it('writes the sum of every tensor, in the order of their bytes', async () => {
    const path = await saved();
    const file = safeOpen(path);
    const expected = file.offsetKeys().map((name) => sha256(file.getTensor(name).bytes));
    expect(file.metadata?.get(KEY)).toBe(expected.join(''));
    expect(file.metadata?.get('format')).toBe('pt');
    expect(expected).toHaveLength(5);
    file.close();
    expect(await verify(path)).toMatchObject({ ok: true, checks: ['headers', 'digests'] });
  });

  it('copies tensors of files, with new sums, and none without the option', async () => {
    const path = await saved();
    const copy = temporaryPath('copy.safetensors');
    const file = safeOpen(path);
    const { metadata } = file;
    await saveFile(copy, [['step', file.getTensor('step')]], { digests: true, metadata });
    expect(await verify(copy)).toMatchObject({ ok: true });
    expect(safeOpen(copy).metadata?.get(KEY)).toBe(sha256(file.getTensor('step').bytes));
    await saveFile(copy, file, { metadata });
    expect(safeOpen(copy).metadata).toEqual(new Map([['format', 'pt']]));
    file.close();
  });

  it('writes an empty text for no tensors', async () => {
    const path = temporaryPath('none.safetensors');
    await saveFile(path, {}, { digests: true });
    expect(safeOpen(path).metadata?.get(KEY)).toBe('');
    expect(await verify(path)).toMatchObject({ ok: true });
  });

  it('refuses other values than booleans', async () => {
    const wrong = { digests: 1 } as unknown as { digests: boolean };
    await expect(saveFile('x', {}, wrong)).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  });
});

describe('verify of a file with digests', () => {
  it('names file and tensor of other bytes, and only those', async () => {
    const path = await saved();
    damage(path);
    const { ok, problems } = await verify(path);
    expect(ok).toBe(false);
    expect(problems).toEqual([
      {
        file: 'model.safetensors',
        tensor: 'long',
        code: 'SAFETENSORS_CHECKSUM_MISMATCH',
        message: expect.stringMatching(
          /^safetensors-mmap\.sha256 declares [\da-f]{64} for tensor "long", found [\da-f]{64}$/,
        ),
      },
    ]);
  });

  it.each(['', 'x', '0'.repeat(63), 'Z'.repeat(5 * 64), '0'.repeat(64 * 1000)])(
    'reports text that is not the sums of its tensors (%#)',
    async (text) => {
      const path = await saved();
      await editMetadata(path, { [KEY]: text });
      const { problems } = await verify(path);
      expect(problems).toMatchObject([{ tensor: null, code: 'SAFETENSORS_CHECKSUM_MISMATCH' }]);
      expect(problems[0]?.message).toContain(
        'expected 64 hexadecimal digits for each of 5 tensors',
      );
    },
  );
});

describe('editMetadata with digests', () => {
  const sumsOf = (path: string): string | undefined => safeOpen(path).metadata?.get(KEY);

  it.each([false, true])('writes the sums that saveFile writes (in place: %j)', async (inPlace) => {
    const path = temporaryPath('model.safetensors');
    const expected = sumsOf(await saved());
    await saveFile(path, TENSORS, { metadata: { format: 'pt' }, reserve: 1000 });
    const before = readFileSync(path);
    const seen: number[] = [];
    const onProgress = ({ bytes, totalBytes }: TransferProgress): void => {
      seen.push(bytes, totalBytes);
    };
    const edit = await editMetadata(path, { a: 'b' }, { digests: true, inPlace, onProgress });
    expect(edit.method).toBe(inPlace ? 'inPlace' : 'rewritten');
    expect(sumsOf(path)).toBe(expected);
    expect(safeOpen(path).metadata?.get('a')).toBe('b');
    const written = inPlace ? 8 + edit.headerByteLength : before.length;
    expect(seen.slice(-2)).toEqual([before.length + written, before.length + written]);
    expect(await verify(path)).toMatchObject({ ok: true });
    expect((await editMetadata(path, {}, { digests: true })).method).toBe('none');
  });

  it('only tells what it would write with dryRun', async () => {
    const path = temporaryPath('model.safetensors');
    const sums = sumsOf(await saved());
    await saveFile(path, TENSORS);
    const before = readFileSync(path);
    const { metadata, method } = await editMetadata(path, {}, { digests: true, dryRun: true });
    expect({ method, sums: metadata?.get(KEY) }).toEqual({ method: 'rewritten', sums });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it.each(['damaged bytes', 'other text'])('refuses wrong sums: %s', async (kind) => {
    const path = await saved();
    if (kind === 'damaged bytes') damage(path);
    else await editMetadata(path, { [KEY]: 'x' });
    const before = readFileSync(path);
    const edit = editMetadata(path, { a: 'b' }, { digests: true });
    await expect(edit).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
      path,
      ...(kind === 'damaged bytes' ? { tensor: 'long' } : {}),
    });
    expect(readFileSync(path).equals(before)).toBe(true);
    await editMetadata(path, { [KEY]: null }, { digests: true });
    expect(await verify(path)).toMatchObject({ ok: true });
  });

  it('finds too little room before it reads', async () => {
    const path = temporaryPath('model.safetensors');
    await saveFile(path, TENSORS);
    const onProgress = (): never => expect.unreachable();
    const edit = editMetadata(path, {}, { digests: true, inPlace: true, onProgress });
    await expect(edit).rejects.toMatchObject({ code: 'SAFETENSORS_HEADER_FULL' });
  });

  it('refuses other sums beside its own, and other values than booleans', async () => {
    const path = await saved();
    await expect(editMetadata(path, { [KEY]: '' }, { digests: true })).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
    });
    for (const name of ['digests', 'modelspecHash']) {
      const wrong = { [name]: 1 } as EditMetadataOptions;
      await expect(editMetadata(path, {}, wrong)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG_TYPE',
      });
    }
  });

  it('ends with the signal, and leaves the file as it was', async () => {
    const path = await saved();
    await editMetadata(path, { [KEY]: null });
    const before = readFileSync(path);
    const ending = new AbortController();
    const edit = editMetadata(path, {}, { digests: true, signal: ending.signal });
    setImmediate(() => ending.abort(new Error('enough')));
    await expect(edit).rejects.toThrow('enough');
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
  });
});

describe('sums of a source', () => {
  it('stay right when only metadata is edited', async () => {
    const path = await saved();
    await editMetadata(path, { license: 'mit' });
    expect(safeOpen(path).metadata?.get(KEY)).toHaveLength(5 * 64);
    expect(await verify(path)).toMatchObject({ ok: true });
  });

  it.each([{}, { maxShardSize: 1000 }])('do not go into other files: convert %j', async (size) => {
    const target = temporaryPath('folder');
    await convert(await saved(), target, size);
    const { ok, checks } = await verify(target);
    expect({ ok, checks }).toMatchObject({ ok: true });
    const index = `${target}/model.safetensors.index.json`;
    if ('maxShardSize' in size) expect(readFileSync(index, 'utf8')).not.toContain(KEY);
    else expect(safeOpen(`${target}/model.safetensors`).metadata?.has(KEY)).toBe(false);
  });

  it('do not go into a saved checkpoint or a serialized file', async () => {
    const path = await saved();
    const { metadata } = safeOpen(path);
    const target = temporaryPath('folder');
    await saveCheckpoint(target, loadFile(path), { metadata, maxShardSize: 1000 });
    expect(readFileSync(`${target}/model.safetensors.index.json`, 'utf8')).not.toContain(KEY);
    expect(Buffer.from(serialize(loadFile(path), { metadata })).includes(KEY)).toBe(false);
  });
});

const python = findPython('safetensors', 'numpy');

describe.skipIf(isSkipped(python))(titleWith(python, 'a file with sums'), () => {
  it('is read by the reference, and has the sums of hashlib', async () => {
    const path = await saved();
    const program = [
      'import hashlib, json, sys',
      'from safetensors import safe_open',
      'from safetensors.numpy import load_file',
      'raw = open(sys.argv[1], "rb").read()',
      'n = int.from_bytes(raw[:8], "little")',
      'header = json.loads(raw[8:8 + n])',
      'sums = header.pop("__metadata__")["safetensors-mmap.sha256"]',
      'data = raw[8 + n:]',
      'order = sorted(header.values(), key=lambda one: one["data_offsets"])',
      'found = [hashlib.sha256(data[slice(*one["data_offsets"])]).hexdigest() for one in order]',
      'assert "".join(found) == sums',
      'with safe_open(sys.argv[1], "np") as file: assert file.metadata()["safetensors-mmap.sha256"] == sums',
      'print(len(load_file(sys.argv[1])))',
    ].join('\n');
    expect(runPython(python, ['-c', program, path]).trim()).toBe('5');
  });
});
