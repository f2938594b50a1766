// What people do with the package in a test, and what Jest's `expect` says to it. The ES modules and
// the CommonJS tests share this file.
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');

exports.testLibrary = (library) => {
  const { safeOpen, saveFile } = library;
  const tensors = {
    a: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
    b: { dtype: 'BF16', shape: [2], data: library.fromFloat32(Float32Array.of(3, 4), 'BF16') },
  };
  let folder;
  let path;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'jest-'));
    path = join(folder, 'model.safetensors');
  });

  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('saves to a new file and over it, and opens it', async () => {
    await saveFile(path, tensors);
    await saveFile(path, new Map(Object.entries(tensors)), { signal: AbortSignal.timeout(60_000) });
    await saveFile(pathToFileURL(path), tensors);
    const file = safeOpen(path, { storage: 'mmap' });
    expect(file.keys()).toStrictEqual(['a', 'b']);
    const { data, bytes, buffer } = file.getTensor('a');
    expect(data).toBeInstanceOf(Float32Array);
    expect(data).toStrictEqual(Float32Array.of(1, 2));
    expect(data).not.toEqual(Float32Array.of(1, 3));
    expect(bytes).toStrictEqual(Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 64));
    expect(buffer).toBeInstanceOf(ArrayBuffer);
    file.close();
  });

  test('converts, on the pool too', async () => {
    await saveFile(path, tensors);
    const file = safeOpen(path);
    const tensor = file.getTensor('b');
    expect(tensor.toFloat32()).toStrictEqual(Float32Array.of(3, 4));
    const into = new Float32Array(2);
    expect(await tensor.toFloat32Async({ into })).toBe(into);
    expect(into).toStrictEqual(Float32Array.of(3, 4));
    expect([...(await file.readTensors(new Set(['a']))).keys()]).toStrictEqual(['a']);
    file.close({ detach: true });
  });

  test('edits metadata', async () => {
    await saveFile(path, tensors);
    const { metadata } = await library.editMetadata(path, { license: 'mit' });
    expect(metadata).toStrictEqual(new Map([['license', 'mit']]));
  });

  test('saves a checkpoint and converts it to one file', async () => {
    const checkpoint = pathToFileURL(join(folder, 'checkpoint'));
    await library.saveCheckpoint(checkpoint, tensors, { maxShardSize: '8B' });
    await library.convert(checkpoint, join(folder, 'whole'));
    expect([...library.loadFile(join(folder, 'whole')).keys()].sort()).toEqual(['a', 'b']);
  });

  test('writes tensor by tensor', async () => {
    const writer = await library.createWriter(path, { t: { dtype: 'U8', shape: [3] } });
    await writer.write('t', [Uint8Array.of(1), Buffer.of(2, 3)]);
    await writer.close();
    expect(library.parse(require('node:fs').readFileSync(path)).getTensor('t').data).toStrictEqual(
      Uint8Array.of(1, 2, 3),
    );
  });

  test('an abort ends a save', async () => {
    const reason = new Error('enough');
    const signal = AbortSignal.abort(reason);
    await expect(saveFile(path, tensors, { signal })).rejects.toBe(reason);
  });

  test('a bad file is a FormatError', () => {
    writeFileSync(path, 'this is not a model');
    const open = () => safeOpen(path);
    for (const type of [library.FormatError, library.SafetensorsError, Error]) {
      expect(open).toThrow(type);
    }
  });

  test('a missing file has the code of Node', async () => {
    const missing = expect.objectContaining({ code: 'ENOENT' });
    expect(() => safeOpen(path)).toThrow(missing);
    expect(() => library.safeOpen(path)).toThrow(missing);
    await expect(saveFile(join(folder, 'no/model'), tensors)).rejects.toThrow(missing);
  });

  // Last: the addon is loaded once.
  test('files are mapped', () => {
    expect(library.mappingStatus()).toMatchObject({ available: true });
  });
};
