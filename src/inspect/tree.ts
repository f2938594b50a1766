/**
 * The names of tensors as a tree: `model.layers.0.mlp.weight` is four branches and a leaf. Folds numbered branches
 * with the same contents into one.
 */

import { argumentTypeError } from '../errors/arguments.js';

/** The tensor of a leaf. */
export interface TreeEntry {
  /** The whole name: its parts end with a point or a slash. */
  readonly name: string;
  /** Equal branches have equal dtypes. */
  readonly dtype: string;
  /** Dimensions, outermost first; equal in equal branches. */
  readonly shape: readonly number[];
  /** Length in bytes. */
  readonly byteLength: number;
}

/** A branch or a leaf; for folded branches the first, with the sums of all. */
export interface TreeNode {
  /** A part of the name, or several parts without siblings: `model.layers`, `0-31`. */
  readonly label: string;
  /** The number of branches it stands for, times that of its ancestors: 32 for `0-31` and its descendants. */
  readonly times: number;
  /** Tensors in all these branches. */
  readonly tensors: number;
  /** Their bytes. */
  readonly byteLength: number;
  /** The tensor, for a leaf; of a folded one the first. */
  readonly leaf: TreeEntry | null;
  /** The branches and leaves below; none below a leaf without longer names. */
  readonly children: readonly TreeNode[];
}

/** Joins deeper parts of a name: such a tree is unreadable, and the walk recurses. */
const MAX_TREE_DEPTH = 32;

/** What separates the parts of a name. */
const POINT = 0x2e;
const SLASH = 0x2f;

const NUMBERED_SEGMENT = /^\d+[./]?$/;

/** A branch while the tree grows. The key of a child has the separator at its end. */
interface Branch {
  /** Null for a leaf without longer names: an empty Map takes more memory than everything else of it. */
  children: Map<string, Branch> | null;
  leaf: TreeEntry | null;
  tensors: number;
  byteLength: number;
  /** Equal for branches with the same contents under the same names. */
  form: number;
}

function newBranch(): Branch {
  return { children: null, leaf: null, tensors: 0, byteLength: 0, form: 0 };
}

/** Position after the part of a name that begins at `start`, with its separator; -1 for the last part. */
function nextPart(name: string, start: number, depth: number): number {
  if (depth === MAX_TREE_DEPTH) return -1;
  for (let at = start; at < name.length; at++) {
    const code = name.charCodeAt(at);
    if (code === POINT || code === SLASH) return at + 1;
  }
  return -1;
}

function grow(entries: readonly TreeEntry[]): Branch {
  const root = newBranch();
  // The branches that the last name passed, and its beginning up to each: most names begin like the one before.
  const path = [root];
  const prefixes = [''];
  for (const entry of entries) {
    const { name, byteLength } = entry;
    while (!name.startsWith(prefixes.at(-1) as string)) {
      prefixes.pop();
      path.pop();
    }
    let branch = path.at(-1) as Branch;
    let at = (prefixes.at(-1) as string).length;
    for (
      let end = nextPart(name, at, path.length);
      end !== -1;
      end = nextPart(name, at, path.length)
    ) {
      branch = childOf(branch, name.slice(at, end));
      path.push(branch);
      prefixes.push(name.slice(0, end));
      at = end;
    }
    for (const passed of path) {
      passed.tensors++;
      passed.byteLength += byteLength;
    }
    if (at < name.length || path.length === 1) {
      branch = childOf(branch, name.slice(at));
      branch.tensors++;
      branch.byteLength += byteLength;
    }
    branch.leaf = entry;
  }
  return root;
}

/** The child with that key; a new one if there is none. */
function childOf(branch: Branch, key: string): Branch {
  branch.children ??= new Map();
  let child = branch.children.get(key);
  if (child === undefined) {
    child = newBranch();
    branch.children.set(key, child);
  }
  return child;
}

/** Numbers the forms, deepest first. The order of children is not part of a form: files may list a layer in two. */
function setForms(branch: Branch, known: Map<string, number>): void {
  const leaf = branch.leaf === null ? '' : leafForm(branch.leaf);
  const parts: string[] = [];
  // Names may contain any character: their lengths separate them.
  for (const [key, child] of branch.children ?? []) {
    setForms(child, known);
    parts.push(` ${key.length} ${key}${child.form}`);
  }
  const text = leaf + parts.join('');
  let form = known.get(text);
  if (form === undefined) {
    const sorted = leaf + parts.sort().join('');
    form = known.get(sorted) ?? known.size;
    // Most branches list their children as an earlier one does: these are not sorted.
    known.set(text, form).set(sorted, form);
  }
  branch.form = form;
}

/** Equal for leaves with the same dtype and shape. */
function leafForm({ dtype, shape }: TreeEntry): string {
  let text = `${dtype.length} ${dtype}`;
  for (const dimension of shape) text += `,${dimension}`;
  return text;
}

/** A branch, or several equal ones with consecutive numbers. */
interface FoldedBranch {
  readonly label: string;
  readonly first: Branch;
  /** All of them, each with its key. */
  readonly all: readonly (readonly [key: string, branch: Branch])[];
}

/** Children with labels: joins consecutive numbers of one form. */
function foldedChildren(branch: Branch): FoldedBranch[] {
  const folded: { label: string; first: Branch; all: [string, Branch][]; next: number }[] = [];
  const children = branch.children ?? new Map<string, Branch>();
  const numbered = [...children]
    .filter(([key]) => NUMBERED_SEGMENT.test(key))
    .sort(([a], [b]) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
  let isNumbered = false;
  for (const [key, child] of children) {
    if (!NUMBERED_SEGMENT.test(key)) {
      folded.push({ label: key, first: child, all: [[key, child]], next: Number.NaN });
      continue;
    }
    // All numbered children follow the first of them.
    if (isNumbered) continue;
    isNumbered = true;
    for (const [label, one] of numbered) {
      const number = Number.parseInt(label, 10);
      const last = folded.at(-1);
      if (last?.next === number && last.first.form === one.form) {
        last.all.push([label, one]);
        last.next++;
      } else {
        folded.push({ label, first: one, all: [[label, one]], next: number + 1 });
      }
    }
  }
  return folded.map(({ label, first, all, next }) => ({
    label:
      all.length === 1
        ? label
        : `${Number.parseInt(label, 10)}-${next - 1}${label.replace(/^\d+/, '')}`,
    ...{ first, all },
  }));
}

/** What folded nodes stand for, made when it is asked for. */
const unfoldings = new WeakMap<TreeNode, () => TreeNode[]>();

/**
 * A node for branches whose place in the tree is known.
 *
 * @param before the parts of the name that are joined with its own
 */
function nodeOf(start: FoldedBranch, outer: number, before = ''): TreeNode {
  let [label, first, times] = [before + start.label, start.first, outer * start.all.length];
  let unfold = start.all.length > 1 ? () => oneByOne(start, outer, before) : null;
  let below = foldedChildren(first);
  // Join parts of names without siblings.
  while (first.leaf === null && below.length === 1) {
    const [only] = below as [FoldedBranch];
    if (only.all.length > 1 && unfold === null) {
      const [joined, joinedTimes] = [label, times];
      unfold = () => oneByOne(only, joinedTimes, joined);
    }
    label += only.label;
    times *= only.all.length;
    first = only.first;
    below = foldedChildren(first);
  }
  const { leaf, tensors, byteLength } = first;
  const node = {
    label: below.length === 0 ? label : label.replace(/[./]$/, ''),
    times,
    tensors: tensors * times,
    byteLength: byteLength * times,
    leaf,
    children: below.map((child) => nodeOf(child, times)),
  };
  if (unfold !== null) unfoldings.set(node, unfold);
  return node;
}

function oneByOne({ all }: FoldedBranch, outer: number, before: string): TreeNode[] {
  return all.map(([label, first]) =>
    nodeOf({ label, first, all: [[label, first]] }, outer, before),
  );
}

/**
 * The nodes that a folded one stands for, one for each of its branches; empty for one that is not folded.
 *
 * @example
 * ```ts
 * const layer = { dtype: 'F32', shape: [2], byteLength: 8 };
 * const [node] = treeOf([0, 1].map((i) => ({ name: `layers.${i}.weight`, ...layer })));
 * console.log(node?.label, node && unfold(node).map(({ label }) => label));
 * // → layers.0-1.weight [ 'layers.0.weight', 'layers.1.weight' ]
 * ```
 */
export function unfold(node: TreeNode): TreeNode[] {
  return unfoldings.get(node)?.() ?? [];
}

/**
 * The outermost branches, in the order of the entries. Numbered branches with the same contents are one: `0-31`.
 *
 * @example
 * ```ts
 * const tensors = await safeOpen('model.safetensors').tensors();
 * console.log(treeOf(tensors).map(({ label, byteLength }) => `${label} ${byteLength}`));
 * // → [ 'norm.weight 16', 'embed.weight 64' ]
 * ```
 */
export function treeOf(entries: readonly TreeEntry[]): TreeNode[] {
  if (!Array.isArray(entries)) {
    throw argumentTypeError('entries', 'an array, such as await checkpoint.tensors()', entries);
  }
  for (const [i, entry] of entries.entries()) {
    if (typeof Object(entry).name === 'string') continue;
    throw argumentTypeError(
      `entries[${i}]`,
      'an object with a name, dtype, shape and byteLength',
      entry,
    );
  }
  const root = grow(entries);
  const known = new Map<string, number>();
  // No branch is compared with the root.
  for (const child of root.children?.values() ?? []) setForms(child, known);
  return foldedChildren(root).map((branch) => nodeOf(branch, 1));
}
