import { expect, test } from 'vitest';
import { PYTHON_METHODS, PYTHON_TENSOR_METHODS } from '../../src/errors/python-methods.js';
import { openRemote, parse, safeOpen, serialize } from '../support/api.js';
import { writeTemporary } from '../support/make-file.js';

const newFile = (): string => writeTemporary([{ name: 't', dtype: 'U8', shape: [1] }]);

test('a tensor hints at the equivalents of PyTorch methods', () => {
  const tensor = parse(
    serialize({ t: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } }),
  ).getTensor('t');
  for (const [theirs, ours] of Object.entries(PYTHON_TENSOR_METHODS)) {
    expect(() => (tensor as never as Record<string, () => unknown>)[theirs]?.()).toThrow(
      `Tensor has no method ${theirs}; it is ${ours} here`,
    );
    expect(ours in tensor).toBe(true);
  }
});

test.each<[name: string, open: () => unknown, names: Record<string, string>]>([
  ['Checkpoint', () => parse(serialize({})), PYTHON_METHODS],
  ['Checkpoint', () => safeOpen(newFile()), PYTHON_METHODS],
  [
    'RemoteCheckpoint',
    () => openRemote(new Blob([serialize({})])),
    { get_tensor: 'readTensors', get_slice: 'getSlice', offset_keys: 'tensors' },
  ],
])(
  '%s hints at the names of Python methods, and at the missing call of keys',
  async (name, open, names) => {
    const opened = (await open()) as Record<string, () => unknown>;
    for (const [theirs, ours] of Object.entries(names)) {
      expect(() => opened[theirs]?.()).toThrow(
        `${name} has no method ${theirs}; it is ${ours} here`,
      );
      expect(typeof opened[ours]).toBe('function');
    }
    expect(() => [...(opened['keys'] as never)]).toThrow(
      expect.objectContaining({
        code: 'ERR_METHOD_NOT_IMPLEMENTED',
        message: `${name}.keys is a method; call it: keys()`,
      }),
    );
  },
);
