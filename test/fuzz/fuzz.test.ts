/** A short run of every target, as `npm run fuzz -- all` does it; every former find is replayed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { type ScanReport, scanPickle } from 'safetensors-mmap/convert';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../foreign/torch/fixtures.js';
import { MENDED, signatureOf } from './finds.js';
import { Problem } from './target.js';
import { compareWithScan } from './targets/torch.js';

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

/** The same seed always: a failure is due to the change. `.ci/full` and the nightly workflow look for more. */
const SEED = process.env['SAFETENSORS_SEED'] ?? '20261123';

it('nothing is found in a short run of all targets', async () => {
  const { code, output } = await fuzz('all', '--seconds', '0.7', '--seed', SEED);
  process.stderr.write(output.replaceAll(/^/gm, 'fuzz: '));
  expect(output).not.toMatch(/^ *FOUND/m);
  if (process.env['CI']) expect(output).not.toContain('without Python');
  expect(code, output).toBe(0);
});

describe('what a checkpoint that opens has to do with the scan of it', () => {
  const safe = scanPickle(fixturePath('zip-state-dict.pt'));
  const compare = (changes: Partial<ScanReport>) => () =>
    compareWithScan(undefined, { ...safe, ...changes });
  const finding = { message: '', position: 0 };

  it('nothing is wrong with what was read', () => {
    const kind = 'unread-entry';
    expect(compare({})).not.toThrow();
    expect(compare({ findings: [{ ...finding, kind, entry: 'm/x' }] })).not.toThrow();
    expect(compare({ findings: [{ ...finding, kind, entry: 'm/data.pkl' }] })).toThrow('opened');
    expect(compare({ findings: [{ ...finding, kind: 'opcode', entry: 'm/x' }] })).toThrow('opened');
    const code = { ...finding, kind: 'code' } as const;
    expect(compare({ findings: [{ ...code, entry: 'm/code/a.py' }] })).not.toThrow();
    expect(compare({ findings: [{ ...code, entry: undefined }] })).toThrow('opened');
    expect(compare({ format: 'TorchScript' })).toThrow('opened');
    expect(compare({ verdict: 'no-pickle' })).toThrow('opened');
  });

  it('it is damaged, or names what torch forbids, only where nothing was read', () => {
    expect(compare({ problems: ['entry "m/.storage_alignment": broken'] })).not.toThrow();
    expect(compare({ problems: ['byte 1 of m/x.pkl: expected more'] })).not.toThrow();
    for (const problem of [
      'entry "m/byteorder": x',
      'byte 1 of m/data.pkl: x',
      'x',
      'entry "m/data/0": x',
    ]) {
      expect(compare({ problems: [problem] }), problem).toThrow('opened');
    }
    const named = { module: 'a', name: 'b', position: 0, kind: 'unknown' } as const;
    expect(compare({ globals: [{ ...named, entry: 'm/x.pkl' }] })).not.toThrow();
    expect(compare({ globals: [{ ...named, entry: 'm/data.pkl' }] })).toThrow('opened');
    expect(compare({ globals: [{ ...named, entry: undefined }] })).toThrow('opened');
  });
});

it('the nightly run has all targets', async () => {
  const workflow = readFileSync(
    new URL('../../.github/workflows/nightly.yml', import.meta.url),
    'utf8',
  );
  const targets = /target:\s+\[(.+)\]/.exec(workflow)?.[1]?.split(', ');
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

it('leaves nothing when it is interrupted', { timeout: 60_000 }, async () => {
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

it('finds that differ in numbers, texts and lengths of lists alone are one', () => {
  const signature = (message: string) => signatureOf(new Problem(message));
  const one = signature('one way gives {"shape":[0],"sha256":"ab"}, another ERR');
  expect(signature('one way gives {"shape":[-1,0,3],"sha256":"c"}, another ERR')).toBe(one);
  expect(signature('one way gives {"shape":[]}, another ERR')).not.toBe(one);
});
