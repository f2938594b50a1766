/** Before the deploy tests: installs their tools where that is due, and packs the package once for all. */
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { setUpTools } from '../support/installed-tools.js';
import { root } from '../support/source-tree.js';

/** The package of the tools. */
export const TOOLS: string = join(root, 'test/deploy');

/** Where the tests build their projects. Built programs run elsewhere. */
export const APPS: string = join(TOOLS, '.apps');

export default function setUp(project: TestProject): () => void {
  return setUpTools(project, TOOLS, APPS);
}
