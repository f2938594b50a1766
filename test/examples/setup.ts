/** Before the tests of the examples: installs what these depend on where that is due, and packs the package. */
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { setUpTools } from '../support/installed-tools.js';
import { root } from '../support/source-tree.js';

/** The package of what the examples depend on. */
export const DEPENDENCIES: string = join(root, 'test/examples');

/** Where the tests put the examples to run them. */
export const APPS: string = join(DEPENDENCIES, '.apps');

export default function setUp(project: TestProject): () => void {
  return setUpTools(project, DEPENDENCIES, APPS);
}
