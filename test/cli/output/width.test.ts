import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { tableLines } from '../../../src/cli/output/table.js';
import { cutEnd, cutMiddle, widthOf } from '../../../src/cli/output/width.js';

describe('widthOf', () => {
  // As terminals draw them: xterm, and those of GNOME, VS Code and Windows.
  it.each([
    ['plain', 5],
    ['naïve', 5],
    ['nai\u0308ve', 5],
    ['模型', 4],
    ['ｗｉｄｅ', 8],
    ['ﾊﾝｶｸ', 4],
    ['한국', 4],
    ['\u1112\u1161\u11ab', 2],
    ['✅', 2],
    ['⭐', 2],
    ['🟢', 2],
    ['⚡', 2],
    ['❤', 1],
    ['❤\ufe0f', 2],
    ['👨\u200d👩\u200d👧', 2],
    ['👍🏽', 2],
    ['🇩🇪', 2],
    ['→', 1],
    ['\u200b', 0],
    ['', 0],
  ])('of %s is %i', (text, width) => {
    expect(widthOf(text)).toBe(width);
  });
});

/** The sum of widths of characters that the segmenter finds. */
function segmentedWidth(text: string): number {
  const segmenter = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), ({ segment }) => widthOf(segment)).reduce(
    (sum, width) => sum + width,
    0,
  );
}

/** Blocks of characters, with those in which characters combine. */
const BLOCKS: readonly (readonly [first: number, last: number])[] = [
  ...[
    [0x20, 0x7e],
    [0xa0, 0x52f],
    [0x530, 0x5ff],
    [0x600, 0x6ff],
    [0x900, 0x97f],
  ],
  ...[
    [0xe00, 0xe7f],
    [0x1100, 0x11ff],
    [0x2000, 0x206f],
    [0x2190, 0x27bf],
    [0x3000, 0x33ff],
  ],
  ...[
    [0x4e00, 0x4eff],
    [0xa960, 0xa97f],
    [0xac00, 0xad00],
    [0xd7b0, 0xd7ff],
    [0xfe00, 0xfe2f],
  ],
  ...[
    [0xff00, 0xffef],
    [0x1f1e6, 0x1f1ff],
    [0x1f300, 0x1f64f],
    [0xe0100, 0xe01ef],
  ],
] as [number, number][];

describe('text without characters that combine', () => {
  const character = fc
    .constantFrom(...BLOCKS)
    .chain(([first, last]) => fc.integer({ min: first, max: last }))
    .map((code) => String.fromCodePoint(code));

  it('has the width that the segmenter finds', () => {
    const text = fc.oneof(
      fc.array(character, { maxLength: 8 }).map((characters) => characters.join('')),
      // Mostly of one block, with few others.
      fc
        .constantFrom(...BLOCKS)
        .chain(([min, max]) =>
          fc
            .array(fc.integer({ min, max }), { maxLength: 8 })
            .map((codes) => String.fromCodePoint(...codes)),
        ),
    );
    fc.assert(
      fc.property(text, (some) => {
        expect(widthOf(some)).toBe(segmentedWidth(some));
      }),
      { seed: Number(process.env['SAFETENSORS_SEED'] ?? 20261128), numRuns: 3000 },
    );
  });

  it('needs no segmenter, and other text one pass per cell', () => {
    const segment = vi.spyOn(Intl.Segmenter.prototype, 'segment');
    onTestFinished(() => segment.mockRestore());
    const rows = (name: string): string[][] =>
      Array.from({ length: 100 }, (_, i) => [`${name}.${i}`, '[1]', '1 B']);
    const columns = [{ title: 'tensor', gives: true }, { title: 'shape' }, { title: 'size' }];
    for (const name of ['層', 'é', 'e\u0301', 'слой', '층', 'ｗ']) {
      for (const width of [null, 200]) tableLines(columns, rows(name), width, (text) => text);
    }
    expect(segment).not.toHaveBeenCalled();
    tableLines(columns, rows('👍🏽'), null, (text) => text);
    expect(segment).toHaveBeenCalledTimes(100);
  });
});

describe('cutting', () => {
  it('leaves characters whole, and fits', () => {
    expect(cutEnd('✅✅✅', 5)).toBe('✅✅…');
    expect(cutEnd('✅✅✅', 4)).toBe('✅…');
    expect(cutEnd('a👨\u200d👩\u200d👧b', 3)).toBe('a…');
    expect(cutMiddle('模型的名字', 7)).toBe('模…字');
  });
});
