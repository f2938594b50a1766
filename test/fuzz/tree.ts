/** Inputs as JSON: changed node by node, made smaller by taking nodes out. For inputs that are calls, not files. */
import type { Random } from '../support/random.js';
import type { Form } from './target.js';

/** A value of JSON. */
export type Tree = null | boolean | number | string | Tree[] | { [key: string]: Tree };

/** Where a node stands: the keys on the way to it. */
type Path = readonly (string | number)[];

const LEAVES: readonly Tree[] = [
  null, true, false, 0, 1, -1, 2, 7, 255, 256, -2, 0.5, 1e21, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 31),
  '', '0', 'a', ':', '::-1', 'F32', '__proto__', 'constructor', '\0', '\ud800', '😀', [], {},
]; // biome-ignore format: a table

/** An input as a tree. */
export function treeOf(input: Buffer): Tree {
  return JSON.parse(input.toString()) as Tree;
}

/** A tree as an input. */
export function inputOf(tree: Tree): Buffer {
  return Buffer.from(JSON.stringify(tree));
}

function* pathsIn(tree: Tree, path: Path = []): Iterable<Path> {
  yield path;
  if (tree === null || typeof tree !== 'object') return;
  for (const [key, child] of Object.entries(tree)) {
    yield* pathsIn(child, [...path, Array.isArray(tree) ? Number(key) : key]);
  }
}

function nodeAt(tree: Tree, path: Path): Tree {
  return path.reduce<Tree>(
    (node, key) => (node as Record<string | number, Tree>)[key] as Tree,
    tree,
  );
}

/** The tree with the result of `change` at the path; the rest is shared. */
function withNode(tree: Tree, path: Path, change: (node: Tree) => Tree[]): Tree[] {
  const [key, ...rest] = path;
  if (key === undefined) return change(tree);
  if (Array.isArray(tree)) {
    const at = key as number;
    return [tree.toSpliced(at, 1, ...withNode(tree[at] as Tree, rest, change))];
  }
  const entries = Object.entries(tree as object) as [string, Tree][];
  return [
    Object.fromEntries(
      entries.flatMap(([name, child]) =>
        name === key ? withNode(child, rest, change).map((made) => [name, made]) : [[name, child]],
      ),
    ),
  ];
}

function changedLeaf(node: Tree, random: Random, words: readonly string[]): Tree {
  if (typeof node === 'number' && random.chance(0.7)) {
    return random.do(
      () => node + random.from(-3, 3),
      () => -node,
      () => random.number(Math.abs(node) >>> 0),
      () => node * random.pick([2, 10, 0.5]),
    );
  }
  if (typeof node === 'string' && random.chance(0.5)) {
    const at = random.below(node.length + 1);
    const piece = random.pick(['', ...words, ...'aZ09:,-=./ \0é']);
    return node.slice(0, at) + piece + node.slice(at + random.below(4));
  }
  return random.chance(0.5) && words.length > 0 ? random.pick(words) : random.pick(LEAVES);
}

function mutate(input: Buffer, other: Buffer, random: Random, words: readonly string[]): Buffer {
  let tree = treeOf(input);
  const donor = treeOf(other);
  for (let count = random.pick([1, 1, 2, 3, 5]); count > 0; count--) {
    const path = random.pick([...pathsIn(tree)]);
    const leaf = (node: Tree): Tree[] => [changedLeaf(node, random, words)];
    const change = random.pick([
      leaf,
      leaf,
      leaf,
      (node: Tree): Tree[] => [node, node],
      (): Tree[] => [],
      (): Tree[] => [nodeAt(donor, random.pick([...pathsIn(donor)]))],
      (): Tree[] => [nodeAt(tree, random.pick([...pathsIn(tree)]))],
      (node: Tree): Tree[] =>
        random.chance(0.5) ? [[node]] : [node, random.pick([...LEAVES, ...words])],
    ]);
    tree = withNode(tree, path, change)[0] ?? tree;
  }
  return inputOf(tree);
}

/** Without a node, or with one of its children in its place, or as something plain. */
function* reductions(input: Buffer): Iterable<Buffer> {
  const tree = treeOf(input);
  const paths = [...pathsIn(tree)].sort((a, b) => a.length - b.length);
  for (const path of paths) {
    const node = nodeAt(tree, path);
    const inner: Tree[] = node !== null && typeof node === 'object' ? Object.values(node) : [];
    const plain: Tree[] = typeof node === 'string' ? [node.slice(0, node.length >> 1)] : [];
    if (typeof node === 'number' && node !== 0) plain.push(0, Math.trunc(node / 2));
    for (const made of [[], ...inner.map((child) => [child]), ...plain.map((leaf) => [leaf])]) {
      const [smaller] = withNode(tree, path, () => made);
      if (smaller !== undefined) yield inputOf(smaller);
    }
  }
}

export const TREE: Form = { mutate, reductions };
