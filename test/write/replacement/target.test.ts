import { execFileSync } from 'node:child_process';
import { mkdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { resolveTarget } from '../../../src/write/replacement/target.js';
import { temporaryPath } from '../../support/make-file.js';

/** A path in the temporary folder, which may itself be reached by links. */
function place(name: string): string {
  return join(realpathSync(dirname(temporaryPath('x'))), name);
}

function fileAt(path: string): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, 'x');
  return path;
}

function resolved(path: string | Buffer): string {
  return resolveTarget(path, 'label').path.toString();
}

test('without links, the path is the target', () => {
  const path = fileAt(place('a'));
  const target = resolveTarget(path, 'label');
  expect(target.path.toString()).toBe(path);
  expect(target.folder.toString()).toBe(`${dirname(path)}/`);
  expect(target.stats?.size).toBe(1);
  expect(resolveTarget(place('b'), 'label').stats).toBeUndefined();
  expect(resolved(place('b'))).toBe(place('b'));
  expect(resolved(Buffer.from(place('b')))).toBe(place('b'));
});

test('relative paths', () => {
  const path = place('a');
  expect(resolved(relative(process.cwd(), path))).toBe(path);
  expect(resolved('no-such-file')).toBe(join(realpathSync('.'), 'no-such-file'));
});

test.runIf(process.platform === 'linux')('names that are not UTF-8', () => {
  const bytes = Buffer.concat([Buffer.from(place('x')), Buffer.of(0xff, 0x80)]);
  expect(resolveTarget(bytes, 'label').path).toEqual(bytes);
  writeFileSync(bytes, '');
  symlinkSync(bytes, place('link'));
  expect(resolveTarget(place('link'), 'label').path).toEqual(bytes);
  expect(resolved(place('ünï'))).toBe(place('ünï'));
});

describe('links', () => {
  test('are followed, through one another and to what does not exist yet', () => {
    const target = place('target');
    symlinkSync('target', place('relative'));
    symlinkSync(place('relative'), place('absolute'));
    mkdirSync(place('folder'));
    symlinkSync('../absolute', place('folder/up'));
    symlinkSync('folder', place('other'));
    for (const link of ['relative', 'absolute', 'folder/up', 'other/up']) {
      expect(resolved(place(link))).toBe(target);
    }
    fileAt(target);
    for (const link of ['relative', 'absolute', 'folder/up', 'other/up']) {
      expect(resolved(place(link))).toBe(target);
    }
    expect(resolved(place('other/new'))).toBe(place('folder/new'));
  });

  test('`..` behind a link is the folder above what it leads to', () => {
    mkdirSync(place('a/b'), { recursive: true });
    symlinkSync('a/b', place('link'));
    expect(resolved(`${place('link')}/../new`)).toBe(place('a/new'));
    symlinkSync('link/../new', place('dangling'));
    expect(resolved(place('dangling'))).toBe(place('a/new'));
  });

  test('that go in circles are ELOOP', () => {
    symlinkSync('b', place('a'));
    symlinkSync('a', place('b'));
    symlinkSync('itself', place('itself'));
    for (const name of ['a', 'itself']) {
      expect(() => resolveTarget(place(name), 'label')).toThrow(
        expect.objectContaining({ code: 'ELOOP', path: 'label', syscall: 'open' }),
      );
    }
  });

  test('chains of any length end, and are followed as far as the system does', () => {
    const count = 60;
    for (let i = 0; i < count; i++) symlinkSync(`link${i + 1}`, place(`link${i}`));
    expect(resolved(place('link30'))).toBe(place(`link${count}`));
    expect(() => resolveTarget(place('link0'), 'label')).toThrow(
      expect.objectContaining({ code: 'ELOOP' }),
    );
  });
});

describe('refuses', () => {
  test.each(['missing/a', 'missing/', 'missing/..', '', 'missing/b/c'])(
    'a folder that does not exist: %j',
    (name) => {
      const path = name === '' ? '' : `${dirname(place('x'))}/${name}`;
      expect(() => resolveTarget(path, 'label')).toThrow(
        expect.objectContaining({
          code: 'ENOENT',
          path: 'label',
          message: "ENOENT: no such file or directory, open 'label'",
        }),
      );
    },
  );

  test('a file as a folder', () => {
    const path = fileAt(place('a'));
    expect(() => resolveTarget(`${path}/b`, 'label')).toThrow(
      expect.objectContaining({ code: 'ENOTDIR', path: 'label' }),
    );
  });

  const kind = (text: string) =>
    expect.objectContaining({
      code: 'SAFETENSORS_NOT_A_REGULAR_FILE',
      path: 'label',
      message: `label: expected a regular file, found ${text}`,
    });

  test('a directory, also behind a link', () => {
    mkdirSync(place('folder'));
    symlinkSync('folder', place('link'));
    for (const path of [place('folder'), `${place('folder')}/`, place('link'), '/']) {
      expect(() => resolveTarget(path, 'label')).toThrow(kind('a directory'));
    }
  });

  test.runIf(process.platform !== 'win32')('a device, a FIFO, a socket', async () => {
    expect(() => resolveTarget('/dev/null', 'label')).toThrow(kind('a character device'));
    execFileSync('mkfifo', [place('fifo')]);
    expect(() => resolveTarget(place('fifo'), 'label')).toThrow(kind('a named pipe (FIFO)'));
    const server = createServer().listen(place('socket'));
    try {
      await new Promise((resolve) => server.once('listening', resolve));
      expect(() => resolveTarget(place('socket'), 'label')).toThrow(kind('a socket'));
    } finally {
      server.close();
    }
  });

  test.each(['models--a--b', 'datasets--a', 'spaces--a--b', 'kernels--a--b'])(
    'a blob of the Hub’s cache: %s',
    (repository) => {
      const blob = fileAt(place(`${repository}/blobs/0123abcd`));
      const snapshot = place(`${repository}/snapshots/1/model.safetensors`);
      mkdirSync(dirname(snapshot), { recursive: true });
      symlinkSync('../../blobs/0123abcd', snapshot);
      const dangling = place(`${repository}/snapshots/1/dangling`);
      symlinkSync('../../blobs/4567', dangling);
      for (const path of [blob, snapshot, dangling]) {
        expect(() => resolveTarget(path, 'label')).toThrow(
          expect.objectContaining({
            code: 'SAFETENSORS_HUB_CACHE_BLOB',
            path: 'label',
            message: expect.stringContaining('write to a path outside of the cache'),
          }),
        );
      }
      for (const path of [
        `${repository}/snapshots/1/own.safetensors`,
        `${repository}/blobs/sub/own`,
        `${repository}/own`,
        'models/blobs/own',
        'blobs/own',
        `blobs/ab/${'ab'.repeat(32)}`,
      ]) {
        mkdirSync(dirname(place(path)), { recursive: true });
        expect(resolved(place(path))).toBe(place(path));
      }
    },
  );

  describe('what is in the store that the repositories of a cache share', () => {
    const blob = expect.objectContaining({ code: 'SAFETENSORS_HUB_CACHE_BLOB', path: 'label' });
    const entry = `blobs/ab/${'ab'.repeat(32)}`;

    test.each([
      entry,
      `${entry}.refs`,
      `blobs/cd/${'cd'.repeat(32)}`,
      'blobs/own',
      'blobs/a/b/own',
    ])('%s, by its path or a link', (name) => {
      fileAt(place('cache/blobs/.huggingface-shared-blobs'));
      fileAt(place(`cache/${entry}`));
      const path = place(`cache/${name}`);
      mkdirSync(dirname(path), { recursive: true });
      symlinkSync(path, place('link'));
      symlinkSync('link', place('link to a link'));
      for (const target of [path, place('link'), place('link to a link')]) {
        expect(() => resolveTarget(target, 'label')).toThrow(blob);
      }
    });

    test('whatever its marker is', () => {
      mkdirSync(place('a/blobs/.huggingface-shared-blobs'), { recursive: true });
      mkdirSync(place('b/blobs'), { recursive: true });
      symlinkSync('nowhere', place('b/blobs/.huggingface-shared-blobs'));
      for (const cache of ['a', 'b']) {
        expect(() => resolveTarget(fileAt(place(`${cache}/${entry}`)), 'label')).toThrow(blob);
      }
    });

    test('by a snapshot and by a blob, wherever that leads', () => {
      const own = fileAt(place('elsewhere'));
      mkdirSync(place('models--a--b/blobs'), { recursive: true });
      mkdirSync(place('models--a--b/snapshots/1'), { recursive: true });
      symlinkSync(own, place('models--a--b/blobs/0123'));
      symlinkSync('../../blobs/0123', place('models--a--b/snapshots/1/model.safetensors'));
      symlinkSync('models--a--b/snapshots/1', place('model'));
      for (const path of ['models--a--b/blobs/0123', 'model/model.safetensors']) {
        expect(() => resolveTarget(place(path), 'label')).toThrow(blob);
      }
      expect(resolved(own)).toBe(own);
    });

    test('by a folder of blobs that is itself a link', () => {
      fileAt(place('disk/0123'));
      mkdirSync(place('models--a--b/snapshots/1'), { recursive: true });
      symlinkSync('../disk', place('models--a--b/blobs'));
      symlinkSync('../../blobs/0123', place('models--a--b/snapshots/1/model.safetensors'));
      for (const path of ['blobs/0123', 'blobs/new', 'snapshots/1/model.safetensors']) {
        expect(() => resolveTarget(place(`models--a--b/${path}`), 'label')).toThrow(blob);
      }
    });
  });

  test.each(['Models--a--b/Blobs/0123', `Blobs/ab/${'ab'.repeat(32)}`])(
    'what file systems take for the same, whatever the case of its letters: %s',
    (name) => {
      fileAt(place('Blobs/.huggingface-shared-blobs'));
      expect(() => resolveTarget(fileAt(place(name)), 'label')).toThrow(
        expect.objectContaining({ code: 'SAFETENSORS_HUB_CACHE_BLOB' }),
      );
    },
  );
});

describe('a blob of the cache that is written by the cache itself', () => {
  test('takes the place of a link, wherever that leads', () => {
    const own = fileAt(place('own'));
    mkdirSync(place('models--a--b/blobs'), { recursive: true });
    for (const target of [own, 'nowhere']) {
      const blob = place('models--a--b/blobs/0123');
      rmSync(blob, { force: true });
      symlinkSync(target, blob);
      const found = resolveTarget(blob, 'label', { isBlob: true });
      expect([found.path.toString(), found.stats]).toEqual([blob, undefined]);
    }
  });

  test('is no folder', () => {
    mkdirSync(place('models--a--b/blobs/0123'), { recursive: true });
    const path = place('models--a--b/blobs/0123');
    expect(() => resolveTarget(path, 'label', { isBlob: true })).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE' }),
    );
  });
});
