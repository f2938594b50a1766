/** Checkpoints in the legacy stream, put together opcode by opcode. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { pickle2, unicode } from '../pickle/pickle-bytes.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-legacy-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Opcodes of a tensor of float32 over a storage of as many elements as the shape asks for. */
export function tensor(key: string, size: readonly number[], strides = [1]): string {
  const count = size.reduce((product, length) => product * length, 1);
  const integers = (numbers: readonly number[]): string =>
    `(${numbers.map((number) => `K${String.fromCharCode(number)}`).join('')}t`;
  const storage = `(${unicode('storage')}ctorch\nFloatStorage\n${unicode(key)}${unicode('cpu')}K${String.fromCharCode(count)}NtQ`;
  const hooks = 'ccollections\nOrderedDict\n)R';
  return `ctorch._utils\n_rebuild_tensor_v2\n(${storage}K\0${integers(size)}${integers(strides)}\x89${hooks}tR`;
}

/** A dict of keys and values, each opcodes. */
export function dict(...entries: readonly (readonly [key: string, value: string])[]): string {
  return `}(${entries.flat().join('')}u`;
}

/** The path of a new file whose pickle does this, with storages of float32 that count from 0. */
export function legacyFile(object: string, storages: Readonly<Record<string, number>>): string {
  const path = join(folder, `${Math.random()}.pt`);
  const bytes = Object.values(storages).flatMap((count) => [
    new Uint8Array(BigInt64Array.of(BigInt(count)).buffer),
    new Uint8Array(Float32Array.from({ length: count }, (_, i) => i).buffer),
  ]);
  writeFileSync(
    path,
    Buffer.concat([
      pickle2('\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.'),
      pickle2('M\xe9\x03.'),
      pickle2('}.'),
      pickle2(object, '.'),
      pickle2('](', ...Object.keys(storages).map(unicode), 'e.'),
      ...bytes,
    ]),
  );
  return path;
}
