/** Downloads of one file, in every state that an earlier or parallel download may leave. */
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { safeOpen, type TransferProgress } from '../../support/api.js';
import {
  breakingFetch,
  downloadFrom,
  emptyFolder,
  LARGE_BYTE_LENGTH,
  namesIn,
  SINGLE,
  startedNoise,
  useHub,
} from './downloads.js';
import { FileServer } from './file-server.js';

const MODEL = SINGLE['model.safetensors'] as Uint8Array;

const hub = useHub({
  'org/single': { files: SINGLE },
  // Its hash is not that of its bytes.
  'org/wrong': {
    files: { 'model.safetensors': { start: MODEL.subarray(0, 1000), byteLength: 5000 } },
  },
  'org/huge': {
    files: { 'model.safetensors': { start: MODEL.subarray(0, 1000), byteLength: 50_000_000_001 } },
  },
});

/** The target holds other weights. */
const REPLACING = { overwrite: true };

let server: FileServer;
beforeAll(async () => {
  server = await FileServer.start();
});
afterAll(() => server.close());

let folder = '';
let path = '';
beforeEach(() => {
  folder = emptyFolder('target');
  path = join(folder, 'my.safetensors');
  server.files.set('model.safetensors', { bytes: MODEL, tag: '"one"' });
});

const source = 'hf://org/single/model.safetensors';
const url = (): string => server.url('model.safetensors?X-Amz-Signature=secret');

function isWhole(bytes: Uint8Array = MODEL): boolean {
  return readFileSync(path).equals(bytes);
}

it.each(['hf', 'url'])(
  'finds the file that another process has put into its place: %s',
  async (kind) => {
    let moves = 0;
    const onProgress = ({ bytes, totalBytes }: TransferProgress): void => {
      const partial = namesIn(folder).find((name) => name.endsWith('.incomplete'));
      if (bytes < totalBytes || partial === undefined) return;
      moves++;
      renameSync(join(folder, partial), path);
    };
    await downloadFrom(hub(), kind === 'hf' ? source : url(), path, { onProgress });
    expect([moves, isWhole()]).toEqual([1, true]);
  },
);

it('copies one file of the Hub, and leaves nothing beside it', async () => {
  const result = await downloadFrom(hub(), source, path);
  expect(result).toEqual({
    path,
    files: [{ name: 'model.safetensors', path, byteLength: MODEL.length }],
    commit: hub().commit('org/single'),
    index: null,
    byteLength: MODEL.length,
    totalSize: null,
    downloadedBytes: MODEL.length,
    reusedBytes: 0,
    deleted: [],
    failedDeletions: [],
    replaced: [],
    repaired: [],
    skipped: [],
    conflicts: [],
    configMismatches: [],
    cast: [],
    dequantized: [],
    notCast: [],
    overflowed: new Map(),
    excluded: [],
    duplicates: [],
  });
  expect([isWhole(), namesIn(folder)]).toEqual([true, ['my.safetensors']]);
  const again = await downloadFrom(hub(), source, path);
  expect([again.downloadedBytes, again.reusedBytes]).toEqual([0, MODEL.length]);
});

it('takes a file that is no safetensors file', async () => {
  await downloadFrom(hub(), 'hf://org/single/config.json', path);
  expect(readFileSync(path, 'latin1')).toBe(SINGLE['config.json']);
});

it('knows by ETag what it has downloaded from any server', async () => {
  const { commit } = await downloadFrom(hub(), url(), path);
  expect([commit, isWhole()]).toEqual([null, true]);
  expect(namesIn(folder).map((name) => name.replace(/[0-9a-f]{16}/, '…'))).toEqual([
    '.safetensors-mmap-….downloaded',
    'my.safetensors',
  ]);
  server.sentByteLength = 0;
  const { reusedBytes } = await downloadFrom(hub(), url(), path);
  // The bytes by which its kind is known.
  expect([reusedBytes, server.sentByteLength]).toEqual([MODEL.length, 512]);
  const files = namesIn(folder).map((name) => readFileSync(join(folder, name), 'latin1'));
  expect(files.join().includes('secret')).toBe(false);
});

it('downloads again what was changed here', async () => {
  await downloadFrom(hub(), url(), path);
  appendFileSync(path, 'more');
  const { downloadedBytes } = await downloadFrom(hub(), url(), path, REPLACING);
  expect([downloadedBytes, isWhole()]).toEqual([MODEL.length, true]);
});

async function breakAt(from: string, byteLength = 9_000_000): Promise<void> {
  const options = { fetch: breakingFetch(byteLength), ...REPLACING };
  await expect(downloadFrom(hub(), from, path, options)).rejects.toThrow('the line is cut');
}

it('goes on by a strong ETag, also with a URL that was signed anew', async () => {
  await breakAt(url());
  expect(namesIn(folder)).toEqual([expect.stringMatching(/\.incomplete$/)]);
  const { reusedBytes } = await downloadFrom(
    hub(),
    server.url('model.safetensors?X-Amz-Signature=other&X-Amz-Date=2'),
    path,
  );
  expect([reusedBytes > 3_000_000, isWhole()]).toEqual([true, true]);
});

it('starts over when the ETag has changed, and removes what it had', async () => {
  await breakAt(url());
  const other = startedNoise(5_000_000, 2);
  server.files.set('model.safetensors', { bytes: other, tag: '"two"' });
  const { reusedBytes } = await downloadFrom(hub(), url(), path);
  expect([reusedBytes, isWhole(other)]).toEqual([0, true]);
  expect(namesIn(folder)).toHaveLength(2);
});

const ONE = startedNoise(9_000_000, 4);
const OTHER = startedNoise(9_000_000, 5);
const SHORTER = startedNoise(8_999_999, 6);

/** Two files of one name, ETag and length, told apart by the query or by when they were changed. */
function serveTwo(first: string, second: string): void {
  server.files.set(first, { bytes: ONE, tag: '"same"', modified: 'Sun, 01 Nov 2026 00:00:00 GMT' });
  server.files.set(second, {
    bytes: OTHER,
    tag: '"same"',
    modified: 'Mon, 02 Nov 2026 00:00:00 GMT',
  });
}

it('fetches what another query names, also of the same ETag and length', async () => {
  serveTwo('get?file=a', 'get?file=b');
  await downloadFrom(hub(), server.url('get?file=a'), path);
  await downloadFrom(hub(), server.url('get?file=b'), path, REPLACING);
  expect(isWhole(OTHER)).toBe(true);
  // Nor does it go on with a part of the one.
  await breakAt(server.url('get?file=a'), 6_000_000);
  const { reusedBytes } = await downloadFrom(hub(), server.url('get?file=b'), path, REPLACING);
  expect([reusedBytes, isWhole(OTHER)]).toEqual([OTHER.length, true]);
  writeFileSync(path, '');
  await downloadFrom(hub(), server.url('get?file=b'), path, REPLACING);
  expect(isWhole(OTHER)).toBe(true);
});

it('fetches what was changed since, also of the same ETag and length', async () => {
  serveTwo('get', 'get');
  await downloadFrom(hub(), server.url('get'), path);
  server.files.set('get', { bytes: ONE, tag: '"same"', modified: 'Tue, 03 Nov 2026 00:00:00 GMT' });
  await downloadFrom(hub(), server.url('get'), path, REPLACING);
  expect(isWhole(ONE)).toBe(true);
});

it('identifies a source by `versionId` and its length', async () => {
  const otherPath = path.replace('.safetensors', '-other.safetensors');
  serveTwo('get?file=a', 'get?file=b');
  server.files.set('get?file=c', { bytes: ONE, tag: 'W/"weak"' });
  server.files.set('get?file=d', { bytes: SHORTER, tag: '"same"' });
  const versionId = 'version 1';
  const fetch = breakingFetch(6_000_000);
  const from = (file: string): string => server.url(`get?file=${file}`);
  await expect(downloadFrom(hub(), from('a'), path, { fetch, versionId })).rejects.toThrow();
  const other = await downloadFrom(hub(), from('b'), otherPath, { versionId: 'version 2' });
  expect([other.reusedBytes, readFileSync(otherPath).equals(OTHER)]).toEqual([0, true]);
  const { reusedBytes } = await downloadFrom(hub(), from('c'), path, { versionId });
  expect([reusedBytes > 0, isWhole(ONE)]).toEqual([true, true]);
  const again = await downloadFrom(hub(), from('a'), path, { versionId });
  expect(again.downloadedBytes).toBe(0);
  await downloadFrom(hub(), from('d'), path, { versionId, ...REPLACING });
  expect(isWhole(SHORTER)).toBe(true);
});

/** The first digits of the SHA-256 of a text, as names of partial files have them. */
function digitsOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

it('does not trust what older versions, which left out the query, have left', async () => {
  serveTwo('get?file=a', 'get?file=b');
  const version = `${server.url('get')} "same"`;
  const stem = `.safetensors-mmap-${digitsOf('my.safetensors')}`;
  const hash = createHash('sha256').update(ONE).digest('hex');
  writeFileSync(path, ONE);
  writeFileSync(join(folder, `${stem}.downloaded`), JSON.stringify({ version, hash }));
  writeFileSync(join(folder, `${stem}-${digitsOf(version)}.incomplete`), ONE.subarray(0, 100));
  const { reusedBytes } = await downloadFrom(hub(), server.url('get?file=b'), path, REPLACING);
  expect([reusedBytes, isWhole(OTHER)]).toEqual([0, true]);
});

it('believes no record that somebody has edited, and needs none', async () => {
  const model = startedNoise(300_000, 5);
  server.files.set('model.safetensors', { bytes: model, tag: '"one"' });
  await downloadFrom(hub(), url(), path);
  const record = namesIn(folder).find((name) => name.endsWith('.downloaded')) ?? '';
  const { version, hash } = JSON.parse(readFileSync(join(folder, record), 'utf8'));
  const wrong = startedNoise(model.length, 6);
  for (const text of [
    '',
    'null',
    '[]',
    '"text"',
    JSON.stringify({ version, hash: 1 }),
    JSON.stringify({ version, hash: null }),
    JSON.stringify({ version, hash: hash.slice(0, 40) }),
    JSON.stringify({ version: null, hash }),
    JSON.stringify({ version, hash, more: 'x'.repeat(70_000) }),
    JSON.stringify({ version, hash }),
  ]) {
    writeFileSync(path, wrong);
    writeFileSync(join(folder, record), text);
    await downloadFrom(hub(), url(), path, REPLACING);
    expect(isWhole(model), text.slice(0, 100)).toBe(true);
  }
  rmSync(join(folder, record));
  mkdirSync(join(folder, record));
  writeFileSync(path, wrong);
  await downloadFrom(hub(), url(), path, REPLACING);
  expect([isWhole(model), namesIn(folder)]).toEqual([true, [record, 'my.safetensors']]);
});

it('gives whole versions only while the server changes them and breaks', async () => {
  const versions = Array.from({ length: 6 }, (_, i) => startedNoise(300_000 + 4 * (i % 3), 10 + i));
  let state = 7;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const serve = (): void => {
    const i = random(versions.length);
    const bytes = versions[i] as Uint8Array;
    server.files.set('changing', {
      bytes,
      tag: i === 5 ? 'W/"5"' : `"${i}"`,
      modified: `day ${i}`,
    });
  };
  serve();
  let arrived = 0;
  for (let round = 0; round < 60; round++) {
    const fetch: typeof globalThis.fetch = async (input, init) => {
      if (random(4) === 0) serve();
      return await breakingFetch(random(3) === 0 ? random(300_000) : 1_000_000)(input, init);
    };
    const done = await downloadFrom(hub(), server.url('changing'), path, {
      fetch,
      ...REPLACING,
    }).then(
      () => true,
      (error: unknown) => {
        expect(error).toHaveProperty('code', expect.stringMatching(/FILE_CHANGED|UNAVAILABLE/));
        return false;
      },
    );
    if (done) arrived++;
    if (arrived > 0) expect(versions.some((bytes) => isWhole(bytes))).toBe(true);
  }
  expect(arrived).toBeGreaterThan(10);
});

it('starts over without a strong ETag, and keeps nothing', async () => {
  server.files.set('model.safetensors', { bytes: MODEL, tag: 'W/"weak"' });
  await breakAt(url());
  expect(namesIn(folder)).toEqual([]);
  await downloadFrom(hub(), url(), path);
  expect([isWhole(), namesIn(folder)]).toEqual([true, ['my.safetensors']]);
});

it('never mixes two versions when the file changes meanwhile', async () => {
  const changing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    server.files.set('model.safetensors', { bytes: startedNoise(MODEL.length, 3), tag: '"three"' });
    return response;
  };
  const result = downloadFrom(hub(), url(), path, { fetch: changing });
  await expect(result).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
});

it('receives a corrupted part of a file once more', async () => {
  await breakAt(source);
  const [partial = ''] = namesIn(folder);
  truncateSync(join(folder, partial), 1000);
  appendFileSync(join(folder, partial), new Uint8Array(500));
  const { downloadedBytes, reusedBytes } = await downloadFrom(hub(), source, path);
  expect(reusedBytes).toBe(0);
  expect(downloadedBytes).toBe(2 * MODEL.length - 1500);
  expect([isWhole(), namesIn(folder)]).toEqual([true, ['my.safetensors']]);
});

it('ignores a part that is longer than the file', async () => {
  await breakAt(source);
  const [partial = ''] = namesIn(folder);
  appendFileSync(join(folder, partial), new Uint8Array(LARGE_BYTE_LENGTH));
  const { reusedBytes } = await downloadFrom(hub(), source, path);
  expect([reusedBytes, isWhole()]).toEqual([0, true]);
});

it('refuses bytes that have another hash, twice, than the Hub says', async () => {
  writeFileSync(path, 'old');
  const result = downloadFrom(hub(), 'hf://org/wrong/model.safetensors', path, REPLACING);
  await expect(result).rejects.toMatchObject({ code: 'SAFETENSORS_BAD_RESPONSE', path });
  expect([namesIn(folder), readFileSync(path, 'latin1')]).toEqual([['my.safetensors'], 'old']);
});

it('refuses what the Hub gives out through Xet only', async () => {
  const result = downloadFrom(hub(), 'hf://org/huge/model.safetensors', path);
  await expect(result).rejects.toMatchObject({ code: 'SAFETENSORS_XET_ONLY' });
});

it('replaces a file that is open, which stays what it was', async () => {
  await downloadFrom(hub(), source, path);
  const file = safeOpen(path);
  server.files.set('model.safetensors', { bytes: startedNoise(100), tag: '"other"' });
  await downloadFrom(hub(), url(), path, REPLACING);
  expect(file.getTensor('embed').bytes[0]).toBe(MODEL[MODEL.length - LARGE_BYTE_LENGTH]);
  file.close();
  expect(isWhole(startedNoise(100))).toBe(true);
});

it('lets two downloads to one path follow each other', async () => {
  const both = [downloadFrom(hub(), source, path), downloadFrom(hub(), source, path)];
  const received = (await Promise.all(both)).map(({ downloadedBytes }) => downloadedBytes);
  expect(received.toSorted()).toEqual([0, MODEL.length].toSorted());
  expect(namesIn(folder)).toEqual(['my.safetensors']);
});

it('reports progress, also of what was there', async () => {
  const seen: number[] = [];
  const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }): void => {
    expect(totalBytes).toBe(MODEL.length);
    seen.push(bytes);
  };
  await downloadFrom(hub(), source, path, { onProgress });
  await downloadFrom(hub(), source, path, { onProgress });
  expect(seen.filter((bytes) => bytes === MODEL.length)).toHaveLength(2);
});

describe('a folder as the target of one file', () => {
  it.each([
    ['model.safetensors?x=1', 'model.safetensors'],
    ['my%20model.safetensors', 'my model.safetensors'],
    ['a%2Fb', 'a%2Fb'],
    ['%00', '%00'],
  ])('gets it by the name of the URL: %s', async (name, expected) => {
    server.files.set(name.replace(/\?.*/, ''), { bytes: MODEL, tag: '"one"' });
    const result = await downloadFrom(hub(), server.url(name), `${folder}/`);
    expect(result.path).toBe(join(folder, expected));
    expect(namesIn(folder)).toContain(expected);
  });

  it('gets it by the name that it has on the Hub, chosen tensors too', async () => {
    for (const options of [{}, { names: ['embed'] }]) {
      // The second one is of the same repository.
      const { path } = await downloadFrom(hub(), source, folder, options);
      expect(path).toBe(join(folder, 'model.safetensors'));
    }
  });

  it('is refused when there is no name, or a link has it', async () => {
    server.files.set('', { bytes: MODEL, tag: '"one"' });
    const refused = { code: 'ERR_OUT_OF_RANGE' };
    await expect(downloadFrom(hub(), server.url(''), folder)).rejects.toMatchObject(refused);
    const mine = join(emptyFolder('outside'), 'mine');
    writeFileSync(mine, 'mine');
    symlinkSync(mine, join(folder, 'model.safetensors'));
    await expect(downloadFrom(hub(), source, folder)).rejects.toMatchObject(refused);
    expect(readFileSync(mine, 'latin1')).toBe('mine');
  });
});

it('ends with what onProgress throws', async () => {
  const broken = new Error('no more');
  let at = 0;
  const options = {
    onProgress: (): void => {
      throw broken;
    },
    fetch: async (...request: Parameters<typeof fetch>) => {
      // Slow enough for a report.
      await new Promise((resolve) => setTimeout(resolve, at++ < 4 ? 110 : 0));
      return await fetch(...request);
    },
  };
  await expect(downloadFrom(hub(), source, path, options)).rejects.toBe(broken);
});
