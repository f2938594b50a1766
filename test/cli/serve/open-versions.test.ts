/** Files stay open between requests, for a while and not too many. */
import { readdirSync, readlinkSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ServedFile } from '../../../src/cli/serve/model-files.js';
import { OpenVersions } from '../../../src/cli/serve/open-versions.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';

const MAX_IDLE = 32;

let folder: string;
let versions: OpenVersions;

beforeEach(() => {
  versions = new OpenVersions();
  folder = temporaryPath('folder');
});

afterEach(async () => {
  vi.useRealTimers();
  await versions.close();
});

function write(name: string, text = name): ServedFile {
  return { name, path: realpathSync(writeBelow(folder, name, text)) };
}

/** Paths of the folder that this process has open, each as often as it is. */
function openPaths(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(join('/proc/self/fd', fd));
      return path.startsWith(realpathSync(folder)) ? [path] : [];
    } catch {
      return []; // The folder's own descriptor.
    }
  });
}

async function use(file: ServedFile): Promise<number> {
  const lease = await versions.acquire(file);
  await lease?.release();
  return lease?.version.fd ?? -1;
}

describe.runIf(process.platform === 'linux')('open versions', () => {
  it('serve one request after another, and several at once', async () => {
    const file = write('a');
    const fd = await use(file);
    expect(await use(file)).toBe(fd);
    const [first, second] = await Promise.all([versions.acquire(file), versions.acquire(file)]);
    await first?.release();
    expect(openPaths()).toEqual([file.path]);
    expect(second?.version.fd).toBe(fd);
    await second?.release();
  });

  it('are closed once they are idle', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const file = write('a');
    await use(file);
    vi.advanceTimersByTime(249);
    await use(file);
    vi.advanceTimersByTime(249);
    expect(openPaths()).toEqual([file.path]);
    const lease = await versions.acquire(file);
    vi.advanceTimersByTime(5000);
    expect(openPaths()).toEqual([file.path]);
    await lease?.release();
    vi.advanceTimersByTime(250);
    await expect.poll(() => openPaths()).toEqual([]);
  });

  it('are at most 32 without a request; the one idle longest is closed', async () => {
    const files = Array.from({ length: MAX_IDLE + 2 }, (_, i) => write(`file-${i}`));
    for (const file of files.slice(0, MAX_IDLE)) await use(file);
    await use(files[0] as ServedFile);
    for (const file of files.slice(MAX_IDLE)) await use(file);
    const closed = files.filter(({ path }) => !openPaths().includes(path));
    expect(closed.map(({ name }) => name)).toEqual(['file-1', 'file-2']);
  });

  it.each<[string, (file: ServedFile) => void]>([
    ['replaced', ({ path }) => renameSync(write('other', 'a').path, path)],
    ['rewritten', () => void write('a', 'b')],
    ['removed', ({ path }) => rmSync(path)],
  ])('give way to others when the file is %s, once their requests end', async (_, change) => {
    const file = write('a');
    const old = await versions.acquire(file);
    await new Promise((done) => setTimeout(done, 20)); // Past the resolution of the file system's clock.
    change(file);
    const now = await versions.acquire(file);
    expect(now?.version.tag).not.toBe(old?.version.tag);
    await old?.release();
    await now?.release();
    expect(openPaths()).toEqual(now === null ? [] : [file.path]);
  });

  it('are closed with the server, those in use when their requests end', async () => {
    const files = [write('a'), write('b')] as const;
    const lease = await versions.acquire(files[0]);
    await use(files[1]);
    await versions.close();
    expect(openPaths()).toEqual([files[0].path]);
    await lease?.release();
    expect(openPaths()).toEqual([]);
  });
});
