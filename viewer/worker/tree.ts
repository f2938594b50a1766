/** The tree of names, of which the page asks for the children of one node at a time. */

import { type TreeNode, treeOf, unfold } from 'safetensors-mmap/inspect';
import type { TensorList } from './facts.js';

/** A line of the tree. */
export interface TreeRow {
  /** The number to ask for its children by. */
  readonly node: number;
  readonly label: string;
  readonly tensors: number;
  readonly byteLength: number;
  /** The tensor, for a line that is one. */
  readonly name: string | null;
  /** What stands beside the label: dtype and shape of a tensor, or of tensors that are alike. */
  readonly note: string | null;
  readonly hasChildren: boolean;
}

interface Tree {
  readonly nodes: TreeNode[];
  readonly top: TreeNode[];
}

const trees = new WeakMap<TensorList, Tree>();

function treeOfList(list: TensorList): Tree {
  const known = trees.get(list);
  if (known !== undefined) return known;
  const entries = list.names.map((name, at) => ({
    name,
    dtype: list.kinds[list.kind[at] as number] as string,
    // The tree folds what is alike, by what it is given for a shape.
    shape:
      (list.shapes[at] as string) === 'scalar'
        ? []
        : (list.shapes[at] as string).split(' × ').map(Number),
    byteLength: list.byteLength[at] as number,
  }));
  const tree = { nodes: [], top: treeOf(entries) };
  trees.set(list, tree);
  return tree;
}

/** The lines below a node; the outermost ones for null. A folded node has below it what it stands for, one by one. */
export function treeRows(list: TensorList, parent: number | null): TreeRow[] {
  const { nodes, top } = treeOfList(list);
  return childrenOf(parent === null ? null : (nodes[parent] as TreeNode), top).map((node) => {
    const { label, times, tensors, byteLength, leaf, children } = node;
    const shape = leaf?.shape.join(' × ');
    return {
      node: nodes.push(node) - 1,
      ...{ label, tensors, byteLength },
      name: leaf !== null && times === 1 ? leaf.name : null,
      note: leaf === null ? null : `${leaf.dtype} ${shape}`,
      hasChildren: times > 1 || children.length > 0,
    };
  });
}

function childrenOf(node: TreeNode | null, top: TreeNode[]): readonly TreeNode[] {
  if (node === null) return top;
  const members = unfold(node);
  return members.length > 0 ? members : node.children;
}
