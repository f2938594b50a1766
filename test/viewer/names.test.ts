/** Names in the viewer's lists: what they share, what a search matched, and where they wrap. */
import { describe, expect, it } from 'vitest';
import { commonEnds, lineEnds, matchesIn, nameLines } from '../../viewer/names.js';

const NAMES = [10, 11, 12].map((layer) => `model.layers.${layer}.self_attn.q_proj.weight`);

function lines(name: string, columns: number, find = ''): string[] {
  const ends = lineEnds(name, columns, matchesIn(name, find));
  return ends.map((end, at) => name.slice(at === 0 ? 0 : ends[at - 1], end));
}

describe('what names share', () => {
  it('ends at separators', () => {
    const { prefix, suffix } = commonEnds(NAMES);
    expect(NAMES[0]?.slice(0, prefix)).toBe('model.layers.');
    expect(NAMES[0]?.slice(-suffix)).toBe('.self_attn.q_proj.weight');
  });

  it('is nothing of one name, of none, and of names without a common part', () => {
    for (const names of [['a.b'], [], ['a.b', 'c.d']]) {
      expect(commonEnds(names)).toEqual({ prefix: 0, suffix: 0 });
    }
  });
});

describe('matches', () => {
  it('are found in any case, in order, and joined where they overlap', () => {
    expect(matchesIn('a.Q_PROJ.q', 'q')).toEqual([
      [2, 3],
      [9, 10],
    ]);
    expect(matchesIn('down_proj', 'proj own_p')).toEqual([[1, 9]]);
    expect(matchesIn('down', ' ')).toEqual([]);
  });
});

describe('lines', () => {
  it('end after separators, and never inside a match', () => {
    const name = 'model.layers.0.self_attn.q_proj.weight';
    expect(lines(name, 30)).toEqual(['model.layers.0.self_attn.q_', 'proj.weight']);
    expect(lines(name, 30, 'q_proj')).toEqual(['model.layers.0.self_attn.', 'q_proj.weight']);
    expect(lines('abcdefgh.ij', 4)).toEqual(['abcd', 'efgh', '.ij']);
    expect(lines('', 4)).toEqual(['']);
  });

  it('have the whole name in parts that are muted, strong or marked', () => {
    const [first = ''] = NAMES;
    const shown = nameLines(first, 30, matchesIn(first, 'q_proj'), commonEnds(NAMES));
    expect(shown).toEqual([
      [
        { text: 'model.layers.', kind: 'common' },
        { text: '10', kind: 'own' },
        { text: '.self_attn.', kind: 'common' },
      ],
      [
        { text: 'q_proj', kind: 'match' },
        { text: '.weight', kind: 'common' },
      ],
    ]);
  });
});
