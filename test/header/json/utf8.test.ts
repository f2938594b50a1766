import { describe, expect, test } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { checkUtf8, describeByte, sequenceEnd, utf8Text } from '../../../src/header/json/utf8.js';
import { runSync } from '../../../src/work/work.js';

function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** Where checkUtf8 says that the first wrong byte is; -1 when it says nothing. */
function wrongAt(bytes: Uint8Array): number {
  try {
    checkUtf8(bytes, {});
    return -1;
  } catch (error) {
    expect(error).toBeInstanceOf(FormatError);
    return Number(/at header byte (\d+)$/.exec((error as Error).message)?.[1]);
  }
}

/** Bytes at the ends of every range that the standard names, and next to these. */
const EDGES = [0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff];

describe('sequenceEnd', () => {
  test('accepts what TextDecoder does, for every first byte and all ends of ranges behind it', () => {
    const others: string[] = [];
    for (let lead = 0x80; lead <= 0xff; lead++) {
      for (const second of EDGES) {
        for (const [third, fourth] of [
          ...[
            [0x80, 0xbf],
            [0xbf, 0x80],
            [0x7f, 0x80],
            [0x80, 0x7f],
          ],
          ...[
            [0xc0, 0x80],
            [0x80, 0xc0],
            [0xff, 0xff],
            [0x00, 0x00],
          ],
        ] as [number, number][]) {
          const all = Uint8Array.of(lead, second, third, fourth);
          const lengths = [2, 3, 4].filter((length) => isUtf8(all.subarray(0, length)));
          // A first byte of one to itself is not there: the shortest that is valid is the sequence.
          if (sequenceEnd(all, 0) !== (lengths[0] ?? -1)) others.push(all.join());
        }
      }
    }
    expect(others).toEqual([]);
  });

  test('begins where it is told to, and needs all bytes', () => {
    const bytes = new TextEncoder().encode('aé€😀');
    expect([1, 3, 6].map((at) => sequenceEnd(bytes, at))).toEqual([3, 6, 10]);
    for (const end of [7, 8, 9]) expect(sequenceEnd(bytes.subarray(0, end), 6)).toBe(-1);
  });
});

describe('checkUtf8', () => {
  test.each(['', 'a', 'é', '€', '😀', 'abé', 'abcd😀e'])(
    'finds a wrong byte behind %j',
    (start) => {
      for (const distance of [0, 1, 2, 3, 4, 5, 8]) {
        const before = new TextEncoder().encode(`${start}${'z'.repeat(distance)}`);
        for (const after of ['', 'a', 'abcd', 'éabcdef']) {
          const rest = new TextEncoder().encode(after);
          expect(wrongAt(Uint8Array.from([...before, ...rest]))).toBe(-1);
          for (const wrong of [0xff, 0x80]) {
            const bytes = Uint8Array.from([...before, wrong, ...rest]);
            expect(wrongAt(bytes)).toBe(before.length);
          }
        }
      }
    },
  );

  test('says what it is about', () => {
    const kind = {
      noun: 'index',
      syntaxCode: 'SAFETENSORS_INVALID_INDEX',
      utf8Code: 'SAFETENSORS_INVALID_HEADER_UTF8',
    } as const;
    const check = (): void =>
      checkUtf8(Uint8Array.of(0x61, 0xff), { path: 'a' }, 'no: ', kind as never);
    expect(check).toThrow('no: expected UTF-8, found byte 0xff at index byte 1');
    expect(check).toThrow(expect.objectContaining({ code: kind.utf8Code, path: 'a' }));
  });
});

test('a long text is decoded in pieces, wherever they end', () => {
  for (const text of ['', '\ufeffa', 'a😀'.repeat(500_000), '😀é€'.repeat(300_000)]) {
    const work = utf8Text(new TextEncoder().encode(text));
    expect(runSync(work) === text).toBe(true);
  }
  const turns = [...utf8Text(new Uint8Array(2 ** 22).fill(0x20))];
  expect(turns.length).toBe(4);
});

test.each([
  [0x00, 'byte 0x00'],
  [0x0a, 'byte 0x0a'],
  [0x20, 'byte 0x20'],
  [0x21, '"!"'],
  [0x7e, '"~"'],
  [0x7f, 'byte 0x7f'],
  [0xff, 'byte 0xff'],
])('byte %i is called %s', (byte, expected) => {
  expect(describeByte(Uint8Array.of(0x41, byte), 1)).toBe(expected);
});

test('behind the last byte is the end of the text', () => {
  expect(describeByte(Uint8Array.of(0x41), 1)).toBe('the end of the header');
  expect(describeByte(Uint8Array.of(0x41), 1, 'index')).toBe('the end of the index');
});
