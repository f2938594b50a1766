import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type TreeNode, treeOf, unfold } from '../../src/inspect/tree.js';

function entry(name: string, byteLength = 1, shape: readonly number[] = [byteLength]) {
  return { name, dtype: 'U8', shape, byteLength };
}

/** A tree as nested lists of labels. */
function labels(nodes: readonly TreeNode[]): unknown[] {
  return nodes.flatMap(({ label, children }) =>
    children.length === 0 ? [label] : [label, labels(children)],
  );
}

/** The names of the tensors of nodes, with all that is folded unfolded. */
function leafNames(nodes: readonly TreeNode[]): string[] {
  return nodes.flatMap((node) => {
    const members = unfold(node);
    if (members.length > 0) return leafNames(members);
    expect(node.times).toBe(1);
    return [...(node.leaf === null ? [] : [node.leaf.name]), ...leafNames(node.children)];
  });
}

describe('unfold', () => {
  it('gives what a folded node stands for, fold by fold', () => {
    const entries = [0, 1, 2].flatMap((i) => [0, 1].map((j) => entry(`l.${i}.e.${j}.w`, 5)));
    const [folded] = treeOf(entries) as [TreeNode];
    const layers = unfold(folded);
    expect(labels(layers)).toEqual(['l.0.e.0-1.w', 'l.1.e.0-1.w', 'l.2.e.0-1.w']);
    expect(layers.map(({ times, byteLength }) => [times, byteLength])).toEqual(
      Array(3).fill([2, 10]),
    );
    expect(labels(unfold(layers[1] as TreeNode))).toEqual(['l.1.e.0.w', 'l.1.e.1.w']);
    expect(unfold(unfold(layers[0] as TreeNode)[0] as TreeNode)).toEqual([]);
  });

  it('leads to every tensor once, whatever the names', () => {
    const part = fc.constantFrom('a', 'b', '0', '1', '2', '');
    const name = fc.array(part, { maxLength: 6 }).map((parts) => parts.join('.'));
    fc.assert(
      fc.property(fc.uniqueArray(name), (names) => {
        const found = leafNames(treeOf(names.map((one) => entry(one, 3))));
        expect(found.sort()).toEqual([...names].sort());
      }),
    );
  });
});

describe('treeOf', () => {
  it('needs entries, not a path or a checkpoint', () => {
    for (const other of ['model.safetensors', new Map(), undefined]) {
      expect(() => treeOf(other as never)).toThrow(
        'entries must be an array, such as await checkpoint.tensors(), but is ',
      );
    }
  });

  it('names an entry without a name', () => {
    expect(() => treeOf([entry('a'), {} as never])).toThrow(
      'entries[1] must be an object with a name, dtype, shape and byteLength',
    );
  });

  it('folds numbered branches that hold the same, and joins parts that nothing shares', () => {
    const names = ['m.embed', 'm.h.0.w', 'm.h.0.b', 'm.h.1.w', 'm.h.1.b', 'm.h.2.w', 'head.w'];
    expect(labels(treeOf(names.map((name) => entry(name))))).toEqual([
      'm',
      ['embed', 'h', ['0-1', ['w', 'b'], '2.w']],
      'head.w',
    ]);
  });

  it('folds layers whose tensors are in another order, and shows that of the first', () => {
    const names = ['0.b', '0.a.x', '0.a.y', '1.a.y', '1.a.x', '1.b', '2.b', '2.a.y', '2.a.x'];
    const nodes = treeOf(names.map((name) => entry(name)));
    expect(labels(nodes)).toEqual(['0-2', ['b', 'a', ['x', 'y']]]);
    expect(nodes.map((one) => [one.times, one.tensors, one.byteLength])).toEqual([[3, 9, 9]]);
    expect(leafNames(nodes).sort()).toEqual([...names].sort());
  });

  it('does not fold layers with the same tensors whose shapes are exchanged', () => {
    const entries = [entry('0.a', 1), entry('0.b', 2), entry('1.b', 1), entry('1.a', 2)];
    expect(labels(treeOf(entries))).toEqual(['0', ['a', 'b'], '1', ['b', 'a']]);
  });

  it('does not fold what differs in shape, nor numbers with a gap', () => {
    const entries = [entry('a.0.w', 1), entry('a.1.w', 2), entry('a.3.w', 2), entry('a.4.w', 2)];
    expect(labels(treeOf(entries))).toEqual(['a', ['0.w', '1.w', '3-4.w']]);
  });

  it('counts what is folded', () => {
    const entries = [0, 1, 2].flatMap((i) => [0, 1].map((j) => entry(`l.${i}.e.${j}.w`, 5)));
    expect(treeOf(entries)).toEqual([
      {
        label: 'l.0-2.e.0-1.w',
        times: 6,
        tensors: 6,
        byteLength: 30,
        leaf: { name: 'l.0.e.0.w', dtype: 'U8', shape: [5], byteLength: 5 },
        children: [],
      },
    ]);
  });

  it('keeps a tensor whose name begins that of others', () => {
    expect(labels(treeOf([entry('a'), entry('a.'), entry('a.b')]))).toEqual(['a', 'a', ['b']]);
  });

  it('has all bytes, whatever the names, and is not too deep', () => {
    const part = fc.constantFrom('a', 'b', '0', '1', '2', '', '__proto__');
    const name = fc.array(part, { maxLength: 5 }).map((parts) => parts.join('.'));
    fc.assert(
      fc.property(fc.uniqueArray(name), (names) => {
        const sum = treeOf(names.map((one) => entry(one, 3))).reduce(
          (total, { byteLength }) => total + byteLength,
          0,
        );
        expect(sum).toBe(3 * names.length);
      }),
    );
    expect(labels(treeOf([entry('.'.repeat(2 ** 20)), entry('x')])).length).toBe(2);
  });
});
