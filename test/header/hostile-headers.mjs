/** Hostile headers of any size: they make a reader repeat its most expensive steps. */

const QUOTE = 0x22;
const encoder = new TextEncoder();

/** One header, written front to back into an array of its final size. */
class HeaderWriter {
  at = 0;

  constructor(byteLength) {
    this.bytes = new Uint8Array(byteLength);
  }

  text(text) {
    for (let i = 0; i < text.length; i++) this.bytes[this.at++] = text.charCodeAt(i);
    return this;
  }

  /** Text of more than one-byte characters. */
  utf8(text) {
    this.at += encoder.encodeInto(text, this.bytes.subarray(this.at)).written;
    return this;
  }

  /** Repeats `unit` as long as `reserve` bytes stay free; returns how often. */
  fill(unit, reserve) {
    const first = this.at;
    this.utf8(unit);
    const size = this.at - first;
    const times = Math.floor((this.bytes.length - reserve - first) / size);
    const end = first + times * size;
    while (this.at < end) {
      const length = Math.min(this.at - first, end - this.at);
      this.bytes.copyWithin(this.at, first, first + length);
      this.at += length;
    }
    return times;
  }

  /** Repeats `write(i)`, which takes at most `size` bytes, while `reserve` bytes stay free. */
  repeat(size, reserve, write, times = Infinity) {
    let i = 0;
    while (i < times && this.at + size + reserve <= this.bytes.length) write(i++);
    return i;
  }

  /** A decimal number without making a string of it. */
  number(value) {
    let divisor = 1;
    while (value / divisor >= 10) divisor *= 10;
    for (; divisor >= 1; divisor = Math.floor(divisor / 10)) {
      this.bytes[this.at++] = 0x30 + (Math.floor(value / divisor) % 10);
    }
    return this;
  }

  /** `count` letters that spell `value` in base 64, least significant first. */
  letters(value, count) {
    for (let rest = value, i = 0; i < count; i++, rest = Math.floor(rest / 64)) {
      this.bytes[this.at++] = LETTERS.charCodeAt(rest % 64);
    }
    return this;
  }

  /** Bytes as they are. */
  block(block) {
    for (let i = 0; i < block.length; i++) this.bytes[this.at++] = block[i];
    return this;
  }

  /** Padding up to the full size; the file has `dataByteLength` bytes after the header. */
  finish(dataByteLength = 0) {
    this.bytes.fill(0x20, this.at);
    return { json: this.bytes, dataByteLength };
  }
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const EMPTY = ':{"dtype":"U8","shape":[0],"data_offsets":[0,0]}';
const SCALAR_OPEN = '{"t":{"dtype":"U8","shape":[],"data_offsets":[0,1]';

/** As many empty tensors as fit, with names of `size` bytes written by `writeName(writer, i)`. */
function emptyTensors(byteLength, size, writeName, times) {
  const writer = new HeaderWriter(byteLength).text('{');
  writer.repeat(
    size + EMPTY.length + 3,
    1,
    (i) => {
      if (i > 0) writer.text(',');
      writer.bytes[writer.at++] = QUOTE;
      writeName(writer, i);
      writer.bytes[writer.at++] = QUOTE;
      writer.text(EMPTY);
    },
    times,
  );
  return writer.text('}').finish();
}

/** How often the names of such a header can double, if each tensor takes up to 95 bytes. */
function stagesOf(byteLength) {
  return Math.floor(Math.log2(byteLength / 95));
}

/** `count` letters that spell `value` in base 64, least significant first. */
function lettersOf(value, count) {
  const writer = new HeaderWriter(count);
  return writer.letters(value, count).bytes;
}

/** One scalar tensor with `before`, then `unit` as often as it fits, then `after` in a field. */
function ignoredField(byteLength, before, unit, after) {
  const writer = new HeaderWriter(byteLength).text(SCALAR_OPEN).text(`,"x":${before}`);
  writer.fill(unit, after.length + 2);
  return writer.text(`${after}}}`).finish(1);
}

/**
 * Names of `stages` blocks that all bring a hash of 32-bit state from `seed` to the same state: in
 * every stage two blocks of some letters are searched that lead to the same next state.
 */
function collidingNames(byteLength, step, seed, letters) {
  const stages = stagesOf(byteLength);
  const pairs = [];
  let state = seed;
  for (let stage = 0; stage < stages; stage++) {
    const seen = new Map();
    for (let attempt = 1; ; attempt++) {
      const value = (attempt * 0x9e3779b1) % 64 ** letters;
      let next = state;
      for (let i = 0, rest = value; i < letters; i++, rest = Math.floor(rest / 64)) {
        next = step(next, LETTERS.charCodeAt(rest % 64), i % 4);
      }
      const other = seen.get(next);
      if (other !== undefined) {
        pairs.push([other, value].map((each) => lettersOf(each, letters)));
        state = next;
        break;
      }
      seen.set(next, value);
    }
  }
  return emptyTensors(
    byteLength,
    stages * letters,
    (writer, i) => {
      for (let stage = 0; stage < stages; stage++) writer.block(pairs[stage][(i >> stage) & 1]);
    },
    2 ** stages,
  );
}

/** Per byte: the state of 32-bit FNV-1a. */
function fnv(state, byte) {
  return Math.imul(state ^ byte, 0x01000193);
}

let murmurWord = 0;
/** Per byte: the state of 32-bit murmur3, which changes with every fourth. */
function murmur(state, byte, i) {
  murmurWord = (i === 0 ? 0 : murmurWord) | (byte << (8 * i));
  if (i < 3) return state;
  let k = Math.imul(murmurWord, 0xcc9e2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  const h = state ^ k;
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

/** Sum of the bits of `value`, modulo 2: the Thue-Morse sequence. */
function thueMorse(value) {
  let bit = 0;
  for (let rest = value; rest > 0; rest >>= 1) bit ^= rest & 1;
  return bit;
}

/** Names whose hash under a guessed key ends in the same bits. */
function guessedKeyNames(byteLength, hasher, count, mask) {
  const name = new Uint8Array(8).fill(QUOTE);
  const hash = hasher(name);
  let candidate = 0;
  return emptyTensors(
    byteLength,
    6,
    (writer) => {
      for (;;) {
        for (let i = 0, rest = candidate; i < 6; i++, rest = Math.floor(rest / 64)) {
          name[i + 1] = LETTERS.charCodeAt(rest % 64);
        }
        candidate++;
        if ((hash() & mask) === 0) break;
      }
      for (let i = 1; i < 7; i++) writer.bytes[writer.at++] = name[i];
    },
    count,
  );
}

/** The attacks, as headers of so many bytes. `hasher` gives the hash of a string in its quotes, under the key 0. */
export const ATTACKS = {
  padding: (byteLength) => new HeaderWriter(byteLength).text('{}').finish(),
  'one name': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{"');
    writer.fill('n', EMPTY.length + 2);
    return writer.text(`"${EMPTY}}`).finish();
  },
  'one name of three-byte characters': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{"');
    writer.fill('名', EMPTY.length + 2);
    return writer.text(`"${EMPTY}}`).finish();
  },
  'one name of escapes': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{"');
    writer.fill('\\u0061', EMPTY.length + 2);
    return writer.text(`"${EMPTY}}`).finish();
  },
  'two names of escapes': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{"');
    writer.fill('\\u0061', byteLength / 2);
    writer.text(`"${EMPTY},"`);
    writer.fill('\\u0061', EMPTY.length + 3);
    return writer.text(`b"${EMPTY}}`).finish();
  },
  'empty tensors': (byteLength) => emptyTensors(byteLength, 4, (writer, i) => writer.letters(i, 4)),
  'empty tensors of one name': (byteLength) => emptyTensors(byteLength, 0, () => {}),
  'overlapping tensors': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{');
    const rest = ':{"dtype":"U8","shape":[1],"data_offsets":[0,1]}';
    writer.repeat(rest.length + 7, 1, (i) => {
      writer
        .text(i > 0 ? ',"' : '"')
        .letters(i, 4)
        .text('"')
        .text(rest);
    });
    return writer.text('}').finish();
  },
  'tensors in shuffled order': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{');
    const count = 2 ** stagesOf(byteLength);
    writer.repeat(
      100,
      1,
      (i) => {
        // An odd factor permutes the numbers below a power of two.
        const place = Math.imul(i, 0x9e3779b1) & (count - 1);
        writer
          .text(i > 0 ? ',"' : '"')
          .letters(i, 4)
          .text('":{"dtype":"U8","shape":[1],');
        writer
          .text('"data_offsets":[')
          .number(place)
          .text(',')
          .number(place + 1)
          .text(']}');
      },
      count,
    );
    return writer.text('}').finish(count);
  },
  'one shape of zeros': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text(
      '{"t":{"dtype":"U8","data_offsets":[0,0],"shape":[0',
    );
    writer.fill(',0', 3);
    return writer.text(']}}').finish();
  },
  'one shape of ones after 2^53': (byteLength) => {
    const start = '{"t":{"dtype":"U8","data_offsets":[0,0],"shape":[9007199254740992';
    const writer = new HeaderWriter(byteLength).text(start);
    writer.fill(',1', 3);
    return writer.text(']}}').finish();
  },
  'empty tensors with dimensions of 2^60': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{');
    const rest = ':{"dtype":"U8","shape":[1152921504606846976,0],"data_offsets":[0,0]}';
    writer.repeat(rest.length + 7, 1, (i) => {
      writer
        .text(i > 0 ? ',"' : '"')
        .letters(i, 4)
        .text('"')
        .text(rest);
    });
    return writer.text('}').finish();
  },
  'integers in an ignored field': (byteLength) => ignoredField(byteLength, '[0', ',0', ']'),
  'empty arrays in an ignored field': (byteLength) => ignoredField(byteLength, '[[]', ',[]', ']'),
  'keys in an ignored object': (byteLength) => ignoredField(byteLength, '{"":0', ',"":0', '}'),
  'digits in an ignored number': (byteLength) => ignoredField(byteLength, '1', '0', ''),
  'digits in an ignored fraction': (byteLength) => ignoredField(byteLength, '0.', '0', '1e9'),
  'a string of escapes in an ignored field': (byteLength) =>
    ignoredField(byteLength, '"', '\\ud83d\\ude00', '"'),
  '4 million ignored fields': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text(SCALAR_OPEN);
    writer.repeat(25, 2, (i) => writer.text(',"').letters(i, 20).text('":0'));
    return writer.text('}}').finish(1);
  },
  'tensors with two ignored fields': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{');
    const rest = `${EMPTY.slice(0, -1)},"a":0,"b":0}`;
    writer.repeat(rest.length + 7, 1, (i) => {
      writer
        .text(i > 0 ? ',"' : '"')
        .letters(i, 4)
        .text('"')
        .text(rest);
    });
    return writer.text('}').finish();
  },
  '4 million metadata keys': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{"__metadata__":{');
    writer.repeat(25, 2, (i) =>
      writer
        .text(i > 0 ? ',"' : '"')
        .letters(i, 19)
        .text('":""'),
    );
    return writer.text('}}').finish();
  },
  '10 million metadata keys': (byteLength) => {
    const writer = new HeaderWriter(byteLength).text('{"__metadata__":{');
    writer.repeat(10, 2, (i) =>
      writer
        .text(i > 0 ? ',"' : '"')
        .letters(i, 4)
        .text('":""'),
    );
    return writer.text('}}').finish();
  },
  'names that collide in 31-polynomials': (byteLength) => {
    const stages = stagesOf(byteLength);
    return emptyTensors(
      byteLength,
      2 * stages,
      (writer, i) => {
        for (let stage = 0; stage < stages; stage++) writer.text((i >> stage) & 1 ? 'Aa' : 'BB');
      },
      2 ** stages,
    );
  },
  'names that collide in FNV-1a': (byteLength) =>
    collidingNames(byteLength, fnv, 0x811c9dc5 | 0, 4),
  'names that collide in murmur3': (byteLength) => collidingNames(byteLength, murmur, 0, 8),
  'names that collide in every polynomial modulo 2^32': (byteLength) =>
    emptyTensors(byteLength, 16 * 256, (writer, i) => {
      for (let block = 0; block < 16; block++) {
        const bit = Math.floor(i / 2 ** block) % 2;
        for (let j = 0; j < 256; j++) writer.bytes[writer.at++] = 0x61 + (thueMorse(j) ^ bit);
      }
    }),
  'names that collide under a guessed key': (byteLength, hasher) =>
    guessedKeyNames(byteLength, hasher, 100_000, 0xff),
};

/** What reading a header of 100 MB ends with. */
export const OUTCOMES = {
  padding: '0 tensors',
  'one name': '1 tensors',
  'one name of three-byte characters': '1 tensors',
  'one name of escapes': '1 tensors',
  'two names of escapes': '2 tensors',
  'empty tensors': '1818181 tensors',
  'empty tensors of one name': 'SAFETENSORS_DUPLICATE_KEY',
  'overlapping tensors': 'SAFETENSORS_INVALID_OFFSET',
  'tensors in shuffled order': '1048576 tensors',
  'one shape of zeros': '1 tensors',
  'one shape of ones after 2^53': 'SAFETENSORS_TENSOR_INVALID_INFO',
  'empty tensors with dimensions of 2^60': 'SAFETENSORS_VALIDATION_OVERFLOW',
  'integers in an ignored field': '1 tensors',
  'empty arrays in an ignored field': '1 tensors',
  'keys in an ignored object': '1 tensors',
  'digits in an ignored number': 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
  'digits in an ignored fraction': '1 tensors',
  'a string of escapes in an ignored field': '1 tensors',
  '4 million ignored fields': '1 tensors',
  'tensors with two ignored fields': '1492537 tensors',
  '4 million metadata keys': '0 tensors',
  '10 million metadata keys': '0 tensors',
  'names that collide in 31-polynomials': '1048576 tensors',
  'names that collide in FNV-1a': '763358 tensors',
  'names that collide in murmur3': '473933 tensors',
  'names that collide in every polynomial modulo 2^32': '24113 tensors',
  'names that collide under a guessed key': '100000 tensors',
};
