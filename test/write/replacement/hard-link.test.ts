import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { linkOrCopy } from '../../../src/write/replacement/hard-link.js';
import { Replacement } from '../../../src/write/replacement/replacement.js';
import { temporaryPath } from '../../support/make-file.js';

const { refusal } = vi.hoisted(() => ({ refusal: { code: undefined as string | undefined } }));

// Answers of file systems without hard links.
vi.mock(import('node:fs/promises'), async (importOriginal) => {
  const fs = await importOriginal();
  const link: typeof fs.link = async (...args) => {
    const { code } = refusal;
    if (code !== undefined) throw Object.assign(new Error(code), { code, errno: -1 });
    await fs.link(...args);
  };
  return { ...fs, link };
});

let folder: string;

beforeEach(() => {
  folder = temporaryPath('names');
  mkdirSync(folder);
  writeFileSync(join(folder, 'source'), 'new');
});

afterEach(() => {
  refusal.code = undefined;
});

/** The number of files in the folder at each complete copy, before it gets its name. */
const copies: number[] = [];

async function give(
  openCopy: (byteLength: number) => Promise<Replacement> = () => {
    throw new Error('no copy is needed');
  },
): Promise<void> {
  const name = { path: join(folder, 'path'), temporaryPath: join(folder, 'tmp'), openCopy };
  const copied = async (): Promise<void> => {
    copies.push(readdirSync(folder).length);
  };
  await linkOrCopy(join(folder, 'source'), { ...name, copied });
}

describe('by a link', () => {
  it('takes the place of another file, and the first name stays', async () => {
    writeFileSync(join(folder, 'path'), 'old');
    copies.length = 0;
    await give();
    expect(copies).toEqual([]);
    expect(readFileSync(join(folder, 'path'), 'utf8')).toBe('new');
    expect(statSync(join(folder, 'path')).ino).toBe(statSync(join(folder, 'source')).ino);
    expect(readdirSync(folder).sort()).toEqual(['path', 'source']);
  });

  it('leaves nothing when the place cannot be taken', async () => {
    mkdirSync(join(folder, 'path'));
    await expect(give()).rejects.toMatchObject({ code: 'EISDIR' });
    expect(readdirSync(folder).sort()).toEqual(['path', 'source']);
  });

  it('throws other errors than refusals', async () => {
    refusal.code = 'ENOSPC';
    await expect(give()).rejects.toMatchObject({ code: 'ENOSPC' });
    expect(readdirSync(folder)).toEqual(['source']);
  });
});

describe.each(['EPERM', 'ENOTSUP', 'EMLINK'])('by a copy, since links are refused (%s)', (code) => {
  const openCopy = (byteLength: number): Promise<Replacement> =>
    Replacement.open(join(folder, 'unused'), 'label', { byteLength, durable: false });

  beforeEach(() => {
    refusal.code = code;
  });

  it.each([0, 3, 5_000_000])('takes the place of another file, %d bytes', async (length) => {
    const content = Buffer.alloc(length).map((_, i) => i % 251);
    writeFileSync(join(folder, 'source'), content);
    writeFileSync(join(folder, 'path'), 'old');
    copies.length = 0;
    await give(openCopy);
    expect(copies).toEqual([3]);
    expect(readFileSync(join(folder, 'path')).equals(content)).toBe(true);
    expect(statSync(join(folder, 'path')).ino).not.toBe(statSync(join(folder, 'source')).ino);
    expect(readdirSync(folder).sort()).toEqual(['path', 'source']);
  });

  it('leaves nothing when the place cannot be taken', async () => {
    mkdirSync(join(folder, 'path'));
    await expect(give(openCopy)).rejects.toMatchObject({ code: 'EISDIR' });
    expect(readdirSync(folder).sort()).toEqual(['path', 'source']);
  });
});
