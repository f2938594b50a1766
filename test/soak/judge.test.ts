import { describe, expect, it } from 'vitest';
import { growth, judge, leastGrowth, lineOf } from './judge.mjs';

const MB = 2 ** 20;

/** Figures of a run that has nothing wrong, noise included. */
function steady(i: number): Record<string, number> {
  const noise = (i * 7919) % 11;
  return {
    seconds: i * 15,
    descriptors: 41,
    handles: 1,
    fileMappings: 55,
    fileBytes: 90 * MB,
    otherMappings: 240 + noise,
    otherBytes: (600 + noise) * MB,
    nativeBytes: (60 + noise) * MB,
    heapUsed: 14 * MB,
    arrayBuffers: 200_000 + noise,
    busyPrivateBytes: (150 + 2 * noise) * MB,
    emptyMappings: Math.min(4096, i * 40),
    ranP99: 10 + noise,
    ranLongest: 40 + noise,
    asleepShare: 0.01,
    pressure: 0.5,
  };
}

function run(change: (i: number) => Readonly<Record<string, number>>, count = 240): string[] {
  const rests = Array.from({ length: count }, (_, i) => ({ ...steady(i), ...change(i) }));
  return judge(rests).flatMap(({ title, isBroken }) => (isBroken ? [title] : []));
}

describe('a run', () => {
  it('passes when nothing grows but for noise, and what fills in the first minutes', () => {
    expect(run(() => ({}))).toEqual([]);
    expect(run((i) => ({ nativeBytes: Math.min(i, 18) * 5 * MB }))).toEqual([]);
  });

  it('passes with outliers', () => {
    expect(
      run((i) => (i % 20 === 19 ? { nativeBytes: 900 * MB, otherMappings: 5000 } : {})),
    ).toEqual([]);
  });

  it.each([
    ['descriptors', 'growth of descriptors', (i: number) => 41 + Math.floor(i / 50)],
    ['handles', 'growth of handles', (i: number) => 1 + Math.floor(i / 50)],
    ['fileMappings', 'growth of mappings of files', (i: number) => 55 + Math.floor(i / 50)],
    ['fileBytes', 'growth of mapped bytes of files', (i: number) => 90 * MB + i * 65_536],
    ['otherMappings', 'growth of other mappings', (i: number) => 240 + 2 * i],
    ['otherBytes', 'growth of other mapped bytes', (i: number) => (600 + i) * MB],
    [
      'nativeBytes',
      'growth of private memory outside of the heap',
      (i: number) => (60 + i / 3) * MB,
    ],
    ['heapUsed', 'growth of the heap, used', (i: number) => (14 + i / 20) * MB],
    ['arrayBuffers', 'growth of buffers', (i: number) => (1 + i / 20) * MB],
    ['busyPrivateBytes', 'growth of private memory at work', (i: number) => (150 + i) * MB],
    ['emptyMappings', 'empty mappings', (i: number) => 40 * i],
    ['ranP99', 'loop: a turn ran, p99, ms', () => 80],
    ['ranLongest', 'loop: a turn ran, longest, ms', (i: number) => (i === 200 ? 400 : 40)],
    ['asleepShare', 'loop: share of time asleep in turns', () => 0.4],
  ])('fails when %s do not stay', (key, title, figure) => {
    expect(run((i) => ({ [key]: figure(i) }))).toEqual([title]);
  });

  it('fails when it was too short to say anything, or a figure is missing', () => {
    expect(run(() => ({}), 5)).toEqual(['rests']);
    expect(run(() => ({ handles: Number.NaN }))).toEqual(['growth of handles']);
  });
});

it('takes the larger of slope and difference of medians', () => {
  const line = Array.from({ length: 12 }, (_, i) => [i, 2 * i] as const);
  expect(growth(line)).toBe(10);
  const step = Array.from({ length: 12 }, (_, i) => [i, i < 8 ? 0 : 7] as const);
  expect(growth(step)).toBe(7);
});

it('sees what is kept, however the figure goes up and down', () => {
  const points = (leaked: number) =>
    Array.from({ length: 21 }, (_, i) => [i, 29 + ((i * 7) % 3) + (i >= 15 ? leaked : 0)]);
  expect(leastGrowth(points(0))).toBe(0);
  expect(leastGrowth(points(1))).toBe(1);
});

it('shows figures in one unit, and whether they must be at most or at least', () => {
  const ruling = { title: 'buffers', found: 181_000, allowed: 24 * MB, isBroken: false };
  expect(lineOf(ruling)).toBe('ok     buffers: 0.2 MB, at most 24.0 MB');
  const [rests] = judge([{ seconds: 1 }]);
  expect(rests && lineOf(rests)).toBe('BROKEN rests: 1, at least 6');
});
