/** A short run of every target, as `npm run fuzz -- all` does it; all that was ever found is replayed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { MENDED } from './finds.js';

const SCRIPT = fileURLToPath(new URL('../../scripts/fuzz.mjs', import.meta.url));

async function fuzz(...args: string[]): Promise<{ code: number; output: string }> {
  const child = spawn(process.execPath, [SCRIPT, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      output += data;
    });
  }
  const [code] = await once(child, 'close');
  return { code, output };
}

/** Always the same: this run says something of a change. `.ci/full` and the nightly workflow look for more. */
const SEED = process.env['SAFETENSORS_SEED'] ?? '20261123';

it('nothing is found in a short run of all targets', async () => {
  const { code, output } = await fuzz('all', '--seconds', '0.7', '--seed', SEED);
  process.stderr.write(output.replaceAll(/^/gm, 'fuzz: '));
  expect(output).not.toMatch(/^ *FOUND/m);
  if (process.env['CI']) expect(output).not.toContain('without Python');
  expect(code, output).toBe(0);
});

it('the nightly run has all targets', async () => {
  const workflow = readFileSync(
    new URL('../../.github/workflows/nightly.yml', import.meta.url),
    'utf8',
  );
  const targets = /target: \[(.+)\]/.exec(workflow)?.[1]?.split(', ');
  const { output } = await fuzz('--list');
  expect(targets).toEqual(Array.from(output.matchAll(/^\w+/gm), ([name]) => name));
});

it('what was found is listed in the README, and a target knows it', async () => {
  const readme = readFileSync(join(MENDED, 'README.md'), 'utf8');
  const listed = [...readme.matchAll(/^\| `([^`]+)` \|/gm)].map(([, path]) => path);
  const folders = readdirSync(MENDED, { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  const { output } = await fuzz('--list');
  const kept = folders.flatMap(({ name }) => {
    expect(output).toMatch(new RegExp(`^${name} `, 'm'));
    return readdirSync(join(MENDED, name)).map((file) => `${name}/${file}`);
  });
  expect(listed.toSorted()).toEqual(kept.toSorted());
});

it('an input that was found is checked alone', async () => {
  const input = fileURLToPath(new URL('../fixtures/header-cases.json', import.meta.url));
  expect(existsSync(input)).toBe(true);
  const { code, output } = await fuzz('header', '--input', input);
  expect(output).toMatch(/SAFETENSORS_HEADER_TOO_LARGE 1|SAFETENSORS_INVALID_HEADER_LENGTH 1/);
  expect(code).toBe(0);
});
