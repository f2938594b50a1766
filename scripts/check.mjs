// `npm run check`: format, lint, types, docstrings and package.json, two programs at a time. Prints the output of
// those that fail. The package must be built.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

const PROGRAMS = 2;

/** The longest first. */
const STEPS = {
  'types of tests': 'node_modules/typescript/bin/tsc -p test',
  docstrings:
    'node_modules/typedoc/bin/typedoc --options site/typedoc.base.json --treatWarningsAsErrors --emit none',
  'types of the viewer': 'node_modules/typescript/bin/tsc -p viewer',
  'format and lint': 'node_modules/@biomejs/biome/bin/biome ci .',
  'format of C++': 'scripts/clang-format.mjs --check',
  'package.json': 'node_modules/publint/src/cli.js --strict',
};

async function run([name, command]) {
  const began = performance.now();
  const child = spawn(process.execPath, command.split(' '), {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await once(child, 'close');
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(`${code === 0 ? 'passed' : 'FAILED'} ${name} (${seconds} s)`);
  if (code === 0) return;
  console.log((await output).join(''));
  process.exitCode = 1;
}

const steps = Object.entries(STEPS);
await Promise.all(
  Array.from({ length: PROGRAMS }, async () => {
    while (steps.length > 0) await run(steps.shift());
  }),
);
