import { describe, expect, it } from 'vitest';
import {
  isRetryableStatus,
  isTransientCause,
  retryAfterOf,
  retryDelay,
} from '../../src/remote/retries.js';

describe('how long to wait', () => {
  it('doubles, up to ten seconds, and varies by half', () => {
    const delays = (random: number): (number | null)[] =>
      [1, 2, 3, 10].map((tries) => retryDelay(tries, undefined, 300, random));
    expect(delays(1)).toEqual([300, 600, 1200, 10_000]);
    expect(delays(0)).toEqual([150, 300, 600, 5000]);
  });

  it('is at least what the server asks for, up to a minute', () => {
    expect(retryDelay(1, 5000, 300, 0)).toBe(5150);
    expect(retryDelay(1, 60_000, 300, 0)).toBe(60_150);
    expect(retryDelay(1, 60_001, 300, 0)).toBeNull();
  });

  it.each([
    [{ 'Retry-After': '7' }, 7000],
    [{ 'Retry-After': ' 0 ' }, 0],
    [{ 'Retry-After': 'Sun, 22 Nov 2026 10:00:30 GMT' }, 30_000],
    [{ 'Retry-After': 'Sun, 22 Nov 2026 09:00:00 GMT' }, 0],
    [{ 'Retry-After': 'soon' }, undefined],
    [{ RateLimit: '"api";r=0;t=55' }, 55_000],
    [{ RateLimit: '"api";r=10;t=55' }, undefined],
    [{ 'Retry-After': '1', RateLimit: '"api";r=0;t=55' }, 1000],
    [{}, undefined],
  ])('is asked for by %j', (headers, expected) => {
    const now = Date.parse('2026-11-22T10:00:00Z');
    expect(retryAfterOf(new Headers(headers as Record<string, string>), now)).toBe(expected);
  });
});

describe('what is tried again', () => {
  it('is what can be otherwise a moment later', () => {
    expect(
      [200, 206, 400, 401, 403, 404, 408, 416, 429, 500, 503].filter(isRetryableStatus),
    ).toEqual([408, 429, 500, 503]);
    const codes = [
      undefined,
      'ECONNRESET',
      'ECONNREFUSED',
      'EAI_AGAIN',
      'UND_ERR_SOCKET',
      'ENOTFOUND',
      'CERT_HAS_EXPIRED',
      'SELF_SIGNED_CERT_IN_CHAIN',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'UND_ERR_INVALID_ARG',
    ];
    const isPassing = (code: string | undefined): boolean =>
      isTransientCause({ message: '', ...(code === undefined ? {} : { code }) });
    expect(codes.filter(isPassing)).toEqual(codes.slice(0, 5));
  });
});
