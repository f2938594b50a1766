import {
  chmodSync,
  existsSync,
  mkdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { call, golden, printed } from '../call.js';
import { LAYERED } from '../models.js';

const [FIRST = '', SECOND = ''] = Object.keys(TWO_SHARDS.shards);

interface Found {
  readonly code: number;
  readonly checks: readonly string[];
  readonly problems: readonly { file: string; code: string; message: string }[];
}

async function verified(...args: readonly string[]): Promise<Found> {
  const { code, stdout } = await call(['verify', ...args, '--json']);
  const { checks, problems } = JSON.parse(stdout);
  return { code, checks, problems };
}

describe('verify', () => {
  it('has nothing to say of what is right', async () => {
    expect(await verified(writeTemporary(LAYERED))).toEqual({
      ...{ code: 0, checks: ['headers'], problems: [] },
    });
    const folder = writeCheckpoint(TWO_SHARDS);
    expect((await verified(folder)).checks).toEqual(['headers', 'index']);
    expect(await printed(['verify', folder, '--headers-only'])).toBe(
      'no problems; checked: headers, index\n',
    );
  });

  it('lists every problem of a checkpoint, bad files among them', async () => {
    const [embed, weight] = TWO_SHARDS.shards[FIRST] ?? [];
    const folder = writeCheckpoint({
      metadata: { total_size: 1 },
      shards: {
        ...TWO_SHARDS.shards,
        'model-00003-of-00003.safetensors': embed === undefined ? [] : [embed],
        'model-00004-of-00004.safetensors': [],
      },
      weightMap: {
        embed: FIRST,
        'a.weight': FIRST,
        'b.weight': SECOND,
        gone: SECOND,
        'lost\x1b[2J': FIRST,
        x: 'model-00003-of-00003.safetensors',
        y: 'model-00004-of-00004.safetensors',
      },
    });
    expect(weight?.name).toBe('a.weight');
    truncateSync(join(folder, 'model-00004-of-00004.safetensors'), 4);
    const { code, stdout } = await call(['verify', folder], { columns: 80 });
    expect(code).toBe(1);
    await expect(stdout.replaceAll(folder, 'DIR')).toMatchFileSnapshot(golden('verify'));
    const { problems } = await verified(folder);
    expect(problems.length).toBe(stdout.trimEnd().split('\n').length - 1);
  });

  it('goes on after a file that is missing', async () => {
    const folder = writeCheckpoint({
      ...TWO_SHARDS,
      weightMap: { embed: FIRST, gone: FIRST, 'a.weight': FIRST, 'b.weight': `./${SECOND}` },
    });
    rmSync(join(folder, SECOND));
    const { code, checks, problems } = await verified(folder);
    expect(code).toBe(1);
    expect(checks).toEqual(['headers', 'index']);
    expect(problems).toEqual([
      {
        file: FIRST,
        tensor: 'gone',
        code: 'SAFETENSORS_INDEX_MISMATCH',
        message: 'tensor "gone" of the index is missing',
      },
      {
        file: SECOND,
        tensor: null,
        code: 'ENOENT',
        message: expect.stringMatching(/^no such file or directory, /),
      },
    ]);
  });

  it('goes on after bad files of a PyTorch checkpoint', async () => {
    const folder = temporaryPath('torch');
    const index = writeBelow(
      folder,
      'pytorch_model.bin.index.json',
      '{"weight_map":{"v":"a.bin","w":"b.bin"}}',
    );
    writeBelow(folder, 'b.bin', 'junk');
    const { code, checks, problems } = await verified(index);
    expect([code, checks]).toEqual([1, ['headers', 'index']]);
    expect(problems.map((problem) => [problem.file, problem.code])).toEqual([
      ['a.bin', 'ENOENT'],
      ['b.bin', 'SAFETENSORS_FOREIGN_FORMAT'],
    ]);
    expect((await call(['verify', index])).stdout).not.toContain(join(folder, 'b.bin'));
  });

  // Root may read everything.
  it.skipIf(process.platform === 'win32' || process.getuid?.() === 0)(
    'goes on after a file that may not be read',
    async () => {
      const folder = writeCheckpoint({ ...TWO_SHARDS, metadata: {} });
      chmodSync(join(folder, FIRST), 0);
      const unreadable = [{ file: FIRST, code: 'EACCES' }];
      expect((await verified(folder)).problems).toMatchObject(unreadable);
      expect((await verified(join(folder, FIRST))).problems).toMatchObject(unreadable);
    },
  );

  // The system lets nobody read it, not even root.
  it.runIf(existsSync('/sys/bus/platform/uevent'))(
    'names the file of a folder that cannot be read',
    async () => {
      const folder = temporaryPath('torch');
      mkdirSync(folder);
      symlinkSync('/sys/bus/platform/uevent', join(folder, 'pytorch_model.bin'));
      const { code, problems } = await verified(folder);
      expect(code).toBe(1);
      expect(problems).toMatchObject([
        { file: 'pytorch_model.bin', code: expect.stringMatching(/^(?:EACCES|EIO)$/) },
      ]);
    },
  );

  it('compares total_size', async () => {
    const folder = writeCheckpoint({ ...TWO_SHARDS, metadata: { total_size: 1 } });
    expect((await verified(folder)).problems).toEqual([
      {
        file: 'model.safetensors.index.json',
        tensor: null,
        code: 'SAFETENSORS_INDEX_MISMATCH',
        message: 'total_size is 1, but the tensors have 34 bytes',
      },
    ]);
  });

  it('compares what is declared, unless it shall be quick', async () => {
    const metadata = { 'modelspec.hash_sha256': '0xab' };
    const path = writeTemporary(LAYERED, { metadata });
    expect(await verified(path)).toMatchObject({
      code: 1,
      problems: [{ code: 'SAFETENSORS_VERIFICATION_FAILED' }],
    });
    expect(await verified(path, '--headers-only')).toMatchObject({ code: 0, checks: ['headers'] });
  });

  it('says what is wrong with a file that cannot be opened', async () => {
    const path = temporaryPath('bad.safetensors');
    writeFileSync(path, 'x');
    expect((await verified(path)).problems).toMatchObject([
      { code: 'SAFETENSORS_HEADER_TOO_SMALL' },
    ]);
    expect((await call(['verify', `${path}.missing`])).code).toBe(1);
    expect((await call(['verify', `${path}.missing`])).stdout).toBe('');
  });

  it('verifies all models of a pipeline', async () => {
    const folder = temporaryPath('pipeline');
    const bytes = fileBytes([{ name: 'w', dtype: 'U8', shape: [2] }], {
      metadata: { 'modelspec.hash_sha256': '0x' },
    });
    writeBelow(folder, 'model_index.json', '{}');
    for (const name of ['unet', 'vae']) writeBelow(folder, `${name}/model.safetensors`, bytes);
    expect((await verified(folder)).problems.map(({ file }) => file)).toEqual([
      'unet/model.safetensors',
      'vae/model.safetensors',
    ]);
  });

  it('compares the checksums of archives', async () => {
    const torch = join(root, 'test/fixtures/torch');
    expect(await verified(join(torch, 'zip-state-dict.pt'))).toMatchObject({
      ...{ code: 0, checks: ['headers', 'checksums'] },
    });
    const wrong = join(torch, 'np-x-npz-crc.npz');
    expect((await verified(wrong)).code).toBe(1);
    expect(await verified(wrong, '--headers-only')).toEqual({
      ...{ code: 0, checks: ['headers'], problems: [] },
    });
  });
});
