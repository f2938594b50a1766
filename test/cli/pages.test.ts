/** Every call of the command line that a page shows prints what the page shows. */
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { writeModels } from '../support/example-models.js';
import { filesBelow, root, textOf } from '../support/source-tree.js';
import { printed } from './call.js';

const SHOWN_CALL = /^```text\n\$ safetensors-mmap (.*)\n([\s\S]*?)^```$/gm;

const calls = filesBelow('.')
  .filter((path) => path.endsWith('.md'))
  .flatMap((path) =>
    Array.from(
      textOf(path).matchAll(SHOWN_CALL),
      ([, args = '', output = '']) => [path, args, output] as const,
    ),
  );

const folder = `${root}test/cli/.apps`;

beforeAll(() => {
  writeModels(folder);
  process.chdir(folder);
});

afterAll(() => {
  process.chdir(root);
  rmSync(folder, { recursive: true, force: true });
});

it('pages show calls', () => {
  expect(calls.length).toBeGreaterThan(0);
});

it.each(calls)('%s: %s', async (_, args, output) => {
  expect(await printed(args.split(' '), { columns: 100 })).toBe(output);
});
