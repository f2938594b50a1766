import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../../foreign/torch/fixtures.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { call } from '../call.js';

const FILE = fileBytes([{ name: 'a', dtype: 'U8', shape: [4] }]);

interface Scanned {
  readonly code: number;
  readonly verdicts: Readonly<Record<string, string>>;
  readonly otherFiles: number;
  readonly skipped: Readonly<Record<string, string>>;
}

async function scanned(folder: string): Promise<Scanned> {
  const { code, stdout, stderr } = await call(['scan', folder, '--json']);
  expect(stderr).toBe('');
  const { source, files, otherFiles, skipped } = JSON.parse(stdout);
  expect(source).toBe(folder);
  const byName = (list: readonly { path: string }[], key: string): Record<string, string> =>
    Object.fromEntries(
      list.map((one) => [relative(folder, one.path), (one as Record<string, string>)[key] ?? '']),
    );
  return {
    ...{ code, otherFiles },
    verdicts: byName(files, 'verdict'),
    skipped: byName(skipped, 'reason'),
  };
}

function copyFixture(name: string, ...to: string[]): void {
  mkdirSync(join(...to, '..'), { recursive: true });
  cpSync(fixturePath(name), join(...to));
}

describe('scan of a folder', () => {
  it('reports every file that may hold pickles, by name or by contents', async () => {
    const folder = temporaryPath('models');
    copyFixture('zip-state-dict.pt', folder, 'a/model.pt');
    copyFixture('zip-state-dict.pt', folder, 'a/b/no-extension');
    copyFixture('np-savez.npz', folder, 'arrays.npz');
    writeBelow(folder, 'a/model.safetensors', FILE);
    writeBelow(folder, 'a/__init__.py', '');
    writeBelow(folder, 'picture.png', Buffer.from('89504e470d0a1a0a00ff', 'hex'));
    writeBelow(folder, 'config.json', '{}');
    const verdicts = {
      'arrays.npz': 'no-pickle',
      'a/model.pt': 'safe',
      'a/b/no-extension': 'safe',
    };
    expect(await scanned(folder)).toEqual({ code: 0, verdicts, otherFiles: 4, skipped: {} });
    const { code, stdout } = await call(['scan', folder]);
    expect(code).toBe(0);
    expect(stdout).toContain(`${join(folder, 'a/model.pt')}: safe; `);
    expect(stdout).toMatch(
      /: 3 files with pickles or names of pickles, 1 no-pickle, 2 safe, 4 other files without\n$/,
    );
  });

  it('is no for one bad file, and for a file whose name promises a pickle', async () => {
    const folder = temporaryPath('models');
    copyFixture('zip-state-dict.pt', folder, 'good.pt');
    copyFixture('evil-os-system.pt', folder, 'deep/down/bad.txt');
    expect(await scanned(folder)).toEqual({
      code: 1,
      verdicts: { 'good.pt': 'safe', 'deep/down/bad.txt': 'suspicious' },
      ...{ otherFiles: 0, skipped: {} },
    });
    const unknown = temporaryPath('unknown');
    writeBelow(unknown, 'model.bin', Buffer.from('89504e470d0a1a0a00ff', 'hex'));
    expect(await scanned(unknown)).toMatchObject({
      code: 1,
      verdicts: { 'model.bin': 'suspicious' },
    });
    expect(await scanned(writeFolderOf('empty', {}))).toMatchObject({ code: 0, verdicts: {} });
  });

  it.skipIf(process.platform === 'win32')('follows no link out of it, and is then no', async () => {
    const outside = temporaryPath('outside');
    copyFixture('evil-os-system.pt', outside, 'bad.pt');
    const folder = temporaryPath('models');
    copyFixture('zip-state-dict.pt', folder, 'blob');
    symlinkSync('blob', join(folder, 'model.pt'));
    expect(await scanned(folder)).toEqual({
      code: 0,
      verdicts: { 'model.pt': 'safe' },
      ...{ otherFiles: 0, skipped: {} },
    });
    symlinkSync(join(outside, 'bad.pt'), join(folder, 'out.pt'));
    symlinkSync(outside, join(folder, 'folder'));
    const reason = 'a link that leads out of the folder';
    expect(await scanned(folder)).toEqual({
      code: 1,
      verdicts: { 'model.pt': 'safe' },
      ...{ otherFiles: 0, skipped: { folder: reason, 'out.pt': reason } },
    });
    expect((await call(['scan', folder])).stdout).toContain(
      `skipped ${join(folder, 'out.pt')}: ${reason}\n`,
    );
  });
});

/** A folder with these files. */
function writeFolderOf(name: string, files: Readonly<Record<string, string>>): string {
  const folder = temporaryPath(name);
  mkdirSync(folder, { recursive: true });
  for (const [file, text] of Object.entries(files)) writeBelow(folder, file, text);
  expect(basename(folder)).toContain(name);
  return folder;
}
