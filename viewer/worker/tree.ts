/** The tree of names, of which the page asks for the children of one node at a time. */

import { type TreeNode, treeOf, unfold } from 'safetensors-mmap/inspect';
import { dimensions, formatShape, type TensorList } from './info.js';

/** A line of the tree. */
export interface TreeRow {
  /** The number to ask for its children by. */
  readonly node: number;
  readonly label: string;
  readonly tensors: number;
  readonly byteLength: number;
  /** The tensor, for a line that is one. */
  readonly name: string | null;
  /** What stands next to the label: dtype and shape of a tensor, or of tensors that are alike. */
  readonly note: string | null;
  readonly hasChildren: boolean;
}

/** The lines below some nodes. */
export type Branches = readonly (readonly [node: number, rows: readonly TreeRow[]])[];

interface Tree {
  readonly nodes: TreeNode[];
  readonly top: TreeNode[];
  /** Lines that were asked for, by the node that they are below. */
  readonly rows: Map<number | null, readonly TreeRow[]>;
}

/** The numbers of a folded label: `0-31`. */
const FOLD = /\d+-\d+/;

const trees = new WeakMap<TensorList, Tree>();

function treeOfList(list: TensorList): Tree {
  const known = trees.get(list);
  if (known !== undefined) return known;
  const entries = list.names.map((name, at) => ({
    name,
    dtype: list.kinds[list.kind[at] as number] as string,
    shape: dimensions(list.shapes[at] as string),
    byteLength: list.byteLength[at] as number,
  }));
  const tree = { nodes: [], top: treeOf(entries), rows: new Map() };
  trees.set(list, tree);
  return tree;
}

/** The lines below a node; the outermost ones for null. A folded node has below it what it stands for, one by one. */
export function treeRows(list: TensorList, parent: number | null): readonly TreeRow[] {
  const { nodes, top, rows } = treeOfList(list);
  const known = rows.get(parent);
  if (known !== undefined) return known;
  const made = childrenOf(parent === null ? null : (nodes[parent] as TreeNode), top).map((node) => {
    const { label, times, tensors, byteLength, leaf, children } = node;
    return {
      node: nodes.push(node) - 1,
      ...{ label, tensors, byteLength },
      name: leaf !== null && times === 1 ? leaf.name : null,
      note: leaf === null ? null : `${leaf.dtype} ${formatShape(leaf.shape)}`,
      hasChildren: times > 1 || children.length > 0,
    };
  });
  rows.set(parent, made);
  return made;
}

function childrenOf(node: TreeNode | null, top: TreeNode[]): readonly TreeNode[] {
  if (node === null) return top;
  const members = unfold(node);
  return members.length > 0 ? members : node.children;
}

/** The nodes above a tensor, each with the lines below it, the outermost first; none for a name that is not there. */
export function branchesTo(list: TensorList, name: string): Branches {
  const walk = (parent: number | null, before: string): number[] | null => {
    const rest = name.slice(before.length);
    for (const { node, label, name: own, hasChildren } of treeRows(list, parent)) {
      if (own === name) return [];
      if (!hasChildren) continue;
      const fold = label.search(FOLD);
      const isFolded = unfold(treeOfList(list).nodes[node] as TreeNode).length > 0;
      if (!rest.startsWith(isFolded ? label.slice(0, fold) : label)) continue;
      const below = walk(node, isFolded ? before : name.slice(0, before.length + label.length + 1));
      if (below !== null) return [node, ...below];
    }
    return null;
  };
  return (walk(null, '') ?? []).map((node) => [node, treeRows(list, node)]);
}
