/** The head of an answer: read by a strict grammar, or refused. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  headEnd,
  mayBecomeHead,
  parseResponseHead,
} from '../../../src/remote/node/response-head.js';

const START = 'HTTP/1.1 206 Partial Content\r\n';

function parse(fields: string, start = START): ReturnType<typeof parseResponseHead> {
  return parseResponseHead(`${start}${fields}\r\n`);
}

const names = fc
  .stringMatching(/^[a-z][a-z0-9-]{0,15}$/)
  .filter((name) => !/^(?:connection|content-length|keep-alive|transfer-encoding)$/.test(name));
const values = fc.stringMatching(/^[!-~](?:[ -~]{0,20}[!-~])?$/);

describe('a head', () => {
  it('gives status, headers and the length of the body', () => {
    const head = parse(
      'Content-Length: 12\r\nETag: "a"\r\nContent-Range:bytes 0-11/20 \t\r\nX-Empty:\r\n',
    );
    expect(head?.status).toBe(206);
    expect(head?.bodyByteLength).toBe(12);
    expect(head?.headers.get('content-range')).toBe('bytes 0-11/20');
    expect(head?.headers.get('x-empty')).toBe('');
  });

  it('has the fields that were written, with any spaces around their values', () => {
    const fields = fc.uniqueArray(fc.tuple(names, values, fc.stringMatching(/^[ \t]{0,3}$/)), {
      selector: ([name]) => name,
    });
    fc.assert(
      fc.property(fields, (written) => {
        const lines = written.map(([name, value, space]) => `${name}:${space}${value}${space}\r\n`);
        const found = parse(lines.join(''))?.headers ?? [];
        const sorted = written.map(([name, value]) => [name, value] as const);
        expect(new Map(found)).toEqual(new Map(sorted));
      }),
    );
  });

  it('with any byte changed is refused, or has only printable characters', () => {
    const text = `${START}Content-Length: 12\r\nContent-Range: bytes 0-11/20\r\n\r\n`;
    fc.assert(
      fc.property(fc.nat(text.length - 1), fc.nat(255), (at, byte) => {
        const changed = text.slice(0, at) + String.fromCharCode(byte) + text.slice(at + 1);
        const head = parseResponseHead(changed);
        for (const [name, value] of head?.headers ?? []) {
          expect(name).toMatch(/^[!-~]+$/);
          expect(value).toMatch(/^[\t -~]*$/);
        }
        const length = head?.bodyByteLength ?? null;
        // One of the digits may have become a space, and the space before them a digit.
        const [, digits] = /^[\t ]*(\d+)[\t ]*$/.exec(changed.slice(45, 48)) ?? [];
        if (length !== null) expect(length).toBe(Number(digits));
      }),
    );
  });

  it('of any text is refused or read, without an error', () => {
    const unit = fc.constantFrom('\r\n', '\n', ' ', ':', 'a', '0', '\0', '\xe9', 'HTTP/1.1 206 x');
    fc.assert(
      fc.property(fc.array(unit), (units) => {
        parse(units.join(''));
        parseResponseHead(`${units.join('')}\r\n\r\n`);
      }),
    );
  });

  it('that is accepted may be cut anywhere, and anything else may end it', () => {
    const fields = fc.array(fc.tuple(names, values), { maxLength: 4 });
    const cuts = fc.array(fc.nat(200));
    fc.assert(
      fc.property(fields, cuts, fc.uint8Array({ maxLength: 3 }), (written, ends, noise) => {
        const lines = written.map(([name, value]) => `${name}: ${value}\r\n`).join('');
        const bytes = Buffer.from(`${START}${lines}`, 'latin1');
        for (const cut of ends) {
          const from = cut % (bytes.length + 1);
          expect(mayBecomeHead(bytes, from, bytes.length)).toBe(true);
          const text = Buffer.concat([bytes.subarray(0, from), noise, Buffer.from('\r\n\r\n')]);
          const isHead = parseResponseHead(text.toString('latin1')) !== null;
          // A second length, say, is found at the end of the head only.
          if (isHead) expect(mayBecomeHead(text, 0, text.length - 2)).toBe(true);
        }
      }),
    );
  });

  it.each([
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['another version', 'HTTP/1.0 2'],
    ['one byte', '\x15'],
    ['a malformed status line', 'HTTP/1.1 OK\r\n'],
    ['a malformed field', `${START}this is no field\r\n`],
    ['a line feed alone', `${START}A: b\n`],
    ['a carriage return alone', `${START}A: b\rc`],
    ['a control character', `${START}A: \0`],
  ])('is given up before its end: %s', (_, text) => {
    const bytes = Buffer.from(text, 'latin1');
    expect(mayBecomeHead(bytes, 0, bytes.length)).toBe(false);
  });

  it.each([
    ['another version', 'HTTP/1.0 206 Partial Content\r\n'],
    ['a status that is not final', 'HTTP/1.1 100 Continue\r\n'],
    ['a status of four digits', 'HTTP/1.1 2060 Partial Content\r\n'],
    ['a space before the version', ' HTTP/1.1 206 x\r\n'],
    ['no version', 'ICY 206 OK\r\n'],
  ])('with %s is refused', (_, start) => {
    expect(parse('Content-Length: 1\r\n', start)).toBeNull();
  });

  it.each([
    ['a line that goes on', 'A: b\r\n c\r\n'],
    ['a line without a name', ': b\r\n'],
    ['a line without a colon', 'A\r\n'],
    ['a space before the colon', 'Content-Length : 1\r\n'],
    ['a line feed alone', 'A: b\nC: d\r\n'],
    ['a character beyond ASCII', 'A: \xe9\r\n'],
    ['a control character', 'A: \x01\r\n'],
    ['two lengths', 'Content-Length: 1\r\ncontent-length: 1\r\n'],
    ['two ranges', 'Content-Range: bytes 0-0/1\r\nContent-Range: bytes 0-0/1\r\n'],
    ['two versions', 'ETag: "a"\r\nETag: "b"\r\n'],
    ['a length and chunks', 'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n'],
    ['a list of lengths', 'Content-Length: 1, 1\r\n'],
    ['a signed length', 'Content-Length: +1\r\n'],
    ['a hexadecimal length', 'Content-Length: 0x1\r\n'],
    ['too long a length', 'Content-Length: 1234567890123456\r\n'],
    ['an empty length', 'Content-Length:\r\n'],
  ])('with %s is refused', (_, fields) => {
    expect(parse(fields)).toBeNull();
  });

  it('may repeat fields that form a list', () => {
    expect(parse('Vary: a\r\nVary: b\r\n')?.headers.get('vary')).toBe('a, b');
  });

  it.each([
    ['', Number.POSITIVE_INFINITY],
    ['Connection: Keep-Alive\r\nKeep-Alive: timeout=5, max=10\r\n', 5000],
    ['Keep-Alive: max=10, timeout=3\r\n', 3000],
    ['Connection: close\r\n', 0],
    ['Connection: upgrade, keep-alive\r\n', 0],
  ])('%j says for how long the connection stays', (fields, milliseconds) => {
    expect(parse(fields)?.keepAliveMs).toBe(milliseconds);
  });
});

describe('the end of a head', () => {
  it('is found wherever reads are cut', () => {
    const bytes = new TextEncoder().encode(`${START}A: b\r\n\r\nbody\r\n\r\n`);
    const expected = bytes.length - 'body\r\n\r\n'.length;
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length)), (cuts) => {
        const ends = [...cuts, bytes.length].toSorted((a, b) => a - b);
        let from = 0;
        for (const end of ends) {
          const found = headEnd(bytes, from, end);
          expect(found).toBe(end < expected ? -1 : expected);
          if (found >= 0) return;
          from = end;
        }
      }),
    );
  });

  it('is not found beyond the bytes that have come', () => {
    expect(headEnd(new TextEncoder().encode('a\r\n\r\n'), 0, 4)).toBe(-1);
  });
});
