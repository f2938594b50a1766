import { expect, it } from 'vitest';
import { progressOn } from '../../../src/cli/output/progress.js';

function shown(columns: number | null): string {
  let text = '';
  let now = 0;
  const output = {
    write: (more: string) => {
      text += more;
    },
    ...{ isTerminal: columns !== null, columns, hasColors: false },
  };
  const { onProgress, end } = progressOn(output, 'reading', () => now);
  for (const [at, bytes] of [
    [500, 1e6],
    [2000, 5e6],
    [2050, 6e6],
    [10_000, 1e9],
  ] as const) {
    now = at;
    onProgress({ bytes, totalBytes: 2e9 });
  }
  end();
  end();
  return text;
}

it('progress is one line that is written over, after a second', () => {
  expect(shown(100).split('\r\x1b[K')).toEqual([
    '',
    `reading  ${'▏'.padEnd(20)}  5.00 MB of 2.00 GB, 2.50 MB/s, 13 min 18 s left`,
    `reading  ${'█'.repeat(10).padEnd(20)}  1.00 GB of 2.00 GB, 100 MB/s, 10 s left`,
    '',
  ]);
  for (const line of shown(30).split('\r\x1b[K')) expect(line.length).toBeLessThan(30);
});

it('progress is silent in a pipe', () => {
  expect(shown(null)).toBe('');
});
