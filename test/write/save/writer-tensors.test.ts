/** `writer.write` with tensors of other files. */
import { readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  type Checkpoint,
  createWriter,
  parse,
  type SafetensorsWriter,
  safeOpen,
  serialize,
  type Tensor,
} from '../../support/api.js';
import { countedBytes, temporaryPath } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';

const SPECS = { a: { dtype: 'U8', shape: [3] }, b: { dtype: 'F32', shape: [2, 2] } } as const;
const A = countedBytes(3);
const B = new Float32Array([1, 2, 3, 4]);
const WHOLE = serialize({ a: { ...SPECS.a, data: A }, b: { ...SPECS.b, data: B } });

let path: string;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
});

const create = (): Promise<SafetensorsWriter> => createWriter(path, SPECS, { durable: false });

/** A file with the same tensors. */
function open(): Checkpoint {
  const source = temporaryPath('source.safetensors');
  writeFileSync(source, WHOLE);
  return safeOpen(source);
}

/** A tensor whose bytes were handed out before its file was closed. */
function closedTensor(name: string): Tensor {
  using file = open();
  const tensor = file.getTensor(name);
  expect(tensor.bytes.length).toBeGreaterThan(0);
  return tensor;
}

describe('a tensor', () => {
  test.each<[string, () => Tensor]>([
    ['parsed bytes', () => parse(WHOLE).getTensor('b')],
    ['a file', () => open().getTensor('b')],
    ['a file that is closed', () => closedTensor('b')],
  ])('of %s is written', async (_, make) => {
    const writer = await create();
    await writer.write('b', make());
    await writer.write('a', A);
    await writer.close();
    expect(readFileSync(path)).toEqual(Buffer.from(WHOLE));
  });

  test.each([
    ['another dtype', 'a', parse(WHOLE).getTensor('b'), 'U8 of shape [3]', 'F32 of shape [2, 2]'],
    [
      'another shape',
      'b',
      parse(WHOLE).getTensor('b').slice(0),
      'F32 of shape [2, 2]',
      'F32 of shape [2]',
    ],
  ])('of %s than declared is refused', async (_, name, tensor, declared, found) => {
    await using writer = await create();
    await expect(writer.write(name, tensor)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      message: `tensor "${name}": expected ${declared}, as declared, found ${found}`,
    });
  });

  test('of a closed file that nobody has looked at is written, too', async () => {
    const writer = await create();
    using file = open();
    const tensors = [file.getTensor('a'), file.getTensor('b')] as const;
    file.close();
    await writer.write('b', tensors[1]);
    await writer.write('a', tensors[0]);
    await writer.close();
    expect(readFileSync(path)).toEqual(Buffer.from(WHOLE));
  });

  test('of a file that was closed with detach is refused', async () => {
    await using writer = await create();
    const file = open();
    const tensor = file.getTensor('b');
    file.close({ detach: true });
    await expect(writer.write('b', tensor)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CLOSED',
    });
    await writer.write('b', B);
  });
});

test.runIf(process.platform === 'linux').each(['mmap', 'read'] as const)(
  'writing tensors of a file keeps none of its descriptors (%s)',
  async (storage) => {
    const source = temporaryPath('source.safetensors');
    writeFileSync(source, WHOLE);
    const file = safeOpen(source, { storage });
    const writer = await create();
    await writer.write('a', file.getTensor('a'));
    await writer.write('b', file.getTensor('b'));
    await writer.close();
    file.close({ detach: true });
    expect(openDescriptors()).toEqual([]);
  },
);
