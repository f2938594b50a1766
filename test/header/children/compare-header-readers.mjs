// Reads many generated headers by `readCanonicalHeader` and by the scanner. The scanner must accept every header that
// the first accepts, with the same result. Headers are valid, nearly valid and hostile; the same seed gives the same
// ones. Prints the counts as JSON, or the first header on which the two disagree. argv: SEED COUNT [polluted]: with
// `polluted`, Object.prototype has the fields of a description.

import { readCanonicalHeader } from '../../../build/header/canonical-header.js';
import { Header, scanHeader } from '../../../build/header/header.js';
import { JsonReader } from '../../../build/header/json/reader.js';
import { runSync } from '../../../build/work/work.js';

const [seed = '1', count = '1000', pollution] = process.argv.slice(2);
const encoder = new TextEncoder();

// Marsaglia's xorshift over 32 bits.
let state = Number(seed) | 1;
function random(limit) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % limit;
}
const pick = (items) => items[random(items.length)];
const oneIn = (n) => random(n) === 0;

const BITS = {
  BOOL: 8,
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  U8: 8,
  I8: 8,
  F8_E5M2: 8,
  F8_E4M3: 8,
  F8_E8M0: 8,
  F8_E4M3FNUZ: 8,
  F8_E5M2FNUZ: 8,
  I16: 16,
  U16: 16,
  F16: 16,
  BF16: 16,
  I32: 32,
  U32: 32,
  F32: 32,
  C64: 64,
  F64: 64,
  I64: 64,
  U64: 64,
};
const DTYPES = Object.keys(BITS);

const ODD_NAMES = [
  '',
  '__proto__',
  'constructor',
  'toString',
  'toJSON',
  'hasOwnProperty',
  '0',
  '1',
  '10',
  '007',
  '4294967294',
  '4294967295',
  '-1',
  'dtype',
  '__metadata__',
  '__metadata',
  ' ',
  ' a',
  'a ',
  '\x7f',
  '}',
  '{',
  '],"',
  ':',
  '\\"',
  '\\\\',
  '\\u0061',
  '\\n',
  '\\ud800',
  'a\\',
  'é',
  '\u00a0',
  '\ufeff',
  '\u2028',
  '\u{1f600}',
  '\x01',
  '\n',
  '\t',
  '\x00',
  'a'.repeat(200),
];
const ODD_DTYPES = [
  '["U8"]',
  '"u8"',
  '"U9"',
  '""',
  'null',
  '1',
  '{}',
  '"U\\u0038"',
  '"U8 "',
  '" U8"',
  'true',
  '"__proto__"',
  '"constructor"',
  '"U8"',
  '"F8"',
  '"U8","dtype":"U8"',
  '"float32"',
  '[["U8"]]',
];
const ODD_INTEGERS = [
  '-0',
  '-1',
  '1.0',
  '1e3',
  '1E0',
  '0.0',
  '01',
  '00',
  '+1',
  '"1"',
  'null',
  'true',
  '[1]',
  '',
  '0x1',
  '9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '4294967296',
  '4294967295',
  '18446744073709551615',
  '18446744073709551616',
  '1000000000000000',
  '999999999999999',
  '1e400',
  '1e-400',
  'NaN',
  'Infinity',
  '1_0',
  '2147483648',
  '1e21',
  '100000000000000000000',
  '1.',
  '.5',
  '0e0',
];
const ODD_SHAPES = [
  '[4294967296,4294967296,0]',
  '[0,4294967296,4294967296]',
  '[9007199254740991,0]',
  '[9007199254740993,0]',
  '[0,9007199254740992]',
  '[94906267,94906267]',
  '[3037000500,3037000500]',
  '{}',
  'null',
  '2',
  '"2"',
  '[[2]]',
  '[2,]',
  '[,2]',
  '[ ]',
  '[2 ]',
  '[1,1,1,1,1,1,1]',
  '[2,1,1,1,1]',
  '[2,1,1,1,1,1]',
  '[',
  '{"length":0}',
  '[],"shape":[]',
];
const ODD_OFFSETS = [
  '[]',
  '[0]',
  '[0,1,2]',
  '{}',
  'null',
  '"0,1"',
  '{"0":0,"1":1}',
  '[0,,1]',
  '[[0],1]',
];
const ODD_METADATA = [
  'null',
  '{}',
  '[]',
  '""',
  '1',
  '{"a":1}',
  '{"a":null}',
  '{"a":["b"]}',
  '{"a":{"b":"c"}}',
  '{"a":"b","a":"b"}',
  '{"a":"b","\\u0061":"c"}',
  '{"__proto__":"b"}',
  '{"__proto__":null}',
  '{"1":"a","0":"b"}',
  '{"":""}',
  '{"a":"\\u0000"}',
  '{"a":"\\ud800"}',
  '{"a":"\\q"}',
  '{"a":"é"}',
  '{"a":"\n"}',
  '{"a":"\\\\"}',
  '{"a":"b",}',
  '{"a":"\\"b\\":{\\n\\t"}',
  '{"a":"\\u0041"}',
  '{"a" :"b"}',
  '{"a":"b"}}',
  '{"a":"}"}',
  '{"a\\n":"b"}',
  '{',
];
const SPACES = [
  ' ',
  '\n',
  '\t',
  '\r',
  '  ',
  '\v',
  '\f',
  '\u00a0',
  '\ufeff',
  '\u2028',
  '\x00',
  '\x85',
];
const NESTED = '['.repeat(20_000) + ']'.repeat(20_000);

/** Whether the next header has faults, and of which kinds: 0 without faults. */
let faults = 0;
const isOdd = () => faults > 0 && oneIn(12);

function formatShape(dimensions) {
  if (isOdd()) return pick(ODD_SHAPES);
  return `[${dimensions.map((dimension) => (isOdd() ? pick(ODD_INTEGERS) : dimension)).join(',')}]`;
}

function offsetsText(begin, end) {
  if (isOdd()) return pick(ODD_OFFSETS);
  const offset = (value) => (isOdd() ? pick([...ODD_INTEGERS, value + 1, value + 8]) : value);
  return isOdd() ? `[${end},${begin}]` : `[${offset(begin)},${offset(end)}]`;
}

/** Description of a tensor that begins at `begin`, and where it ends. */
function description(begin) {
  const dtype = pick(DTYPES);
  const dimensions = Array.from({ length: pick([0, 1, 1, 2, 2, 2, 3, 4, 5, 6]) }, () =>
    pick([0, 1, 2, 4, 8, 24]),
  );
  // Sizes near and above 2^53 bits.
  if (isOdd()) dimensions.push(pick([2 ** 26, 2 ** 47, 2 ** 50, 6004799503160663, 2 ** 52 - 1]));
  const bits = dimensions.reduce((product, dimension) => product * dimension, 1) * BITS[dtype];
  if (bits % 8 !== 0 && !isOdd()) return description(begin);
  const end = begin + Math.floor(bits / 8);
  const fields = [
    `"dtype":${isOdd() ? pick(ODD_DTYPES) : `"${dtype}"`}`,
    `"shape":${formatShape(dimensions)}`,
    `"data_offsets":${offsetsText(begin, end)}`,
  ];
  if (isOdd()) fields.splice(random(3), 1);
  if (isOdd()) fields.splice(random(4), 0, pick(fields.length > 0 ? fields : ['']));
  if (isOdd())
    fields.splice(
      random(4),
      0,
      pick(['"x":1', `"x":{"y":[]}`, `"__proto__":{${fields.join(',')}}`, '"x":-0.0e1']),
    );
  if (isOdd()) fields.reverse();
  const text = isOdd()
    ? pick(['null', '[]', '1', '"a"', '{}', `[{${fields.join(',')}}]`])
    : `{${fields.join(',')}}`;
  return { text, end };
}

function metadataText() {
  if (faults > 0 && oneIn(3)) return pick(ODD_METADATA);
  return pick([
    '{}',
    '{"format":"pt"}',
    '{"a":"b","c":"d"}',
    '{"a":"{\\"b\\":[1,2]}","c":"\\\\\\n"}',
  ]);
}

/** Text of a header, and the length of the data after it. */
function header() {
  const members = [];
  let end = 0;
  const tensors = random(6);
  for (let i = 0; i < tensors; i++) {
    const name = isOdd() || oneIn(8) ? pick(ODD_NAMES) : `layer.${i}.${random(1000)}`;
    const tensor = description(end);
    members.push(`"${name}":${tensor.text}`);
    end = tensor.end;
  }
  if (!oneIn(3)) members.unshift(`"__metadata__":${metadataText()}`);
  if (isOdd()) members.push(`"__metadata__":${metadataText()}`);
  if (isOdd() && members.length > 0) members.push(pick(members));
  if (isOdd()) members.reverse();
  if (isOdd()) members.push(pick(['', '"x":1', '"x"', 'x', `"x":${oneIn(100) ? NESTED : '[[]]'}`]));
  const start = isOdd() ? pick(['[', '"', ' ', ',', '']) : '{';
  let text = `${start}${members.join(',')}}${' '.repeat(pick([0, 0, 1, 7]))}`;
  if (isOdd()) text = text.replace(/\},/, pick(['}', '},,', '} ,', '}]', '};']));
  if (isOdd()) text += pick(SPACES) + pick(['', ' ', '}', '{}', '\x00']);
  if (isOdd()) text = pick(SPACES) + text;
  for (let i = isOdd() ? 2 : 0; i > 0; i--) {
    const at = random(text.length);
    text =
      text.slice(0, at) +
      pick([...SPACES, '"', ',', '{', '}', '[', ']', '\\', '0', '-']) +
      text.slice(at + random(2));
  }
  return { text, dataByteLength: isOdd() ? end + pick([-1, 1, 8]) : end };
}

/** Bytes of a header: sometimes with some of them changed or cut off. */
function input() {
  faults = pick([0, 1, 1, 1]);
  const { text, dataByteLength } = header();
  const json = encoder.encode(text);
  for (let i = isOdd() ? 1 + random(3) : 0; i > 0; i--) json[random(json.length)] = random(256);
  return { json: isOdd() ? json.slice(0, random(json.length)) : json, dataByteLength };
}

const POLLUTION = {
  dtype: 'U8',
  shape: [],
  data_offsets: [0, 1],
  length: 2,
  0: 0,
  1: 1,
  __metadata__: {},
};

/** The contents of a header. */
function factsOf(header) {
  const { size, dataStart, dataByteLength, metadataAt, metadataEnd, metadata } = header;
  const tensors = Array.from({ length: size }, (_, entry) => {
    const name = header.name(entry);
    const found = header.find(name);
    const place = [header.begin(entry), header.end(entry)];
    return [name, found, header.dtype(entry), header.shape(entry), place];
  });
  const others = ODD_NAMES.map((name) => header.find(name));
  const pairs = metadata === null ? null : [...metadata];
  const sorted = [header.names(), header.sortedNames()];
  return {
    size,
    dataStart,
    dataByteLength,
    metadataAt,
    metadataEnd,
    pairs,
    tensors,
    others,
    sorted,
  };
}

/** The scanner's result, or the code of its error. */
function scan({ json, dataByteLength }) {
  try {
    return runSync(scanHeader(json, dataByteLength, {}));
  } catch (error) {
    if (error.code === undefined) throw error;
    return error.code;
  }
}

// Errors without stacks are made several times as fast.
Error.stackTraceLimit = 0;
if (pollution === 'polluted') Object.assign(Object.prototype, POLLUTION);
const counts = { taken: 0, scanned: 0, refused: 0 };
for (let i = 0; i < Number(count); i++) {
  const { json, dataByteLength } = input();
  const scanned = scan({ json, dataByteLength });
  const content = runSync(readCanonicalHeader(json, dataByteLength));
  if (content === null) {
    counts[typeof scanned === 'string' ? 'refused' : 'scanned']++;
    continue;
  }
  counts.taken++;
  const header = new Header(new JsonReader(json), content, content.names, dataByteLength);
  const usual = JSON.stringify(factsOf(header));
  const expected = typeof scanned === 'string' ? scanned : JSON.stringify(factsOf(scanned));
  if (usual !== expected) {
    const text = new TextDecoder().decode(json);
    console.log(JSON.stringify({ differs: { text, dataByteLength, usual, expected } }));
    process.exit(1);
  }
}
console.log(JSON.stringify(counts));
