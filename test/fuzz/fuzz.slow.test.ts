/** A short run of every target, as `npm run fuzz -- all` does it; every former find is replayed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, it } from 'vitest';
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

/** All targets, a line each. */
let list = '';
beforeAll(async () => {
  list = (await fuzz('--list')).output;
});

/** The same seed always: a failure is due to the change. `.ci/full` and the nightly workflow run longer. */
const SEED = process.env['SAFETENSORS_SEED'] ?? '20261123';

it('nothing is found in a short run of all targets', async () => {
  const { code, output } = await fuzz('all', '--inputs', '40', '--seconds', '30', '--seed', SEED);
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
  const targets = /target:\s*\[([^\]]+)\]/.exec(workflow)?.[1]?.match(/\w+/g);
  expect(targets).toEqual(Array.from(list.matchAll(/^\w+/gm), ([name]) => name));
});

it('what was found is listed in the README, and a target knows it', async () => {
  const readme = readFileSync(join(MENDED, 'README.md'), 'utf8');
  const listed = [...readme.matchAll(/^\| `([^`]+)` \|/gm)].map(([, path]) => path);
  const folders = readdirSync(MENDED, { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  const kept = folders.flatMap(({ name }) => {
    expect(list).toMatch(new RegExp(`^${name} `, 'm'));
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
  const mended = await fuzz('slices', '--input', join(MENDED, 'slices/boolean'));
  expect(mended.output).toMatch(/^slices: 1 inputs/m);
});

it.each([
  ['header --seconds abc', '--seconds must be a number of 0 or more, but is "abc"'],
  ['header --seed 1.5', '--seed must be a whole number of 0 or more, but is "1.5"'],
  ['header --secs 1', "Unknown option '--secs'"],
  ['header --input /no/such/file', 'there is no file /no/such/file'],
  ['headers', 'no target headers'],
  ['--seed 1', 'TARGET is missing'],
])('%j is refused', async (line, message) => {
  const { code, output } = await fuzz(...line.split(' '));
  expect(output).toContain(`fuzz: ${message}`);
  expect(output).not.toMatch(/^ +at /m);
  expect(code).toBe(2);
});

it('leaves nothing when it is interrupted', async () => {
  const child = spawn(process.execPath, [SCRIPT, 'header'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(child.stdout, 'data');
  child.kill('SIGINT');
  expect((await once(child, 'close'))[0]).toBe(130);
  const places = ['/dev/shm', tmpdir()].filter((place) => existsSync(place));
  const left = places.flatMap((place) => readdirSync(place)).join();
  expect(left).not.toContain(`safetensors-fuzz-${child.pid}-`);
});
