/** The installed package on other versions of Node than the one that runs the tests. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { install } from '../support/installed-package.js';
import { root } from '../support/source-tree.js';

const MODEL = join(root, 'test/fixtures/models/bert-f32.safetensors');

let folder: string;
let project: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-runtimes-'));
  project = install(folder, 'app', inject('tarball'));
  for (const child of ['import.mjs', 'require.cjs']) {
    copyFileSync(join(root, 'test/package/children', child), join(project, child));
  }
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(['node-22', 'node-24', 'node-26'])('%s', (version) => {
  it.each(['import.mjs', 'require.cjs'])('maps, by %s', (program) => {
    const node = join(root, 'test/deploy/node_modules', version, 'bin/node');
    const args = [program, MODEL, 'embeddings.LayerNorm.weight'];
    const { stdout, stderr } = spawnSync(node, args, { cwd: project, encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toMatchObject({ storage: 'mmap' });
  });
});
