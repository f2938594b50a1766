import { closeSync, openSync, writeSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { layOut } from '../../src/format/header-writer.js';
import { Transfer } from '../../src/io/transfer.js';
import { SourceFiles } from '../../src/save/source-files.js';
import { readTensors } from '../../src/save/tensor-input.js';
import { writeLayout } from '../../src/save/tensor-writes.js';
import { verifyLayout } from '../../src/save/verify-writes.js';
import { temporaryPath } from '../support/make-file.js';

const data = Uint8Array.from({ length: 3_000_000 }, (_, i) => i % 251);
const layout = layOut(readTensors({ a: { dtype: 'U8', shape: [data.length], data } }), {});
const transfer = new Transfer(2 * layout.byteLength, {});
const sources = new SourceFiles([]);
let path: string;
let fd: number;

beforeEach(async () => {
  path = temporaryPath('written.safetensors');
  fd = openSync(path, 'w+');
  await writeLayout({ fd, path }, layout, sources, transfer);
});

afterEach(() => closeSync(fd));

test('a file that is what was written passes', async () => {
  await verifyLayout({ fd, path }, layout, sources, transfer.part);
});

test.each([0, 1, 2 ** 20 - 1, 2 ** 20, data.length - 1])(
  'byte %i of a tensor that is another is found',
  async (at) => {
    writeSync(fd, Uint8Array.of(255), 0, 1, layout.header.length + at);
    await expect(verifyLayout({ fd, path }, layout, sources, transfer.part)).rejects.toMatchObject({
      code: 'SAFETENSORS_VERIFICATION_FAILED',
      tensor: 'a',
      message: expect.stringContaining(`byte ${at} of`),
    });
  },
);

test('so is one of the header', async () => {
  writeSync(fd, Uint8Array.of(255), 0, 1, 9);
  await expect(verifyLayout({ fd, path }, layout, sources, transfer.part)).rejects.toThrow(
    "byte 9 of the new file's header",
  );
});
