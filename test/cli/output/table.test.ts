import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { infoLines, tableLines } from '../../../src/cli/output/table.js';
import { cutEnd, cutMiddle, widthOf } from '../../../src/cli/output/width.js';

const COLUMNS = [
  { title: 'name', gives: true },
  { title: 'size', align: 'right' },
] as const;
const plain = (text: string): string => text;

describe('tableLines', () => {
  it('puts columns below their titles', () => {
    expect(
      tableLines(
        COLUMNS,
        [
          ['a', '1'],
          ['日本', '20'],
        ],
        null,
        plain,
      ),
    ).toEqual(['name  size', 'a        1', '日本    20']);
  });

  it('cuts the column that gives way, and no line is wider than the terminal', () => {
    const rows = [['model.layers.0.self_attn.q_proj.weight', '8 MB']];
    expect(tableLines(COLUMNS, rows, 30, plain)[1]).toBe('model.layers…proj.weight  8 MB');
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.constant('12 B'))),
        fc.integer({ min: 20, max: 60 }),
        (some, width) => {
          const lines = tableLines(COLUMNS, some, width, plain);
          for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(width);
        },
      ),
    );
  });
});

describe('infoLines', () => {
  it('puts values into one column', () => {
    expect(
      infoLines(
        [
          ['a', '1'],
          ['long', '2'],
        ],
        plain,
      ),
    ).toEqual(['a     1', 'long  2']);
  });

  it('takes more of them than a call takes arguments', () => {
    const facts = Array.from({ length: 300_000 }, (_, i) => [String(i), 'x'] as const);
    expect(infoLines(facts, plain)).toHaveLength(300_000);
  });
});

describe('cutting', () => {
  it('counts the columns of wide and combining characters', () => {
    expect(['a', '日', 'e\u0301', '😀'].map(widthOf)).toEqual([1, 2, 1, 2]);
    expect(cutMiddle('日本語の名前', 7)).toBe('日…前');
    expect(cutEnd('日本語', 5)).toBe('日本…');
    expect(cutEnd('short', 5)).toBe('short');
  });
});
