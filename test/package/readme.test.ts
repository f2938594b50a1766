import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fileBytes } from '../support/make-file.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');

// A heading, a JavaScript block, and right behind it what the block prints.
const EXAMPLE = /^### (.+)\n[\s\S]*?```js\n([\s\S]*?)```\n+```text\n([\s\S]*?)```/gm;
const examples = Array.from(readme.matchAll(EXAMPLE), ([, title = '', code = '', output = '']) => ({
  title,
  code,
  output,
}));

let folder: string;

/** 0, 0.25, 0.5 … as BF16: exact, since the upper half of a float32 holds them. */
function bfloat16(count: number): Uint8Array {
  const halves = new Uint16Array(Float32Array.from({ length: count }, (_, i) => i / 4).buffer);
  return new Uint8Array(halves.filter((_, i) => i % 2 === 1).buffer);
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-readme-'));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/safetensors-mmap'), 'dir');
  writeFileSync(
    join(folder, 'model.safetensors'),
    fileBytes(
      [
        { name: 'embed.weight', dtype: 'BF16', shape: [8, 4], bytes: bfloat16(32) },
        { name: 'norm.weight', dtype: 'F32', shape: [4], bytes: new Uint8Array(16) },
      ],
      { metadata: { format: 'pt' } },
    ),
  );
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the examples of the README print what they say', () => {
  test('there are at least five', () => {
    expect(examples.length).toBeGreaterThanOrEqual(5);
    expect(examples.length).toBe(readme.match(/^```js$/gm)?.length);
  });

  test.each(examples)('$title', async ({ title, code, output }) => {
    const script = join(folder, `${title.replaceAll(/\W+/g, '-')}.mjs`);
    // `using` is not in the syntax of Node 20 and 22: what the examples call is plain JavaScript.
    writeFileSync(script, code);
    const { stdout } = await promisify(execFile)(process.execPath, [script], { cwd: folder });
    expect(stdout).toBe(output);
  });
});
