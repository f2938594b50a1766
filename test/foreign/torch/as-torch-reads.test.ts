/** What torch reads in its own way is read so here, or refused. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { writeArchive } from '../made-archive.js';
import { pickle2, unicode } from '../pickle/pickle-bytes.js';
import { Random } from '../random.js';
import { dict, legacyFile, tensor } from './legacy-file.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-as-torch-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The tensor with metadata as the last of its arguments. */
function withMetadata(entries: string): string {
  return tensor('0', [2]).replace(/tR$/, `}(${entries}utR`);
}

function openLegacy(...entries: readonly (readonly [key: string, value: string])[]): string[] {
  using checkpoint = openTorchCheckpoint(legacyFile(dict(...entries), { 0: 2 }));
  return checkpoint.keys();
}

describe('the bits of a tensor', () => {
  it('are set by true', () => {
    const path = legacyFile(dict([unicode('w'), withMetadata(`${unicode('neg')}\x88`)]), { 0: 2 });
    using checkpoint = openTorchCheckpoint(path);
    expect(checkpoint.getTensor('w').data).toEqual(Float32Array.of(-0, -1));
  });

  it.each([
    ['false, which sets them in torch', `${unicode('neg')}\x89`],
    ['bytes for a name, which torch takes for a text', 'C\x03neg\x88'],
    ['a number', `${unicode('neg')}K\x01`],
  ])('are refused with %s', (_, entries) => {
    const open = (): unknown => openLegacy([unicode('w'), withMetadata(entries)]);
    expect(open).toThrow(expect.objectContaining({ code: 'SAFETENSORS_INVALID_TORCH_CHECKPOINT' }));
  });
});

describe('a part of a storage that is named as a storage', () => {
  const part = (key: string, begin: string, name = '0'): string =>
    tensor(name, [2]).replace('K\x02NtQ', `K\x04(${unicode(key)}${begin}K\x02ttQ`);
  const open = (...tensors: readonly string[]): string[] => {
    const entries = tensors.map((one, i) => [unicode(`w${i}`), one] as const);
    using checkpoint = openTorchCheckpoint(legacyFile(dict(...entries), { 0: 4 }));
    return Array.from(checkpoint, ([name, { data }]) => `${name} ${data.join()}`);
  };

  it('is where the name says', () => {
    expect(open(part('v', 'K\x01'), part('u', 'K\x02'), part('v', 'K\x01'))).toEqual([
      'w0 1,2',
      'w2 1,2',
      'w1 2,3',
    ]);
  });

  it('is refused under a name of something else, which torch would take it for', () => {
    const refused = expect.objectContaining({ code: 'SAFETENSORS_INVALID_TORCH_CHECKPOINT' });
    expect(() => open(part('v', 'K\x01'), part('v', 'K\x02'))).toThrow(refused);
    expect(() => open(part('0', 'K\x01'))).toThrow(refused);
    expect(() => open(part('1', 'K\x01'), part('v', 'K\x01', '1'))).toThrow(refused);
  });
});

it('numbers as keys are named as in Python', () => {
  const float = (value: number): string => {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(value);
    return `G${bytes.toString('latin1')}`;
  };
  const names: readonly (readonly [number, string])[] = [
    [1.5, '1.5'],
    [2, '2.0'],
    [-0, '-0.0'],
    [1e15, '1000000000000000.0'],
    [2 ** 54, '1.8014398509481984e+16'],
    [1e22, '1e+22'],
    [1e-4, '0.0001'],
    [-1.5e-5, '-1.5e-05'],
    [1e-300, '1e-300'],
    [Number.POSITIVE_INFINITY, 'inf'],
    [Number.NaN, 'nan'],
  ];
  const entries = names.map(([value]) => [float(value), tensor('0', [2])] as const);
  expect(openLegacy(...entries)).toEqual(names.map(([, name]) => name).toSorted());
});

it('bytes are swapped by the dtype of the storage: a tensor of another is refused', () => {
  const storage = (type: string): string =>
    `(${unicode('storage')}c${type}\n${unicode('0')}${unicode('cpu')}K\x02tQ`;
  const open = (type: string, dtype: string): Uint8Array => {
    const call = `ctorch._utils\n_rebuild_tensor_v3\n(${storage(type)}K\0K\x01\x85K\x01\x85\x89}ctorch\n${dtype}\ntR`;
    const files = [
      { name: 'm/data.pkl', data: Buffer.from(pickle2(dict([unicode('w'), call]), '.')) },
      { name: 'm/byteorder', data: Buffer.from('big') },
      {
        name: 'm/data/0',
        data: Buffer.from([1, 2, 3, 4].slice(0, type.includes('Untyped') ? 2 : 4)),
      },
      { name: 'm/version', data: Buffer.from('3\n') },
    ];
    const path = join(folder, `${Math.random()}.pt`);
    const archive = files.map((file) => ({ ...file, isDeflated: false }));
    writeFileSync(path, writeArchive(archive, new Random(1, 0)));
    using checkpoint = openTorchCheckpoint(path);
    return checkpoint.getTensor('w').bytes;
  };
  expect([...open('torch\nShortStorage', 'int16')]).toEqual([2, 1]);
  expect([...open('torch.storage\nUntypedStorage', 'float8_e5m2')]).toEqual([1]);
  const refused = expect.objectContaining({ code: 'SAFETENSORS_UNSUPPORTED_TENSOR' });
  expect(() => open('torch.storage\nUntypedStorage', 'uint16')).toThrow(refused);
  expect(() => open('torch\nShortStorage', 'uint8')).toThrow(refused);
});

it('a new object takes no arguments: torch leaves those of a dict unread', () => {
  const pairs = `](${unicode('w')}${tensor('0', [2])}\x86e\x85`;
  const open = (opcode: string): string[] => {
    const path = legacyFile(`ccollections\nOrderedDict\n${pairs}${opcode}`, { 0: 2 });
    using checkpoint = openTorchCheckpoint(path);
    return checkpoint.keys();
  };
  expect(open('R')).toEqual(['w']);
  const message = expect.stringContaining('found arguments of a new collections.OrderedDict');
  expect(() => open('\x81')).toThrow(expect.objectContaining({ message }));
});

it('texts become bytes by the codec that is named, which is latin1', () => {
  const valueIn = (call: string): unknown => {
    const object = dict([unicode('v'), call], [unicode('w'), tensor('0', [2])]);
    using checkpoint = openTorchCheckpoint(legacyFile(object, { 0: 2 }));
    return (checkpoint.values() as Map<string, unknown>).get('v');
  };
  const encoded = 'X\x02\0\0\0\xc3\xa9';
  const latin1 = unicode('latin1');
  expect(valueIn(`c_codecs\nencode\n${encoded}${latin1}\x86R`)).toEqual(Uint8Array.of(0xe9));
  expect(valueIn(`c__builtin__\nbytearray\n${encoded}${latin1}\x86R`)).toEqual(Uint8Array.of(0xe9));
  expect(valueIn('c__builtin__\nbytearray\nC\x01\xe9\x85R')).toEqual(Uint8Array.of(0xe9));
  // To Python the first is UTF-8; the others are errors.
  for (const call of [
    `c_codecs\nencode\n${encoded}\x85R`,
    `c_codecs\nencode\nC\x01a${latin1}\x86R`,
    `c__builtin__\nbytearray\n${encoded}\x85R`,
  ]) {
    const code = 'SAFETENSORS_INVALID_TORCH_CHECKPOINT';
    expect(() => valueIn(call)).toThrow(expect.objectContaining({ code }));
  }
});
