/** Open files and tensors that somebody posts to another thread. */
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { fixturePath } from '../foreign/torch/fixtures.js';
import { createWriter, open, openRemote, parse, safeOpen } from '../support/api.js';
import { TWO_SHARDS, writeCheckpoint } from '../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';

const entries = [{ name: 't', dtype: 'F32', shape: [4] }] as const;
const openFile = () => safeOpen(writeTemporary(entries));

const OPENERS: Record<string, readonly [() => object | Promise<object>, RegExp]> = {
  Checkpoint: [openFile, /^Symbol\(A Checkpoint .*post its path/],
  'a file of parse': [() => parse(fileBytes(entries)), /A Checkpoint .*post its path/],
  Tensor: [() => openFile().getTensor('t'), /A Tensor .*copy\(\)\.bytes/],
  'a slice': [() => openFile().getSlice('t', [0, 2]), /A Tensor .*copy\(\)\.bytes/],
  'a checkpoint of shards': [
    () => safeOpen(writeCheckpoint(TWO_SHARDS)),
    /A Checkpoint .*post its path/,
  ],
  'a torch checkpoint': [() => open(fixturePath('zip-tied.pt')), /A Checkpoint .*post its path/],
  'a checkpoint of NumPy': [() => open(fixturePath('np-f4.npy')), /A Checkpoint .*post its/],
  RemoteCheckpoint: [() => openRemote(new Blob([fileBytes(entries)])), /post its source/],
  SafetensorsWriter: [
    () => createWriter(temporaryPath('w'), { t: { dtype: 'F32', shape: [4] } }),
    /A SafetensorsWriter .*post the tensors/,
  ],
};

test.each(Object.entries(OPENERS))(
  '%s is refused, and the error says what to do',
  async (_, it) => {
    const [make, message] = it;
    const value = await make();
    const { port1, port2 } = new MessageChannel();
    const refused = expect.objectContaining({
      name: 'DataCloneError',
      message: expect.stringMatching(message),
    });
    expect(() => structuredClone(value)).toThrow(refused);
    expect(() => structuredClone({ a: [value] })).toThrow(refused);
    expect(() => port1.postMessage(value)).toThrow(refused);
    port1.close();
    port2.close();
    // Newer versions of V8 leave out the middle of longer ones.
    const [text] = Object.values(value).filter((each) => typeof each === 'symbol');
    expect(text?.description?.length).toBeLessThan(120);
    if ('abort' in value) await (value as { abort(): Promise<void> }).abort();
  },
);

test.each(Object.entries(OPENERS))('%s shows nothing of that, and can be spread', async (_, it) => {
  const [make] = it;
  const value = await make();
  expect(inspect(value)).not.toContain('uncloneable');
  expect(JSON.stringify(value)).not.toContain('uncloneable');
  expect(() => ({ ...value })).not.toThrow();
  if ('abort' in value) await (value as { abort(): Promise<void> }).abort();
});

test('tensors with the same facts are equal to test runners, as before', () => {
  const path = writeTemporary(entries);
  expect(safeOpen(path).getTensor('t')).toEqual(safeOpen(path).getTensor('t'));
});
