/** Spellings that torch reads in its own way: read alike here, or refused. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { Random } from '../../support/random.js';
import { writeArchive } from '../generated-archive.js';
import { pickle2, unicode } from '../pickle/pickle-bytes.js';
import { dict, legacyFile, tensor } from './legacy-file.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-as-torch-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Bytes as Python 3 writes them in protocol 2. */
function encoded(characters: string, codec = 'latin1'): string {
  return `c_codecs\nencode\n${unicode(characters)}${unicode(codec)}\x86R`;
}

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

describe('the state of a tensor', () => {
  const hooks = 'ccollections\nOrderedDict\n)R';
  const plain = tensor('0', [2]);
  const other = tensor('1', [2]);
  const args = plain.slice('ctorch._utils\n_rebuild_tensor_v2\n'.length, -1);
  const callee = 'ctorch._utils\n_rebuild_tensor_v2\n';
  const parameter = (state: string): string =>
    `ctorch._utils\n_rebuild_parameter_with_state\n(${plain}\x89${hooks}${state}tR`;
  const subclass = (state: string): string =>
    `ctorch._tensor\n_rebuild_from_type_v2\n(${callee}ctorch\nTensor\n${args}${state}tR`;
  const open = (value: string): string[] => {
    const object = dict([unicode('w'), value], [unicode('v'), other]);
    using checkpoint = openTorchCheckpoint(legacyFile(object, { 0: 2, 1: 2 }));
    return checkpoint.keys();
  };
  const makers = [
    ['a parameter', parameter],
    ['_rebuild_from_type_v2', subclass],
  ] as const;
  const own = dict([unicode('mine'), 'K\x01'], [unicode('list'), ']K\x01a']);

  it.each(makers)('of %s is left out', (_, made) => {
    for (const state of ['N', '}', own, `N${own}\x86`, `${own}N\x86`]) {
      expect(open(made(state))).toEqual(['v', 'w']);
    }
  });

  it.each(makers)('of %s is refused when it sets what tensors have', (_, made) => {
    for (const name of ['data', 'real', 'grad', '__class__', 'numpy', 'names']) {
      const state = dict([unicode(name), 'K\x01']);
      for (const form of [state, `${state}N\x86`, `N${state}\x86`]) {
        expect(() => open(made(form))).toThrow(
          expect.objectContaining({
            code: 'SAFETENSORS_INVALID_TORCH_CHECKPOINT',
            message: expect.stringContaining(`sets "${name}", which a tensor has`),
          }),
        );
      }
    }
  });

  it.each(makers)('of %s is refused in other forms', (_, made) => {
    for (const state of [')', ']', 'K\0', 'NNN\x87', dict(['K\x01', 'N']), `${own}]\x86`]) {
      const code = 'SAFETENSORS_INVALID_TORCH_CHECKPOINT';
      expect(() => open(made(state))).toThrow(expect.objectContaining({ code }));
    }
  });

  it.each(makers)('of %s with tensors, at any depth, is not left out silently', (_, made) => {
    const values = [other, `](${other}e`, `${other}\x85\x85`, dict([unicode('m'), `]${other}a`])];
    for (const value of values) {
      const object = dict(
        [unicode('w'), made(dict([unicode('mine'), value]))],
        [unicode('v'), other],
      );
      using checkpoint = openTorchCheckpoint(legacyFile(object, { 0: 2, 1: 2 }));
      expect(checkpoint.keys()).toEqual(['v']);
      expect(checkpoint.problems).toMatchObject([
        {
          code: 'SAFETENSORS_UNSUPPORTED_TENSOR',
          tensor: 'w',
          message: expect.stringContaining('attributes without tensors'),
        },
      ]);
    }
  });

  it('of a dict is refused when it sets what dicts have: torch would walk something else', () => {
    const type = 'ccollections\nOrderedDict\n';
    const filled = `${type})R(${unicode('w')}${plain}u`;
    const openDict = (name: string): string[] => {
      const path = legacyFile(`${filled}${dict([unicode(name), type])}b`, { 0: 2 });
      using checkpoint = openTorchCheckpoint(path);
      return checkpoint.keys();
    };
    expect(openDict('_metadata')).toEqual(['w']);
    for (const name of ['items', 'keys', '__iter__']) {
      const message = expect.stringContaining(`sets "${name}", which a dict has`);
      expect(() => openDict(name)).toThrow(expect.objectContaining({ message }));
    }
  });
});

it('a storage is named by a text: bytes would name another record in torch', () => {
  for (const key of [encoded('0'), 'K\0', 'N']) {
    const open = (): unknown =>
      openLegacy([unicode('w'), tensor('0', [2]).replace(unicode('0'), key)]);
    expect(open).toThrow(
      expect.objectContaining({ message: expect.stringContaining('the key of a storage') }),
    );
  }
});

it.each([
  ['a location of bytes', unicode('cpu'), 'C\x03cpu'],
  ['one of protocol 2', unicode('cpu'), encoded('cpu')],
  ['another name of the codec', unicode('cpu'), encoded('cpu', 'latin-1')],
  ['bytes of 8 bytes of length', unicode('cpu'), '\x8e\x03\0\0\0\0\0\0\0cpu'],
  ['bytes for the word storage', unicode('storage'), encoded('storage')],
  ['a length in more bytes than it needs', 'K\x02NtQ', `\x8a\x14\x02${'\0'.repeat(19)}NtQ`],
])(
  'bytes of ASCII are a text where torch decodes them, to a scan as well: %s',
  (_, text, other) => {
    const path = legacyFile(dict([unicode('w'), tensor('0', [2]).replace(text, other)]), { 0: 2 });
    using checkpoint = openTorchCheckpoint(path);
    expect(checkpoint.keys()).toEqual(['w']);
    expect(scanPickle(path)).toMatchObject({ verdict: 'safe', findings: [], problems: [] });
  },
);

it('a storage has a location by a text: torch finds no device by anything else', () => {
  const byteArray = `cbuiltins\nbytearray\n${unicode('cpu')}${unicode('latin1')}\x86R`;
  const others = ['C\x01\xff', encoded('\xc3\xa9'), byteArray, `X\xe9\x03\0\0${'c'.repeat(1001)}`];
  for (const location of ['N', ')', 'K\0', ...others]) {
    const open = (): unknown =>
      openLegacy([unicode('w'), tensor('0', [2]).replace(unicode('cpu'), location)]);
    expect(open).toThrow(
      expect.objectContaining({ message: expect.stringContaining('the location of storage "0"') }),
    );
  }
});

describe('keys', () => {
  const nan = 'G\x7f\xf8\0\0\0\0\0\0';
  const device = (name: string): string => `ctorch\ndevice\n${unicode(name)}\x85R`;
  const layout = `ctorch.serialization\n_get_layout\n${unicode('torch.strided')}\x85R`;

  const text = unicode;
  /** Values that are not told apart in JavaScript either. */
  const alike: readonly (readonly [about: string, one: string, other: string])[] = [
    ['two that are no numbers', nan, nan],
    ['a device and its text', device('cpu'), text('cpu')],
    ['a device with a number and its text', device('cuda:1'), text('cuda:1')],
    ['a layout and its text', layout, text('torch.strided')],
    ['a dtype and its text', 'ctorch\nfloat32\n', text('torch.float32')],
  ];

  it.each<readonly [string, string, string]>([
    ...alike,
    ['a number and its text', 'K\x01', text('1')],
    ['None and its text', 'N', text('None')],
    ['a tuple and its text', 'K\x01\x85', text('(1,)')],
    ['bytes and their text', `c_codecs\nencode\n${text('a')}${text('latin1')}\x86R`, text("b'a'")],
  ])('of one name, of which no tensor is lost: %s', (_, one, other) => {
    const value = tensor('0', [2]);
    const duplicate = expect.objectContaining({ code: 'SAFETENSORS_DUPLICATE_NAME' });
    expect(() => openLegacy([one, value], [other, value])).toThrow(duplicate);
    expect(() => openLegacy([other, value], [one, value])).toThrow(duplicate);
  });

  it.each(alike)('of extra() that are one here: %s', (_, one, other) => {
    const open = (): unknown =>
      openLegacy([text('w'), tensor('0', [2])], [one, 'K\x01'], [other, 'K\x02']);
    expect(open).toThrow(expect.objectContaining({ code: 'SAFETENSORS_DUPLICATE_NAME' }));
  });

  it('that Python takes for one are one, with the first name and the last value', () => {
    const size = 'ctorch\nSize\nK\x01\x85\x85R';
    const value = tensor('0', [2]);
    expect(openLegacy(['\x88', value], ['K\x01', value])).toEqual(['True']);
    expect(openLegacy([size, value], ['K\x01\x85', value])).toEqual(['torch.Size([1])']);
    const two = `ctorch\ndevice\n${unicode('cuda')}K\x01\x86R`;
    expect(openLegacy([two, value], [device('cuda:1'), value])).toEqual(['cuda:1']);
    // The same object is equal to itself, even if it is no number.
    expect(openLegacy([`${nan}q\x09`, value], ['h\x09', value])).toEqual(['nan']);
  });

  it.each([
    ["'k'", 'k'],
    [`"k'"`, "k'"],
    [`'k"'`, 'k"'],
    [`'\\'"'`, `'"`],
    ["'\\\\'", '\\'],
    ["'\\n\\t\\r\\x00\\x7f'", '\n\t\r\0\x7f'],
    ["'\\x80\\xa0\\xad\u00e9'", '\xc2\x80\xc2\xa0\xc2\xad\xc3\xa9'],
    ["'\\u2028\\ue000\\ufeff'", '\xe2\x80\xa8\xee\x80\x80\xef\xbb\xbf'],
    ["'\u{1f600}\\U000e0001'", '\xf0\x9f\x98\x80\xf3\xa0\x80\x81'],
  ])('within tuples are shown as Python does: %s', (shown, bytes) => {
    expect(openLegacy([`${unicode(bytes)}\x85`, tensor('0', [2])])).toEqual([`(${shown},)`]);
  });

  it('of bytes and devices too', () => {
    const bytes = `c_codecs\nencode\n${unicode("a'\\\n\xc3\xa9")}${unicode('latin1')}\x86R`;
    const key = `${bytes}${device('cpu')}ctorch\nfloat32\n\x87`;
    expect(openLegacy([key, tensor('0', [2])])).toEqual([
      `(b"a'\\\\\\n\\xe9", device(type='cpu'), torch.float32)`,
    ]);
  });

  it('are no bytearrays', () => {
    const bytes = `c_codecs\nencode\n${unicode('a')}${unicode('latin1')}\x86R`;
    const open = (): unknown =>
      openLegacy([`c__builtin__\nbytearray\n${bytes}\x85R`, tensor('0', [2])]);
    expect(open).toThrow(expect.objectContaining({ code: 'SAFETENSORS_INVALID_PICKLE' }));
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

it('texts become bytes by the codec that is named, which is latin1', async () => {
  const valueIn = async (call: string): Promise<unknown> => {
    const object = dict([unicode('v'), call], [unicode('w'), tensor('0', [2])]);
    using checkpoint = openTorchCheckpoint(legacyFile(object, { 0: 2 }));
    return ((await checkpoint.extra()) as Map<string, unknown>).get('v');
  };
  const encoded = 'X\x02\0\0\0\xc3\xa9';
  const latin1 = unicode('latin1');
  expect(await valueIn(`c_codecs\nencode\n${encoded}${latin1}\x86R`)).toEqual(Uint8Array.of(0xe9));
  expect(await valueIn(`c__builtin__\nbytearray\n${encoded}${latin1}\x86R`)).toEqual(
    Uint8Array.of(0xe9),
  );
  expect(await valueIn('c__builtin__\nbytearray\nC\x01\xe9\x85R')).toEqual(Uint8Array.of(0xe9));
  // To Python the first is UTF-8; the others are errors.
  for (const call of [
    `c_codecs\nencode\n${encoded}\x85R`,
    `c_codecs\nencode\nC\x01a${latin1}\x86R`,
    `c__builtin__\nbytearray\n${encoded}\x85R`,
  ]) {
    const code = 'SAFETENSORS_INVALID_TORCH_CHECKPOINT';
    await expect(valueIn(call)).rejects.toMatchObject({ code });
  }
});
