/** The examples of all pages and docstrings. */
import {
  type Declared,
  declaredIn,
  type Example,
  examplesIn,
  withImport,
} from '../support/examples.js';
import { filesBelow, textOf } from '../support/source-tree.js';

/** Paths of the pages. */
export const pages: readonly string[] = filesBelow('.').filter((path) => path.endsWith('.md'));

const sources = filesBelow('src').filter((path) => path.endsWith('.ts'));

/** The declarations of every source file. */
export const declared: ReadonlyMap<string, readonly Declared[]> = new Map(
  sources.map((path) => [path, declaredIn(path)]),
);

/** The examples of all pages and docstrings. */
export const allExamples: readonly Example[] = [
  ...pages.flatMap((path) => examplesIn(textOf(path), path)),
  ...[...declared.values()].flat().flatMap((entry) => entry.examples.map(withImport)),
];
