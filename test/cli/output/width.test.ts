import { describe, expect, it } from 'vitest';
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

describe('cutting', () => {
  it('leaves characters whole, and fits', () => {
    expect(cutEnd('✅✅✅', 5)).toBe('✅✅…');
    expect(cutEnd('✅✅✅', 4)).toBe('✅…');
    expect(cutEnd('a👨\u200d👩\u200d👧b', 3)).toBe('a…');
    expect(cutMiddle('模型的名字', 7)).toBe('模…字');
  });
});
