/** Downloads of files selected by patterns. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { FilePatterns } from '../../../src/file/hub/file-patterns.js';
import { REPOSITORY_RECORD } from '../../../src/platform/io/temporary-names.js';
import { type DownloadPlan, runDownload } from '../../../src/remote/download/run-download.js';
import { download, safeOpen } from '../../support/api.js';
import { useHub as useHubOfEnvironment } from '../../support/hub-environment.js';
import type { Files } from '../../support/hub-server.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { findPython, isSkipped, titleWith } from '../../support/python.js';
import {
  breakingFetch,
  downloadFrom,
  emptyFolder,
  LARGE_BYTE_LENGTH,
  SHARDED,
  settingsOf,
  useHub,
} from './downloads.js';

const python = findPython('huggingface_hub');

/** A file with one tensor of this value. */
function shard(name: string, value: number): Uint8Array {
  return fileBytes([{ name, dtype: 'U8', shape: [1], bytes: Uint8Array.of(value) }]);
}

/** Two shards with tensors of this value, and their index. */
function model(value: number, prefix = ''): Files {
  return {
    [`${prefix}model-00001-of-00002.safetensors`]: shard('a', value),
    [`${prefix}model-00002-of-00002.safetensors`]: shard('b', value),
    [`${prefix}model.safetensors.index.json`]: JSON.stringify({
      metadata: { total_size: 2 },
      weight_map: {
        a: 'model-00001-of-00002.safetensors',
        b: 'model-00002-of-00002.safetensors',
      },
    }),
  };
}

const MIXED: Files = {
  ...SHARDED,
  '.gitattributes': '*.safetensors filter=lfs',
  'README.md': '# all',
  'onnx/config.json': '{}',
  'onnx/model.onnx': 'a graph',
  'onnx/deep/er/model.onnx_data': 'weights of a graph',
  'checkpoints/one/a.bin': 'one',
  'a name [1].json': '[]',
  'größe/模型.txt': 'text',
};

const hub = useHub({
  'org/mixed': { files: MIXED, revisions: { v2: { 'only.txt': '2' } } },
  'datasets/org/data': {
    files: { 'train/0.parquet': 'rows', 'train/1.parquet': 'more', 'card.md': '' },
  },
  'spaces/org/app': { files: { 'app.py': 'print()', 'assets/logo.png': 'picture' } },
  'org/models': { files: { ...model(1), ...model(1, 'deep/'), 'config.json': '{}' } },
  'org/outside': { files: { 'fine.txt': '', '../../outside.txt': 'bad' } },
  'org/encoded': { files: { 'fine.txt': '', '%2e%2e/%2e%2e/outside.txt': 'bad' } },
  'org/git': { files: { 'fine.txt': '', '.git/hooks/post-checkout': 'bad' } },
  'org/broken': {
    files: {
      'model.safetensors.index.json': '{"weight_map": ',
      'x{1}.safetensors.index.json': '{"weight_map":{"a":"a.safetensors"}}',
      'a.safetensors': shard('a', 1),
    },
  },
});

afterEach(() => vi.unstubAllEnvs());

/** Paths of the files below a folder. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && entry.name !== REPOSITORY_RECORD)
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

function expectFiles(folder: string, files: Files, names: readonly string[]): void {
  expect(filesBelow(folder)).toEqual([...names].sort());
  for (const name of names) {
    const expected = Buffer.from(files[name] as string);
    expect(readFileSync(join(folder, name)).equals(expected), name).toBe(true);
  }
}

function namesOf(files: readonly { readonly name: string }[]): string[] {
  return files.map(({ name }) => name).sort();
}

async function planned(source: string, options: FilePatterns, target = 'x'): Promise<DownloadPlan> {
  const all = { durable: false, dryRun: true, ...options };
  return (await runDownload(source, target, all, settingsOf(hub()))) as DownloadPlan;
}

describe('files of a repository', () => {
  it.each<[string, FilePatterns, readonly string[]]>([
    ['all', { files: '*' }, Object.keys(MIXED)],
    [
      'those of patterns that cross folders',
      { files: ['*.json', 'onnx/'], ignore: ['*token*', '*_data'] },
      [
        'a name [1].json',
        'config.json',
        'model.safetensors.index.json',
        'onnx/config.json',
        'onnx/model.onnx',
      ],
    ],
    [
      'all but some',
      { ignore: ['*.safetensors', '*/*'] },
      Object.keys(MIXED).filter((name) => !/\.safetensors$|\//.test(name)),
    ],
  ])('are downloaded byte for byte: %s', async (_, options, names) => {
    const folder = temporaryPath('files');
    const plan = await planned('hf://org/mixed', options, folder);
    expect(existsSync(folder)).toBe(false);
    const result = await downloadFrom(hub(), 'hf://org/mixed', folder, options);
    expectFiles(folder, MIXED, names);
    expect(namesOf(result.files)).toEqual([...names].sort());
    expect(namesOf(plan.files)).toEqual([...names].sort());
    expect([plan.byteLength, plan.commit]).toEqual([result.byteLength, result.commit]);
    expect(result).toMatchObject({ path: folder, deleted: [], failedDeletions: [], skipped: [] });
    expect(result.commit).toBe(hub().commit('org/mixed'));

    hub().requests.length = 0;
    const again = await downloadFrom(hub(), 'hf://org/mixed', folder, options);
    expect([again.downloadedBytes, again.reusedBytes > 0]).toEqual([0, true]);
    expect(hub().requests.every(({ path }) => path.startsWith('/api/'))).toBe(true);
    expectFiles(folder, MIXED, names);
  });

  it('are those of a folder, by their paths below it', async () => {
    const folder = temporaryPath('files');
    const result = await downloadFrom(hub(), 'hf://org/mixed/onnx', folder, { files: '*.onnx*' });
    expect(filesBelow(folder)).toEqual(['deep/er/model.onnx_data', 'model.onnx']);
    expect(namesOf(result.files)).toEqual(['deep/er/model.onnx_data', 'model.onnx']);
  });

  it('are those of a revision', async () => {
    const folder = temporaryPath('files');
    await downloadFrom(hub(), 'hf://org/mixed', folder, { files: '*', revision: 'v2' });
    expect(filesBelow(folder)).toEqual(['only.txt']);
  });

  it.each([
    ['hf://datasets/org/data', ['train/0.parquet', 'train/1.parquet']],
    ['hf://spaces/org/app', ['app.py', 'assets/logo.png']],
  ])('are those of %s', async (source, names) => {
    const folder = temporaryPath('files');
    await downloadFrom(hub(), source, folder, { files: ['train/*', 'app.py', '*.png'] });
    expect(filesBelow(folder)).toEqual(names);
    const file = await downloadFrom(hub(), `${source}/${names[1]}`, temporaryPath('one-file'));
    expect(readFileSync(file.path, 'utf8')).toMatch(/more|picture/);
  });

  it('come in lists of several pages', async () => {
    hub().entriesPerPage = 3;
    try {
      const folder = temporaryPath('files');
      await downloadFrom(hub(), 'hf://org/mixed', folder, { files: '*' });
      expectFiles(folder, MIXED, Object.keys(MIXED));
    } finally {
      hub().entriesPerPage = 1000;
    }
  });

  it('go into the cache, where the model and all else is found', async () => {
    const cache = temporaryPath('cache');
    vi.stubEnv('HF_HUB_CACHE', cache);
    const plan = await planned('hf://org/mixed', { files: '*' }, 'cache');
    const result = await downloadFrom(hub(), 'hf://org/mixed', 'cache', { files: '*' });
    expect(result.path).toBe(plan.path);
    for (const [name, content] of Object.entries(MIXED)) {
      const found = readFileSync(join(result.path, name));
      expect(found.equals(Buffer.from(content as string)), name).toBe(true);
    }
    using checkpoint = safeOpen('org/mixed');
    expect(checkpoint.keys()).toEqual(['embed', 'norm']);
  });

  it('go on where a connection broke', async () => {
    const folder = temporaryPath('files');
    const options = { files: '*.safetensors' };
    const cut = downloadFrom(hub(), 'hf://org/mixed', folder, {
      ...options,
      fetch: breakingFetch(9_000_000),
    });
    await expect(cut).rejects.toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
    const { reusedBytes, downloadedBytes } = await downloadFrom(
      hub(),
      'hf://org/mixed',
      folder,
      options,
    );
    expect(reusedBytes).toBeGreaterThan(3_000_000);
    expect(downloadedBytes).toBeLessThan(LARGE_BYTE_LENGTH - 3_000_000 + 1000);
    const names = Object.keys(MIXED).filter((name) => name.endsWith('.safetensors'));
    expectFiles(folder, MIXED, names);
  });

  it('tell their progress, and end when they are aborted', async () => {
    const folder = temporaryPath('files');
    const controller = new AbortController();
    const seen: number[] = [];
    const options = { files: '*', signal: controller.signal };
    const aborted = downloadFrom(hub(), 'hf://org/mixed', folder, {
      ...options,
      onProgress: ({ bytes }) => {
        seen.push(bytes);
        if (bytes > 0) controller.abort(new Error('enough'));
      },
    });
    await expect(aborted).rejects.toThrow('enough');
    expect(seen.length).toBeGreaterThan(0);
    const whole: [number, number][] = [];
    await downloadFrom(hub(), 'hf://org/mixed', folder, {
      files: '*',
      onProgress: ({ bytes, totalBytes }) => whole.push([bytes, totalBytes]),
    });
    const [bytes, totalBytes] = whole.at(-1) as [number, number];
    expect(bytes).toBe(totalBytes);
    expectFiles(folder, MIXED, Object.keys(MIXED));
  });
});

describe('files that are there', () => {
  it('stay, also those of another model', async () => {
    const folder = emptyFolder('files');
    writeFileSync(join(folder, 'notes.txt'), 'mine');
    writeFileSync(join(folder, 'model.safetensors'), shard('old', 1));
    writeFileSync(join(folder, 'model-00001-of-00003.safetensors'), shard('old', 1));
    const options = { files: '*' };
    expect((await planned('hf://org/models', options, folder)).deleted).toEqual([]);
    const { deleted } = await downloadFrom(hub(), 'hf://org/models', folder, options);
    expect(deleted).toEqual([]);
    expect(filesBelow(folder)).toEqual(
      [
        ...Object.keys({ ...model(1), ...model(1, 'deep/') }),
        'config.json',
        'model-00001-of-00003.safetensors',
        'model.safetensors',
        'notes.txt',
      ].sort(),
    );
    hub().requests.length = 0;
    await downloadFrom(hub(), 'hf://org/models', folder, options);
    expect(hub().requests.every(({ path }) => path.startsWith('/api/'))).toBe(true);
  });

  it('are a whole model at every moment, also in folders', async () => {
    const folder = temporaryPath('files');
    const read = (place: string): number[] => {
      using checkpoint = safeOpen(join(folder, place));
      return ['a', 'b'].map((name) => Number(checkpoint.getTensor(name).data[0]));
    };
    const files = '*';
    await downloadFrom(hub(), 'hf://org/models', folder, { files });
    const last = nightly(7, 3);
    for (let value = 2; value <= last; value++) {
      hub().put('org/models', {
        files: { ...model(value), ...model(value, 'deep/'), 'config.json': `{"n":${value}}` },
      });
      let isDone = false;
      const done = downloadFrom(hub(), 'hf://org/models', folder, { files }).finally(() => {
        isDone = true;
      });
      while (!isDone) {
        for (const place of ['', 'deep']) {
          const [a, b] = read(place);
          expect(a).toBe(b);
          expect([value - 1, value]).toContain(a);
        }
        await setImmediate();
      }
      await done;
      expect([read(''), read('deep')]).toEqual([
        [value, value],
        [value, value],
      ]);
    }
  });

  it('are not reached through links', async () => {
    const folder = emptyFolder('files');
    const outside = emptyFolder('outside');
    symlinkSync(outside, join(folder, 'onnx'));
    const options = { files: 'onnx/' };
    const call = downloadFrom(hub(), 'hf://org/mixed', folder, options);
    await expect(call).rejects.toMatchObject({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
    expect(filesBelow(outside)).toEqual([]);
  });
});

describe('what is refused', () => {
  it.each(['outside', 'encoded', 'git'])('names: %s', async (name) => {
    const folder = join(emptyFolder('above'), 'deep', 'files');
    const call = downloadFrom(hub(), `hf://org/${name}`, folder, { files: '*' });
    await expect(call).rejects.toMatchObject({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
    expect(existsSync(folder)).toBe(false);
    // What is not chosen does no harm.
    await downloadFrom(hub(), `hf://org/${name}`, folder, { files: 'fine.txt' });
    expect(filesBelow(folder)).toEqual(['fine.txt']);
  });

  it('patterns that match nothing', async () => {
    const folder = temporaryPath('files');
    const call = downloadFrom(hub(), 'hf://org/mixed', folder, { files: [] });
    await expect(call).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
      message: expect.stringContaining('expected files that match the patterns'),
    });
    expect(existsSync(folder)).toBe(false);
  });

  it('patterns for a file, or for another server', async () => {
    for (const source of ['hf://org/mixed/config.json', `${hub().url}/files/x.json`]) {
      const call = downloadFrom(hub(), source, temporaryPath('files'), { ignore: '*.md' });
      await expect(call, source).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    }
  });

  it.each([
    [{ files: 7 }, 'files must be a pattern'],
    [{ ignore: ['*.md', null] }, 'ignore must be a pattern'],
    [{ files: '*', names: ['a'] }, 'names must be left out with files'],
    [{ files: '*', ignore: 'x', dtype: 'F16' }, 'dtype must be left out with files and ignore'],
    [{ ignore: '*', maxShardSize: '1GB' }, 'maxShardSize must be left out'],
    [{ files: '*', variant: 'fp16' }, 'variant must be left out'],
  ])('options: %j', async (options, message) => {
    useHubOfEnvironment(hub().url);
    const call = download('hf://org/mixed', temporaryPath('files'), options as object);
    await expect(call).rejects.toThrow(message);
  });

  it('a list that leaves out the files of folders', async () => {
    const flat: typeof fetch = async (input, init) =>
      await fetch(String(input).replace('recursive=true', ''), init);
    const options = { files: '*.md', fetch: flat };
    const call = downloadFrom(hub(), 'hf://org/mixed', temporaryPath('files'), options);
    await expect(call).rejects.toMatchObject({ code: 'SAFETENSORS_BAD_RESPONSE' });
  });
});

it('takes indexes that are malformed, or of names of their own, as files', async () => {
  const folder = temporaryPath('files');
  await downloadFrom(hub(), 'hf://org/broken', folder, { files: '*' });
  expect(filesBelow(folder)).toEqual([
    'a.safetensors',
    'model.safetensors.index.json',
    'x{1}.safetensors.index.json',
  ]);
});

it('advises patterns for a repository without a model', async () => {
  const call = downloadFrom(hub(), 'hf://datasets/org/data', temporaryPath('files'));
  await expect(call).rejects.toMatchObject({
    code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    message: expect.stringContaining('`files` of download takes any files'),
  });
});

describe.skipIf(isSkipped(python))(titleWith(python, 'beside snapshot_download'), () => {
  /** Runs the library in another process, since the Hub runs in this one. */
  async function snapshot(folder: string, patterns: FilePatterns): Promise<void> {
    const program = `
import json, sys
from huggingface_hub import snapshot_download
patterns = json.loads(sys.argv[2])
snapshot_download('org/mixed', local_dir=sys.argv[1], allow_patterns=patterns.get('files'),
                  ignore_patterns=patterns.get('ignore'), max_workers=2)
`;
    const child = spawn(
      String(python.executable),
      ['-c', program, folder, JSON.stringify(patterns)],
      {
        env: {
          ...process.env,
          // The library takes ports of one host for one server.
          HF_ENDPOINT: hub().url.replace('127.0.0.1', 'localhost'),
          HF_HUB_CACHE: temporaryPath('python-cache'),
          HF_HUB_DISABLE_XET: '1',
          HF_HUB_DISABLE_PROGRESS_BARS: '1',
        },
      },
    );
    const [complaint] = await Promise.all([
      text(child.stderr),
      child.exitCode ?? once(child, 'exit'),
    ]);
    if (child.exitCode !== 0) throw new Error(complaint);
  }

  it.each<FilePatterns>([
    { files: '*' },
    { files: ['*.json', 'onnx/'], ignore: '*/deep/*' },
    { ignore: ['*.safetensors', '[!a-o]*'] },
  ])('gets the same files: %j', async (patterns) => {
    const [theirs, ours] = [emptyFolder('theirs'), temporaryPath('ours')];
    await snapshot(theirs, patterns);
    await downloadFrom(hub(), 'hf://org/mixed', ours, patterns);
    const expected = filesBelow(theirs).filter((name) => !name.startsWith('.cache/'));
    expect(expected.length).toBeGreaterThan(2);
    expect(filesBelow(ours)).toEqual(expected);
    for (const name of expected) {
      expect(readFileSync(join(ours, name)).equals(readFileSync(join(theirs, name))), name).toBe(
        true,
      );
    }
  });
});

it('replaces no folder of the name of a file', async () => {
  const folder = emptyFolder('files');
  mkdirSync(join(folder, 'README.md'));
  const call = downloadFrom(hub(), 'hf://org/mixed', folder, { files: '*.md' });
  await expect(call).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE' });
});
