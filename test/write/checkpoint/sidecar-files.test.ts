/** Config, tokenizer and other files that `convert` carries along. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { convert, safeOpen } from '../../support/api.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { runChild } from '../../support/run-child.js';
import { contentOf, filesOf } from '../../support/saved-tensors.js';

const options = { durable: false, maxShardSize: Number.POSITIVE_INFINITY, copyOtherFiles: true };
const SINGLE = 'model.safetensors';
const INDEX = `${SINGLE}.index.json`;

/** Files that model folders have next to their weights. */
const CARRIED = [
  'LICENSE',
  'README.md',
  'chat_template.jinja',
  'config.json',
  'generation_config.json',
  'merges.txt',
  'modeling_custom.py',
  'special_tokens_map.json',
  'tokenizer.json',
  'tokenizer.model',
  'tokenizer_config.json',
  'vocab.txt',
];

/** Weights of other formats, their indexes, and files of tools. */
const LEFT = [
  '.gitattributes',
  '.safetensors-mmap-0123456789abcdef.tmp',
  'adapter_model.safetensors',
  'consolidated.00.pth',
  'flax_model.msgpack',
  'model.Q4_K_M.gguf',
  'model.onnx',
  'model.onnx_data',
  'model.safetensors.index.fp16.json',
  'optimizer.pt',
  'pytorch_model-00001-of-00002.BIN',
  'pytorch_model.bin.index.json',
  'rust_model.ot',
  'tf_model.h5',
];

/** A model's folder with other files, whose content is their name. */
function modelFolder(names: readonly string[] = CARRIED): string {
  const folder = writeCheckpoint(TWO_SHARDS, temporaryPath('source'));
  for (const name of names) writeBelow(folder, name, name);
  return folder;
}

function refusal(code: string): unknown {
  return expect.objectContaining({ code });
}

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('convert with copyOtherFiles', () => {
  it('copies all files that are no weights', async () => {
    const source = modelFolder([...CARRIED, ...LEFT]);
    writeBelow(source, 'empty.txt', '');
    const target = temporaryPath('target');
    const { files, copied, skipped } = await convert(source, target, options);
    expect([files, skipped]).toEqual([[SINGLE], []]);
    expect(copied).toEqual([...CARRIED, 'empty.txt'].sort());
    const { [SINGLE]: model, ...others } = Object.fromEntries(filesOf(target));
    const expected = Object.fromEntries(CARRIED.map((name) => [name, name]));
    expect(others).toEqual({ ...expected, 'empty.txt': '' });
    expect(model).toBeDefined();
    expect(await contentOf(target)).toEqual(await contentOf(source));
  });

  it('copies none unless asked', async () => {
    const target = temporaryPath('target');
    const { copied } = await convert(modelFolder(), target, { durable: false });
    expect([copied, readdirSync(target).length]).toEqual([[], 1]);
  });

  it('leaves them in a folder that is source and target', async () => {
    const folder = modelFolder();
    const { copied } = await convert(folder, join(folder, '..', 'source'), options);
    expect(copied).toEqual([]);
    expect(readdirSync(folder).sort()).toEqual([...CARRIED, SINGLE].sort());
    expect(readFileSync(join(folder, 'config.json'), 'utf8')).toBe('config.json');
  });

  it('tells of folders and large files, which stay behind', async () => {
    const source = modelFolder(['config.json', '1_Pooling/config.json']);
    truncateSync(writeBelow(source, 'small', ''), 2 ** 20);
    truncateSync(writeBelow(source, 'weights.unknown', ''), 256 * 2 ** 20 + 1);
    const { copied, skipped } = await convert(source, temporaryPath('target'), options);
    expect(copied).toEqual(['config.json', 'small']);
    expect(skipped).toEqual(['1_Pooling', 'weights.unknown']);
  });

  it.skipIf(process.platform === 'win32')('waits for no named pipe', async () => {
    const source = modelFolder(['config.json']);
    execFileSync('mkfifo', [join(source, 'pipe')]);
    const { copied, skipped } = await convert(source, temporaryPath('target'), options);
    expect([copied, skipped]).toEqual([['config.json'], ['pipe']]);
  });

  it('takes the folder of an index and of a single file', async () => {
    const source = modelFolder(['config.json']);
    const target = temporaryPath('target');
    const { copied } = await convert(join(source, INDEX), target, options);
    const again = await convert(join(target, SINGLE), temporaryPath('again'), options);
    expect([copied, again.copied]).toEqual([['config.json'], ['config.json']]);
  });

  it('follows the links of a snapshot in the cache of the Hub', async () => {
    const cache = temporaryPath('cache');
    const repository = join(cache, 'models--org--name');
    const commit = 'a'.repeat(40);
    const snapshot = join(repository, 'snapshots', commit);
    writeBelow(repository, 'refs/main', commit);
    writeCheckpoint(TWO_SHARDS, snapshot);
    writeBelow(repository, 'blobs/0123', '{"model_type":"x"}');
    symlinkSync('../../blobs/0123', join(snapshot, 'config.json'));
    vi.stubEnv('HF_HUB_CACHE', cache);
    const target = temporaryPath('target');
    expect((await convert('org/name', target, options)).copied).toEqual(['config.json']);
    rmSync(cache, { recursive: true });
    expect(readFileSync(join(target, 'config.json'), 'utf8')).toBe('{"model_type":"x"}');
  });

  it('refuses links out of the folder, and those that lead nowhere', async () => {
    const target = temporaryPath('target');
    const source = modelFolder(['config.json']);
    const secret = writeBelow(temporaryPath('elsewhere'), 'secret', 'key');
    symlinkSync(secret, join(source, 'vocab.txt'));
    await expect(convert(source, target, options)).rejects.toThrow(
      refusal('SAFETENSORS_UNSAFE_SHARD_NAME'),
    );
    rmSync(join(source, 'vocab.txt'));
    symlinkSync('nowhere', join(source, 'vocab.txt'));
    await expect(convert(source, target, options)).rejects.toThrow(refusal('ENOENT'));
    expect(() => statSync(target)).toThrow(refusal('ENOENT'));
  });

  it('replaces a file of that name, but not its permissions, and no other file', async () => {
    const source = modelFolder(['config.json']);
    const target = temporaryPath('target');
    const config = writeBelow(target, 'config.json', 'old');
    writeBelow(target, 'notes.txt', 'mine');
    const elsewhere = writeBelow(temporaryPath('elsewhere'), 'README.md', 'kept');
    writeBelow(source, 'README.md', 'new');
    symlinkSync(elsewhere, join(target, 'README.md'));
    chmodSync(config, 0o600);
    await convert(source, target, options);
    expect(readFileSync(config, 'utf8')).toBe('config.json');
    if (process.platform !== 'win32') expect(statSync(config).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(target, 'notes.txt'), 'utf8')).toBe('mine');
    // Links are replaced, not followed, as those of shards.
    expect(readFileSync(elsewhere, 'utf8')).toBe('kept');
    expect(readFileSync(join(target, 'README.md'), 'utf8')).toBe('new');
  });

  it('leaves the target as it was when something fails', async () => {
    const source = modelFolder(['a.txt', 'config.json']);
    const target = writeCheckpoint(TWO_SHARDS, temporaryPath('target'));
    writeBelow(target, 'config.json', 'old');
    const before = filesOf(target);
    const onProgress = (): never => {
      throw new Error('enough');
    };
    const ended = convert(source, target, { ...options, overwrite: true, onProgress });
    await expect(ended).rejects.toThrow('enough');
    expect(filesOf(target)).toEqual(before);
    mkdirSync(join(target, 'a.txt'));
    await expect(convert(source, target, options)).rejects.toThrow(
      refusal('SAFETENSORS_NOT_A_REGULAR_FILE'),
    );
    rmSync(join(target, 'a.txt'), { recursive: true });
    expect(filesOf(target)).toEqual(before);
  });

  it('counts them as progress', async () => {
    const source = modelFolder(['config.json']);
    const { size } = statSync(join(source, 'config.json'));
    const totals = new Set<number>();
    const last: number[] = [];
    const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }): void => {
      totals.add(totalBytes);
      last.splice(0, 1, bytes);
    };
    await convert(source, temporaryPath('without'), { durable: false, onProgress });
    const [without = 0] = totals;
    await convert(source, temporaryPath('with'), { ...options, onProgress });
    expect([...totals]).toEqual([without, without + size]);
    expect(last).toEqual([without + size]);
  });

  it('checks the option', async () => {
    const asked = { copyOtherFiles: 'yes' as unknown as boolean };
    await expect(convert(modelFolder(), temporaryPath('target'), asked)).rejects.toThrow(
      refusal('ERR_INVALID_ARG_TYPE'),
    );
  });

  it('killed before each call that changes a name: the old checkpoint keeps its config', async () => {
    const source = modelFolder(['config.json', 'new.json']);
    const content = await contentOf(source);
    const found: string[] = [];
    for (let call = 1; ; call++) {
      const target = temporaryPath('killed');
      rmSync(target, { recursive: true, force: true });
      const tensor = { name: 'old', dtype: 'U8', shape: [4] } as const;
      const shards = { 'model-00001-of-00001.safetensors': [tensor] };
      writeCheckpoint({ shards }, target);
      writeBelow(target, 'config.json', 'old');
      const { signal, stderr } = await runChild(
        'write/checkpoint/children/convert-until-call.mjs',
        [source, target, `${call}`],
      );
      using checkpoint = safeOpen(target);
      const config = readFileSync(join(target, 'config.json'), 'utf8');
      found.push(`${checkpoint.keys().includes('old') ? 'old' : 'new'} ${config}`);
      await convert(source, target, { ...options, overwrite: true });
      expect(await contentOf(target)).toEqual(content);
      expect(readdirSync(target).sort()).toEqual(['config.json', SINGLE, 'new.json']);
      if (signal === null) {
        expect(stderr).toBe('');
        break;
      }
    }
    // Each moment once, in this order.
    const moments = found.filter((state, i) => state !== found[i - 1]);
    expect(moments).toEqual(['old old', 'new old', 'new config.json']);
  });
});
