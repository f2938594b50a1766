/** Pickles of NumPy arrays, as PaddlePaddle saves parameters. */
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { convert, loadFile, open } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';

const FIXTURES = join(root, 'test/fixtures/paddle');
const fixture = (name: string): string => join(FIXTURES, `${name}.pdparams`);

it.each([2, 3, 4])('protocol %i has the arrays that NumPy has', async (protocol) => {
  using opened = await open(fixture(`protocol-${protocol}`), { remote: false });
  using arrays = await open(join(FIXTURES, 'arrays.npz'), { remote: false });
  expect([opened.format, opened.root, opened.problems]).toEqual(['torch', [], []]);
  expect(opened.keys()).toEqual(arrays.keys());
  for (const name of arrays.keys()) {
    const [tensor, array] = [opened.getTensor(name), arrays.getTensor(name)];
    expect([tensor.dtype, tensor.shape]).toEqual([array.dtype, array.shape]);
    expect(Buffer.compare(tensor.bytes, array.bytes), name).toBe(0);
  }
  const extra = (await opened.extra()) as Map<string, Map<string, string>>;
  expect(extra.get('StructuredToParameterName@@')?.get('half')).toBe('half_0');
});

it('converts, also by the folder of the only file', async () => {
  const path = temporaryPath('model.pdparams');
  copyFileSync(fixture('protocol-4'), path);
  const targets = [path, dirname(path)].map((source, i) => [source, `${i}.safetensors`] as const);
  for (const [source, name] of targets) {
    const target = join(dirname(path), '..', `${dirname(path).slice(-6)}-${name}`);
    await convert(source, target);
    const { dtype, shape } = loadFile(target).get('linear.weight') ?? {};
    expect([dtype, shape]).toEqual(['F32', [3, 4]]);
  }
});

it('arrays that torch has no dtype for are problems', async () => {
  using opened = await open(fixture('unsupported'), { remote: false });
  expect(opened.keys()).toEqual(['ok']);
  expect(opened.problems.map(({ code, tensor }) => [code, tensor])).toEqual(
    ['a', 'b', 'c'].map((name) => ['SAFETENSORS_UNSUPPORTED_TENSOR', name]),
  );
});

it('other globals are rejected, and nothing runs', async () => {
  const opening = open(fixture('with-code'), { remote: false });
  await expect(opening).rejects.toMatchObject({ code: 'SAFETENSORS_FORBIDDEN_GLOBAL' });
  await expect(opening).rejects.toThrow('system');
  expect(existsSync('/tmp/PWNED')).toBe(false);
});

it('bytes after the pickle, and a truncated one, are errors', async () => {
  const bytes = readFileSync(fixture('protocol-4'));
  const longer = temporaryPath('longer.pdparams');
  writeFileSync(longer, Buffer.concat([bytes, Buffer.alloc(4)]));
  await expect(open(longer, { remote: false })).rejects.toMatchObject({
    code: 'SAFETENSORS_INVALID_TORCH_CHECKPOINT',
  });
  const shorter = temporaryPath('shorter.pdparams');
  writeFileSync(shorter, bytes.subarray(0, -200));
  await expect(open(shorter, { remote: false })).rejects.toMatchObject({
    code: expect.stringMatching(/^SAFETENSORS_/),
  });
});

it('a longer array than the limit names the limit, which can be raised', async () => {
  const bytes = readFileSync(fixture('protocol-4'));
  const long = Buffer.alloc(3 * 2 ** 20, 'x');
  const length = Buffer.alloc(4);
  length.writeUInt32LE(long.length);
  // BINUNICODE, which is popped, after the opcode and the argument of PROTO; frames end where it begins.
  const value = Buffer.concat([Buffer.from('X'), length, long, Buffer.from('0')]);
  const path = temporaryPath('limited.pdparams');
  writeFileSync(path, Buffer.concat([bytes.subarray(0, 2), value, bytes.subarray(2)]));
  const limits = { maxPickleByteLength: 2 ** 21 };
  await expect(open(path, { remote: false, limits })).rejects.toMatchObject({
    code: 'SAFETENSORS_FOREIGN_LIMIT',
    message: expect.stringContaining('the pickle exceeds limits.maxPickleByteLength, 2097152'),
  });
  const raised = { maxPickleByteLength: 2 ** 22 };
  using opened = await open(path, { remote: false, limits: raised });
  expect(opened.getTensor('half').toFloat32()).toEqual(Float32Array.of(1, 2, 3, 4));
});

it('a file of more than 1 MiB is read whole', async () => {
  const bytes = readFileSync(fixture('protocol-2'));
  // 'half' is stored as text in protocol 2; a long comment-like value goes before it.
  const text = Buffer.alloc(2 ** 21, 'x');
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  const value = Buffer.concat([Buffer.from('X\x04\0\0\0text'), Buffer.from('X'), length, text]);
  const at = bytes.indexOf('(') + 1;
  const path = temporaryPath('long.pdparams');
  writeFileSync(path, Buffer.concat([bytes.subarray(0, at), value, bytes.subarray(at)]));
  using opened = await open(path, { remote: false });
  expect(opened.getTensor('half').toFloat32()).toEqual(Float32Array.of(1, 2, 3, 4));
});
