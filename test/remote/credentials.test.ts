import { describe, expect, it } from 'vitest';
import { Credentials, requireToken } from '../../src/remote/credentials.js';

const HUB = 'https://huggingface.co';
const AMBIENT = { origin: HUB, token: 'hf_ambient' };

function headersOf(credentials: Credentials, url: string): Record<string, string> {
  return Object.fromEntries(credentials.headersFor(new URL(url)));
}

describe('a token that is passed, and headers', () => {
  const credentials = new Credentials(new URL('https://source.example/m.safetensors'), {
    token: 'passed',
    headers: { 'X-Key': 'key' },
  });

  it('go to the origin of the source alone', () => {
    const all = { authorization: 'Bearer passed', 'x-key': 'key' };
    expect(headersOf(credentials, 'https://source.example/other')).toEqual(all);
    for (const url of [
      'https://source.example:8443/',
      'http://source.example/',
      'https://www.source.example/',
      'https://source.example.evil/',
      HUB,
    ]) {
      expect(headersOf(credentials, url), url).toEqual({});
    }
  });

  it('go over plain http: to this machine alone', () => {
    const sent = (url: string): unknown =>
      headersOf(new Credentials(new URL(url), { token: 'passed' }), url);
    for (const host of ['127.0.0.1:8080', '127.1', 'localhost:1', '[::1]:80']) {
      expect(sent(`http://${host}/`), host).toEqual({ authorization: 'Bearer passed' });
    }
    for (const host of [
      '10.0.0.1',
      'host',
      'localhost.evil',
      'a.localhost',
      '127.0.0.1.evil',
      '[::2]',
      '128.0.0.1',
    ]) {
      expect(sent(`http://${host}/`), host).toEqual({});
    }
  });

  it('can have an Authorization of their own, which a token replaces', () => {
    const headers = [['Authorization', 'Basic abc']] satisfies [string, string][];
    const source = new URL(HUB);
    expect(headersOf(new Credentials(source, { headers }, AMBIENT), HUB)).toEqual({
      authorization: 'Basic abc',
    });
    expect(headersOf(new Credentials(source, { headers, token: 'passed' }), HUB)).toEqual({
      authorization: 'Bearer passed',
    });
  });

  it('are refused without being shown when they cannot be sent', () => {
    for (const given of [
      { token: 'sec ret' },
      { token: 'secret\n' },
      { token: '' },
      { token: 'sécret' },
      { headers: { 'X-Key': 'secret\nX-Other: 1' } },
      { headers: { 'secret name': '1' } },
    ]) {
      const make = (): unknown => new Credentials(new URL(HUB), given);
      expect(make).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG_VALUE' }));
      expect(make).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining('sec') }),
      );
    }
    expect(() => requireToken('token', 1)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
    );
  });
});

describe('the token of the machine', () => {
  it('is refused without being shown when it cannot be sent', () => {
    for (const token of ['hf_sec\u0001ret', 'hf_sec…ret', 'hf_sec ret']) {
      const make = (): unknown => new Credentials(new URL(HUB), {}, { ...AMBIENT, token });
      expect(make).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG_VALUE' }));
      expect(make).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining('sec') }),
      );
    }
  });

  it('goes to the origin of the Hub alone', () => {
    const credentials = new Credentials(new URL('https://source.example/'), {}, AMBIENT);
    expect(headersOf(credentials, 'https://source.example/')).toEqual({});
    expect(headersOf(credentials, `${HUB}/x`)).toEqual({ authorization: 'Bearer hf_ambient' });
    expect(headersOf(credentials, 'https://cdn.huggingface.co/')).toEqual({});
  });
});

describe('messages', () => {
  it('lose secrets, and queries and user names of URLs', () => {
    const given = { token: 'hf_passed', headers: { 'X-Key': 'a key', 'X-Short': '1' } };
    const credentials = new Credentials(new URL(HUB), given, AMBIENT);
    expect(credentials.redact('1: Bearer hf_passed, hf_passed, hf_ambient, a key')).toBe(
      '1: …, …, …, …',
    );
    expect(credentials.redact('of https://me:pw@host/a?sig=1#x and http://h/b?c.')).toBe(
      'of https://host/a and http://h/b',
    );
  });

  it('lose those of every URL', () => {
    const credentials = new Credentials(new URL(HUB), { token: 'hf_passed' });
    expect(credentials.redact('\'http://a?b\' "https://c#d" x=https://e/f?g=https://h?i')).toBe(
      '\'http://a\' "https://c" x=https://e/f',
    );
  });
});
