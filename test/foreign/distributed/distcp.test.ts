/** `.distcp` files that are damaged, missing or lie: an error with a code, in bounded time, and nothing outside. */
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  convert,
  loadFile,
  open as openAnything,
  safeOpen,
  verify,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { root } from '../../support/source-tree.js';

const FIXTURE = join(root, 'test/fixtures/dcp/dcp-nested-bytes');
const INVALID = 'SAFETENSORS_INVALID_DISTRIBUTED';

const open = (path: string): Promise<Checkpoint> => openAnything(path, { remote: false });

let folder: string;
beforeEach(() => {
  folder = temporaryPath('ckpt');
  cpSync(join(FIXTURE, 'ckpt'), folder, { recursive: true });
});

/** Replaces bytes of `.metadata`, where they are first. */
function replace(before: string, after: string): void {
  const path = join(folder, '.metadata');
  const bytes = readFileSync(path);
  const at = bytes.indexOf(before, 0, 'latin1');
  expect([before.length, at === -1]).toEqual([after.length, false]);
  bytes.write(after, at, 'latin1');
  writeFileSync(path, bytes);
}

it('is opened by its list, too, and converted in one call', async () => {
  const expected = loadFile(join(FIXTURE, 'expected.safetensors'));
  const target = temporaryPath('converted.safetensors');
  await convert(folder, target, { durable: false, names: (name) => name.startsWith('model.') });
  const names = [...expected.keys()].filter((name) => name.startsWith('model.')).sort();
  expect(safeOpen(target).keys()).toEqual(names);
  for (const [name, { bytes }] of loadFile(target))
    expect(bytes).toEqual(expected.get(name)?.bytes);
  const checkpoint = await open(folder);
  const rows = checkpoint.getSlice('model.cols', '1:3, 2:8');
  expect(rows.bytes).toEqual(expected.get('model.cols')?.slice('1:3, 2:8').bytes);
  checkpoint.close();
});

it('is verified by its checksums', async () => {
  expect(await verify(folder)).toMatchObject({ problems: [] });
  const rows = loadFile(join(FIXTURE, 'expected.safetensors')).get('model.rows')?.bytes;
  const first = Buffer.from(rows?.subarray(0, 96) as Uint8Array);
  const path = readdirSync(folder)
    .map((name) => join(folder, name))
    .find((one) => readFileSync(one).includes(first)) as string;
  const bytes = readFileSync(path);
  const at = bytes.indexOf(first);
  bytes[at] = (bytes[at] as number) ^ 1;
  writeFileSync(path, bytes);
  const { problems } = await verify(folder);
  expect(problems.map(({ code }) => code)).toEqual(['SAFETENSORS_CHECKSUM_MISMATCH']);
});

describe('an error', () => {
  it('for a file outside of the folder', async () => {
    replace('__0_0.distcp', '../_0.distcp');
    await expect(open(folder)).rejects.toMatchObject({ code: INVALID });
  });

  it('for a class that is not on the list', async () => {
    replace('TensorProperties', 'TensorPropertie2');
    await expect(open(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_FORBIDDEN_GLOBAL' });
  });

  it('for a missing file', async () => {
    const name = readdirSync(folder).find((one) => one.endsWith('_0.distcp')) as string;
    rmSync(join(folder, name));
    await expect(open(folder)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('for a truncated file', async () => {
    for (const name of readdirSync(folder)) {
      if (name.endsWith('.distcp')) truncateSync(join(folder, name), 100);
    }
    await expect(open(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_INCOMPLETE_FILE' });
  });

  it('for the lists of single ranks, which nothing has merged', async () => {
    const metadata = readFileSync(join(folder, '.metadata'));
    rmSync(join(folder, '.metadata'));
    writeFileSync(join(folder, '__0.metadata'), metadata);
    await expect(open(folder)).rejects.toThrow();
  });
});

it('random damage gives errors with codes', async () => {
  const names = readdirSync(folder);
  const contents = new Map(names.map((name) => [name, readFileSync(join(folder, name))]));
  const codes = new Map<string, number>();
  for (let number = 0; number < 300; number++) {
    const random = new Random(62, number);
    const name = random.chance(0.7) ? '.metadata' : random.pick(names);
    const bytes = Buffer.from(contents.get(name) as Buffer);
    for (let i = random.from(1, 3); i > 0; i--) {
      const at = random.below(bytes.length);
      bytes[at] = random.chance(0.5)
        ? random.below(256)
        : (bytes[at] as number) ^ (1 << random.below(8));
    }
    writeFileSync(join(folder, name), bytes);
    try {
      const checkpoint = await open(folder);
      for (const key of checkpoint.keys()) expect(checkpoint.getTensor(key).bytes).toBeDefined();
      checkpoint.close();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      expect(code, `${number}: ${error}`).toMatch(
        /^(?:SAFETENSORS_|ENOENT|ENAMETOOLONG|ERR_INVALID_ARG_VALUE)/,
      );
      codes.set(String(code), (codes.get(String(code)) ?? 0) + 1);
    }
    writeFileSync(join(folder, name), contents.get(name) as Buffer);
  }
  expect(codes.size).toBeGreaterThan(3);
});
