import { expect, test } from 'vitest';
import { openNumpy, openTorchCheckpoint } from '../../src/convert.js';
import { PYTHON_METHODS, PYTHON_TENSOR_METHODS } from '../../src/errors/renamed-methods.js';
import { openCheckpoint, parse, serialize } from '../../src/index.js';
import { openRemote } from '../../src/remote.js';
import { writeTemporary } from '../support/make-file.js';
import { root } from '../support/source-tree.js';

const newFile = (): string => writeTemporary([{ name: 't', dtype: 'U8', shape: [1] }]);
const fixture = (name: string): string => `${root}test/fixtures/torch/${name}`;

const local = { load: 'readTensors', headerTexts: 'headers', verifyChecksums: 'verify' };

test.each<[name: string, open: () => unknown, renamed: Record<string, string>]>([
  ['SafetensorsFile', () => parse(serialize({})), { load: 'readTensors' }],
  ['Checkpoint', () => openCheckpoint(newFile()), local],
  ['Checkpoint', () => openNumpy(fixture('np-savez.npz')), local],
  ['Checkpoint', () => openTorchCheckpoint(fixture('zip-state-dict.pt')), local],
  [
    'RemoteCheckpoint',
    () => openRemote(new Blob([serialize({})])),
    { getTensors: 'readTensors', headerTexts: 'headers' },
  ],
])('%s says the new names of methods', async (name, open, renamed) => {
  const opened = (await open()) as Record<string, () => unknown>;
  for (const [old, now] of Object.entries(renamed)) {
    expect(() => opened[old]?.()).toThrow(
      expect.objectContaining({
        name: 'TypeError',
        code: 'ERR_METHOD_NOT_IMPLEMENTED',
        message: `${name} has no method ${old}; it is ${now} now`,
      }),
    );
    expect(typeof opened[now]).toBe('function');
  }
  expect(Object.keys(opened).filter((key) => key in renamed)).toEqual([]);
});

test("a tensor says what torch's methods are called here", () => {
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
  ['SafetensorsFile', () => parse(serialize({})), PYTHON_METHODS],
  ['Checkpoint', () => openCheckpoint(newFile()), PYTHON_METHODS],
  [
    'RemoteCheckpoint',
    () => openRemote(new Blob([serialize({})])),
    { get_tensor: 'readTensors', get_slice: 'getSlice', offset_keys: 'tensors' },
  ],
])(
  "%s says what Python's methods are called here, and that keys is one",
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
