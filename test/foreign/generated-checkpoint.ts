/** Checkpoints made from a grammar: nested values, tensors over shared storages, now and then a wrong one. */

import type { Random } from '../support/random.js';
import { integer, text } from './pickle-mutations.js';

/** A pickle, and the storages that it names: as torch has them, in the order of the first use. */
export interface MadeCheckpoint {
  readonly pickle: Buffer;
  readonly storages: readonly ComputedStorage[];
}

/** A storage and its bytes. */
export interface ComputedStorage {
  readonly key: string;
  readonly elementCount: number;
  readonly bytes: Buffer;
}

/** Storage classes and the bytes of their elements. */
const CLASSES: readonly (readonly [type: string, itemByteLength: number])[] = [
  ['torch\nFloatStorage', 4],
  ['torch\nDoubleStorage', 8],
  ['torch\nHalfStorage', 2],
  ['torch\nBFloat16Storage', 2],
  ['torch\nLongStorage', 8],
  ['torch\nIntStorage', 4],
  ['torch\nShortStorage', 2],
  ['torch\nCharStorage', 1],
  ['torch\nByteStorage', 1],
  ['torch\nBoolStorage', 1],
  ['torch\nComplexFloatStorage', 8],
  ['torch\nComplexDoubleStorage', 16],
  ['torch.cuda\nFloatStorage', 4],
  ['torch.storage\nUntypedStorage', 1],
];

/** Dtypes of tensors over storages without one. */
const DTYPES: readonly (readonly [name: string, itemByteLength: number])[] = [
  ['float8_e4m3fn', 1],
  ['float8_e5m2', 1],
  ['float8_e8m0fnu', 1],
  ['float4_e2m1fn_x2', 1],
  ['uint16', 2],
  ['uint32', 4],
  ['uint64', 8],
  ['float32', 4],
  ['bfloat16', 2],
  ['complex64', 8],
  ['bool', 1],
  ['complex32', 4],
  ['bits8', 1],
];

const KEYS: readonly string[] = [
  'weight',
  'bias',
  'a',
  'b',
  'a.b',
  '0',
  '1',
  '',
  'state_dict',
  'é',
  'cpu',
  'nan',
  'torch.strided',
  'torch.float32',
  'None',
  'True',
];

/** Texts that Python shows in another way within tuples. */
const ODD_TEXTS: readonly string[] = [
  'k',
  "k'",
  'k"',
  `'"`,
  '\\',
  '\n\t\r\u0000\u007f',
  'é\u00a0\u00ad\u2028\u3000\ue000',
  '\u{1f600}\u{e0001}\u{10ffff}',
];

/** Keys that are not strings, but are shown like some of the strings. */
const NOT_TEXTS: readonly string[] = [
  'G\x7f\xf8\0\0\0\0\0\0',
  `ctorch\ndevice\n${text('cpu')}\x85R`,
  `ctorch\ndevice\n${text('cuda')}K\x01\x86R`,
  `ctorch\ndevice\n${text('cuda:1')}\x85R`,
  `ctorch.serialization\n_get_layout\n${text('torch.strided')}\x85R`,
  'ctorch\nSize\nK\x01K\x02\x86\x85R',
  'K\x01K\x02\x86',
  `c_codecs\nencode\n${text("a\\'\u00e9\n")}${text('latin1')}\x86R`,
  '\x88',
  'K\x01',
];

interface Storage {
  readonly type: string;
  readonly itemByteLength: number;
  readonly key: string;
  /** Grows with the tensors over it. */
  byteLength: number;
}

/** Writes one checkpoint. Its methods return opcodes: one character is one byte. */
class Maker {
  readonly #random: Random;
  readonly #isLegacy: boolean;
  readonly #storages: Storage[] = [];
  /** Opcodes that recall tensors. */
  readonly #memo: string[] = [];
  #memoCount = 0;

  constructor(random: Random, isLegacy: boolean) {
    this.#random = random;
    this.#isLegacy = isLegacy;
  }

  make(): MadeCheckpoint {
    const value = this.#container(0);
    const storages = this.#storages.map(({ type, itemByteLength, key, byteLength }) => {
      const elementCount = Math.ceil(byteLength / itemByteLength);
      const lie = this.#random.chance(0.02) ? this.#random.from(-1, 1) : 0;
      const bytes = this.#random.bytes(Math.max(0, elementCount * itemByteLength + lie));
      if (type.includes('Bool')) for (let i = 0; i < bytes.length; i++) (bytes[i] as number) &= 1;
      return { key, elementCount, bytes };
    });
    const counted = value.replace(/\u0100(\d+)\u0100/g, (_, index) =>
      integer(storages[Number(index)]?.elementCount ?? 0),
    );
    return { pickle: Buffer.from(`\x80\x02${counted}.`, 'latin1'), storages };
  }

  #container(depth: number): string {
    const random = this.#random;
    const count = random.below(depth === 0 ? 6 : 4);
    const values = Array.from({ length: count }, () => this.#value(depth + 1));
    const pairs = values.map((value) => [this.#key(), value] as const);
    const dict = `(${pairs.flat().join('')}u`;
    const choices = [
      () => `}${this.#put()}${dict}`,
      () => `}${pairs.map(([key, value]) => `${key}${value}s`).join('')}`,
      () => `ccollections\nOrderedDict\n)R${this.#put()}${dict}`,
      () =>
        `ccollections\nOrderedDict\n](${pairs.map(([key, value]) => `${key}${value}\x86`).join('')}e\x85R`,
      () => `](${values.join('')}e`,
      () => `(${values.join('')}t${this.#put()}`,
    ];
    if (depth > 0) choices.push(() => `ccollections\nCounter\n}${dict}\x85R`);
    const made = (depth === 0 ? random.pick(choices.slice(0, 5)) : random.pick(choices))();
    const attributes = `}(${text('_metadata')}}u`;
    return made.startsWith('ccollections\nO') && random.chance(0.2)
      ? `${made}${attributes}b`
      : made;
  }

  #key(): string {
    const random = this.#random;
    if (random.chance(0.85))
      return text(random.pick(KEYS) + (random.chance(0.7) ? random.below(90) : ''));
    return random.do(
      () => integer(random.below(4)),
      () => integer(BigInt(random.number(1)) << 32n),
      () => '\x88',
      () => '\x89',
      () => 'N',
      () =>
        `G${random.pick(['\x3f\xf0', '\x40\x09', '\x43\x50', '\x7f\xf0', '\x3e\x10'])}\0\0\0\0\0\0`,
      () => `(${integer(random.below(3))}${text(random.pick(ODD_TEXTS))}t`,
      () => `(${random.pick(NOT_TEXTS)}${random.pick(NOT_TEXTS)}t`,
      () => random.pick(NOT_TEXTS),
      () => 'ctorch\nfloat32\n',
      () => `c_codecs\nencode\n${text('ab')}${text('latin1')}\x86R`,
    );
  }

  #value(depth: number): string {
    const random = this.#random;
    if (random.chance(0.7)) return this.#tensorOrMemo();
    if (depth < 4 && random.chance(0.4)) return this.#container(depth);
    return random.do(
      () => this.#key(),
      () => `c__builtin__\nset\n](${integer(1)}${text('x')}e\x85R`,
      () => `ctorch\nSize\n(${integer(random.below(5))}t\x85R`,
      () => `ctorch\ndevice\n${text('cpu')}\x85R`,
      () => `c__builtin__\ncomplex\nG\x3f\xf0\0\0\0\0\0\0G\x40\0\0\0\0\0\0\0\x86R`,
      () => `c__builtin__\nbytearray\n)R`,
      () =>
        this.#persistentId(
          random.pick(this.#storages.length > 0 ? this.#storages : [this.#addStorage()]),
        ),
    );
  }

  /** A new tensor, or an earlier one. */
  #tensorOrMemo(): string {
    const random = this.#random;
    if (this.#memo.length > 0 && random.chance(0.15)) return random.pick(this.#memo);
    const made = this.#wrapped(this.#tensor());
    if (!random.chance(0.4)) return made;
    const put = this.#put();
    this.#memo.push((put[0] === 'q' ? 'h' : 'j') + put.slice(1));
    return made + put;
  }

  #put(): string {
    const number = this.#memoCount++;
    return number < 256
      ? `q${String.fromCharCode(number)}`
      : `r${String.fromCharCode(number & 255, number >> 8, 0, 0)}`;
  }

  #wrapped(tensor: string): string {
    const random = this.#random;
    if (random.chance(0.75)) return tensor;
    const hooks = 'ccollections\nOrderedDict\n)R';
    return random.do(
      () => `ctorch._utils\n_rebuild_parameter\n(${tensor}\x89${hooks}tR`,
      () =>
        `ctorch._utils\n_rebuild_parameter_with_state\n(${tensor}\x89${hooks}${this.#state()}tR`,
      () => `ctorch.nn.parameter\nParameter\n${tensor}\x89\x86R`,
      () => {
        const [callee = '', rest = ''] = split(tensor);
        return `ctorch._tensor\n_rebuild_from_type_v2\n(${callee}ctorch\nTensor\n${rest}${this.#state()}tR`;
      },
    );
  }

  /** Attributes: nearly always names of the user's own. */
  #state(): string {
    const random = this.#random;
    const name = text(
      random.chance(0.8) ? random.pick(KEYS) : random.pick(['data', 'real', 'grad', '__class__']),
    );
    const value = random.chance(0.1) ? this.#tensor() : random.pick(['N', 'K\x01', ']', '}']);
    const state = `}(${name}${value}u`;
    return random.do(
      () => '}',
      () => 'N',
      () => state,
      () => `N${state}\x86`,
      () => `${state}N\x86`,
      () => `${state}${state}\x86`,
      () => random.pick([')', ']', 'K\0', `${state}\x85`]),
    );
  }

  #addStorage(): Storage {
    const [type, itemByteLength] = this.#random.pick(CLASSES);
    const storage = { type, itemByteLength, key: `${this.#storages.length}`, byteLength: 0 };
    this.#storages.push(storage);
    return storage;
  }

  #storage(): Storage {
    const isNew = this.#storages.length === 0 || this.#random.chance(0.6);
    return isNew ? this.#addStorage() : this.#random.pick(this.#storages);
  }

  #tensor(): string {
    const random = this.#random;
    const storage = this.#storage();
    const isUntyped = storage.type.includes('Untyped') || random.chance(0.1);
    const [dtype, itemByteLength] = isUntyped ? random.pick(DTYPES) : ['', storage.itemByteLength];
    const shape = Array.from({ length: random.pick([0, 1, 1, 2, 2, 3, 4]) }, () =>
      random.pick([0, 1, 2, 3, 4, 5]),
    );
    const strides = this.#strides(shape);
    const offset = random.pick([0, 0, 0, 1, 2, 7]);
    if (shape.every((size) => size > 0)) {
      const last = shape.reduce(
        (sum, size, axis) => sum + (size - 1) * (strides[axis] ?? 0),
        offset,
      );
      const missing = random.chance(0.02) ? 1 : 0;
      const needed = (last + 1 - missing) * itemByteLength;
      storage.byteLength = Math.max(storage.byteLength, needed);
    }
    const numbers = (values: readonly number[]): string => `(${values.map(integer).join('')}t`;
    const where = `${this.#persistentId(storage)}${integer(offset)}${numbers(shape)}${numbers(strides)}`;
    if (!isUntyped && random.chance(0.05)) return `ctorch._utils\n_rebuild_tensor\n(${where}tR`;
    const hooks = 'ccollections\nOrderedDict\n)R';
    const requiresGradient = random.pick(['\x89', '\x89', '\x88']);
    const name = isUntyped ? '_rebuild_tensor_v3' : '_rebuild_tensor_v2';
    const type = isUntyped ? `ctorch\n${dtype}\n` : '';
    return `ctorch._utils\n${name}\n(${where}${requiresGradient}${hooks}${type}${this.#metadata()}tR`;
  }

  /** In C order, or of a transposed, expanded or any other view. */
  #strides(shape: readonly number[]): number[] {
    const random = this.#random;
    let stride = 1;
    const own = shape.toReversed().map((size) => {
      const before = stride;
      stride *= Math.max(1, size);
      return before;
    });
    own.reverse();
    if (random.chance(0.5)) return own;
    return random.do(
      () => own.toReversed(),
      () => own.map((one) => one * 2),
      () => own.map((one) => (random.chance(0.3) ? 0 : one)),
      () => own.map(() => random.below(6)),
      () => own.map((one) => (random.chance(0.1) ? -one : one)),
      () => own.slice(0, random.chance(0.3) ? -1 : undefined),
    );
  }

  #metadata(): string {
    const random = this.#random;
    if (random.chance(0.8)) return '';
    const bit = (): string => random.pick(['\x88', '\x88', '\x89']);
    return random.do(
      () => `}(${text('conj')}${bit()}u`,
      () => `}(${text('neg')}${bit()}u`,
      () => `}(${text('conj')}${bit()}${text('neg')}${bit()}u`,
      () => '}',
      () => 'N',
    );
  }

  #persistentId(storage: Storage): string {
    const random = this.#random;
    const index = this.#storages.indexOf(storage);
    // The number takes this place when all tensors are there; no opcode or text has this character.
    const count = `\u0100${index}\u0100`;
    const part = `(${text(random.pick(['v', '0', `v${index}`]))}K\0${count}t`;
    const view = this.#isLegacy ? (random.chance(0.1) ? part : 'N') : '';
    const bytes = `c_codecs\nencode\n${text(storage.key)}${text('latin1')}\x86R`;
    const key = random.chance(0.01) ? bytes : text(storage.key);
    return `(${text('storage')}c${storage.type}\n${key}${text('cpu')}${count}${view}tQ`;
  }
}

/** Function and arguments of a call. */
function split(call: string): [callee: string, args: string] {
  const end = call.indexOf('\n', call.indexOf('\n') + 1) + 1;
  return [call.slice(0, end), call.slice(end, -1)];
}

/** Makes one checkpoint. */
export function makeCheckpoint(random: Random, isLegacy: boolean): MadeCheckpoint {
  return new Maker(random, isLegacy).make();
}
