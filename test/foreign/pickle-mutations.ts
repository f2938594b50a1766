/** Changes pickles opcode by opcode. */
import type { Random } from '../support/random.js';

/** An opcode and its argument. */
type Token = Buffer;

/** The form of an argument: a number of bytes, a text after its length in so many bytes, or lines. */
const ARGUMENTS: readonly (readonly [
  letters: string,
  argument: number | 'line' | 'lines' | 'text1' | 'text4' | 'text8',
])[] = [
  ['Kh\x80q\x82', 1],
  ['M\x83', 2],
  ['Jjr\x84', 4],
  ['G\x95', 8],
  ['FILPSVgp', 'line'],
  ['ci', 'lines'],
  ['CU\x8a\x8c', 'text1'],
  ['BTX\x8b', 'text4'],
  ['\x8d\x8e\x96', 'text8'],
];

/** Names that torch allows, names near them, and names that it forbids. */
const GLOBALS: readonly string[] = [
  'torch\nFloatStorage',
  'torch\nDoubleStorage',
  'torch\nByteStorage',
  'torch\nBFloat16Storage',
  'torch\nComplexFloatStorage',
  'torch.storage\nUntypedStorage',
  'torch.storage\nTypedStorage',
  'torch\nfloat16',
  'torch\nuint16',
  'torch\ncomplex64',
  'torch\nSize',
  'torch\ndevice',
  'torch\nTensor',
  'torch\nFloatTensor',
  'torch.nn.parameter\nParameter',
  'torch._utils\n_rebuild_tensor',
  'torch._utils\n_rebuild_tensor_v2',
  'torch._utils\n_rebuild_tensor_v3',
  'torch._utils\n_rebuild_parameter',
  'torch._utils\n_rebuild_parameter_with_state',
  'torch._utils\n_rebuild_qtensor',
  'torch._utils\n_rebuild_sparse_tensor',
  'torch._tensor\n_rebuild_from_type_v2',
  'torch.serialization\n_get_layout',
  'collections\nOrderedDict',
  'collections\nCounter',
  '__builtin__\nset',
  'builtins\nbytearray',
  'builtins\ncomplex',
  '_codecs\nencode',
  'argparse\nNamespace',
  'numpy\ndtype',
  'posix\nsystem',
  'builtins\neval',
  'torch._utils\n__dict__',
  'torch\n',
  '\n',
];

const TEXTS: readonly string[] = [
  '',
  '0',
  '1',
  '2',
  'a',
  'w.b',
  'storage',
  'module',
  'cpu',
  'latin1',
  'rot13',
  'conj',
  'neg',
  'state_dict',
  '__proto__',
  'constructor',
  '__metadata__',
  '../x',
  'a/b',
  'é',
  '😀',
  '\u0000',
  '\ud800',
  'x'.repeat(300),
];

/** Cuts a pickle into opcodes, up to its end or the first byte that is no opcode. */
export function tokensOf(pickle: Buffer): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < pickle.length; ) {
    const end = endOf(pickle, at);
    if (end > pickle.length || end <= at) return [...tokens, pickle.subarray(at)];
    tokens.push(pickle.subarray(at, end));
    at = end;
  }
  return tokens;
}

function endOf(pickle: Buffer, at: number): number {
  const letter = String.fromCharCode(pickle[at] as number);
  const argument = ARGUMENTS.find(([letters]) => letters.includes(letter))?.[1];
  const lineEnd = (from: number): number => {
    const end = pickle.indexOf(10, from);
    return end === -1 ? pickle.length + 1 : end + 1;
  };
  if (argument === undefined) return at + 1;
  if (argument === 'line') return lineEnd(at + 1);
  if (argument === 'lines') return lineEnd(lineEnd(at + 1));
  if (typeof argument === 'number') return at + 1 + argument;
  const width = Number(argument.slice(4));
  if (at + 1 + width > pickle.length) return pickle.length + 1;
  return at + 1 + width + pickle.readUIntLE(at + 1, Math.min(width, 6));
}

/** BININT1, BININT2, BININT or LONG1: as pickle writes it. */
export function integer(value: number | bigint): string {
  if (typeof value === 'number' && value >= 0 && value < 256)
    return `K${String.fromCharCode(value)}`;
  const bytes = Buffer.alloc(10);
  if (typeof value === 'number' && value >= -(2 ** 31) && value < 2 ** 31) {
    bytes.writeInt32LE(value);
    return `J${bytes.toString('latin1', 0, 4)}`;
  }
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
  bytes.writeInt16LE(Number(BigInt.asIntN(16, BigInt(value) >> 64n)), 8);
  return `\x8a\x0a${bytes.toString('latin1')}`;
}

/** BINUNICODE. */
export function text(value: string): string {
  const bytes = Buffer.from(value, 'utf8');
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return `X${length.toString('latin1')}${bytes.toString('latin1')}`;
}

/** One opcode of any kind, most of them well formed. */
function anyToken(random: Random): Token {
  const token = random.do(
    () => random.pick([...'()]}NQRbtuaes.012\x85\x86\x87\x88\x89\x81\x8f\x90\x91\x93\x94']),
    () => random.pick([...'()]}N\x88\x89\x8f']),
    () => integer(random.number(2)),
    () => integer(BigInt(random.number(2)) << BigInt(random.pick([16, 31, 32, 47]))),
    () => text(random.pick(TEXTS)),
    () => `c${random.pick(GLOBALS)}\n`,
    () => `${random.pick(['q', 'h', 'K'])}${String.fromCharCode(random.below(40))}`,
    () => `${random.pick(['r', 'j'])}${le32(random.number(5))}`,
    () => `G${random.bytes(8).toString('latin1')}`,
    () => `G${random.pick(['\x3f\xf0', '\x7f\xf0', '\x7f\xf8', '\x80\0', '\xc1\xe0'])}\0\0\0\0\0\0`,
    () => `\x8c\x01${String.fromCharCode(random.below(256))}`,
    () => `C\x02${random.bytes(2).toString('latin1')}`,
    () => `\x8e${le32(random.number(1))}${le32(random.pick([0, 0, 1]))}x`,
    () => `\x95${le32(random.number(20))}\0\0\0\0`,
    () => String.fromCharCode(random.below(256)),
  );
  return Buffer.from(token, 'latin1');
}

function le32(value: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes.toString('latin1');
}

/** The opcode with another argument, or another opcode of the same form. */
function changed(token: Token, tokens: readonly Token[], random: Random): Token {
  const [code = 0] = token;
  const letter = String.fromCharCode(code);
  if ('KMJ\x8a'.includes(letter)) {
    const usual = token.length === 2 ? (token[1] as number) : random.below(9);
    return Buffer.from(integer(random.number(usual)), 'latin1');
  }
  if (letter === 'c') return Buffer.from(`c${random.pick(GLOBALS)}\n`, 'latin1');
  if (letter === 'X' && token.length >= 5) {
    const same = tokens.filter((other) => other[0] === code);
    return random.do(
      () => random.pick(same),
      () => Buffer.from(text(random.pick(TEXTS)), 'latin1'),
      () => {
        const copy = Buffer.from(token);
        copy.writeUInt32LE(random.number(copy.length - 5), 1);
        return copy;
      },
    );
  }
  if ('qhrj'.includes(letter)) {
    const copy = Buffer.from(token);
    const isShort = copy.length < 5;
    const index = random.chance(0.8) ? random.below(30) : random.number(copy[1] as number);
    if (isShort) copy[1] = index & 255;
    else copy.writeUInt32LE(index, 1);
    return copy;
  }
  if (token.length === 1) {
    const groups = ['N\x88\x89)]}\x8f', '\x85\x86\x87tl', 'aesu\x90', 'Rb\x81Q', '012'];
    const group = groups.find((letters) => letters.includes(letter)) ?? 'N0';
    return Buffer.from(random.pick([...group]), 'latin1');
  }
  const copy = Buffer.from(token);
  copy[random.below(copy.length)] = random.below(256);
  return copy;
}

/** Changes that Python's own reader does not notice. */
function neutral(random: Random): Buffer {
  const index = String.fromCharCode(random.from(200, 255));
  return Buffer.from(
    random.pick(['N0', '20', '(1', `q${index}`, 'K\x010', `(q${index}`]),
    'latin1',
  );
}

/** A pickle with some changes, or with one. */
export function mutatePickle(pickle: Buffer, random: Random): Buffer {
  const tokens = tokensOf(pickle);
  // The first says the protocol, the last is the end.
  const place = (): number => random.from(1, Math.max(1, tokens.length - 1));
  const count = random.pick([1, 1, 1, 2, 3, 6]);
  for (let i = 0; i < count; i++) {
    const at = place();
    const token = tokens[at] ?? Buffer.alloc(0);
    random.do(
      () => tokens.splice(at, 1),
      () => tokens.splice(at, 1, changed(token, tokens, random)),
      () => tokens.splice(at, 1, changed(token, tokens, random)),
      () => tokens.splice(at, 1, changed(token, tokens, random)),
      () => tokens.splice(at, 1, changed(token, tokens, random)),
      () => tokens.splice(at, 1, anyToken(random)),
      () => tokens.splice(at, 0, anyToken(random)),
      () => tokens.splice(at, 0, neutral(random)),
      () => tokens.splice(at, 0, ...tokens.slice(place(), place())),
      () => tokens.splice(at, random.below(6)),
      () => {
        const other = place();
        tokens.splice(at, 1, tokens[other] ?? token);
        if (tokens[other] !== undefined) tokens.splice(other, 1, token);
      },
    );
  }
  const whole = Buffer.concat(tokens);
  if (random.chance(0.02)) return Buffer.concat([whole, random.bytes(random.from(1, 5))]);
  if (random.chance(0.02)) return whole.subarray(0, random.below(whole.length));
  if (random.chance(0.02)) whole[random.below(whole.length)] = random.below(256);
  return whole;
}
