import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { FIRST_BYTE_LENGTH } from '../../src/remote/read-header.js';
import { parse, safeOpen } from '../support/api.js';
import { type CountedFiles, countedCheckpoint, countedFile } from '../support/counted-source.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../support/make-checkpoint.js';
import { fileBytes } from '../support/make-file.js';

const INDEX = 'model.safetensors.index.json';
const CONFIG = { 'config.json': '{"model_type":"example"}' };

function twoShards(): CountedFiles {
  return countedCheckpoint(TWO_SHARDS, CONFIG);
}

/** A checkpoint of many shards with one tensor each. */
function manyShards(count: number): CountedFiles {
  const names = Array.from({ length: count }, (_, i) => `layers.${i}`);
  return countedCheckpoint({
    shards: Object.fromEntries(
      names.map((name, i) => [
        `model-${String(i + 1).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.safetensors`,
        [{ name, dtype: 'U8' as const, shape: [200_000] }],
      ]),
    ),
  });
}

describe('a single file', () => {
  const bytes = fileBytes(
    [
      { name: 'b', dtype: 'F32', shape: [2, 3] },
      { name: 'a', dtype: 'U8', shape: [5] },
    ],
    { metadata: { format: 'pt' } },
  );

  it('is opened by one request, and says what a local one says', async () => {
    const files = countedFile(bytes);
    const checkpoint = await files.open('model.safetensors');
    const local = parse(bytes);
    expect(checkpoint.keys()).toEqual(local.keys());
    expect(await checkpoint.offsetKeys()).toEqual(local.offsetKeys());
    expect(checkpoint.size).toBe(2);
    expect(checkpoint.metadata).toEqual(local.metadata);
    expect(checkpoint.shards).toEqual(['model.safetensors']);
    expect(checkpoint.path).toBe('https://models.example/model.safetensors');
    expect(await checkpoint.byteLength()).toBe(bytes.length);
    expect([checkpoint.has('a'), checkpoint.has('c')]).toEqual([true, false]);
    for (const name of local.keys()) expect(await checkpoint.info(name)).toEqual(local.info(name));
    expect(Object.isFrozen(await checkpoint.info('a'))).toBe(true);
    expect(files.requests).toEqual([{ name: 'model.safetensors', begin: 0, end: bytes.length }]);
  });

  it('is counted with the config.json beside it', async () => {
    const files = countedFile(bytes);
    const checkpoint = await files.open('model.safetensors');
    const { parameters, shards, quantization } = await checkpoint.summary();
    expect([parameters, [...shards.keys()], quantization]).toEqual([
      11,
      ['model.safetensors'],
      null,
    ]);
    expect(files.requests.map(({ name }) => name)).toEqual(['model.safetensors', 'config.json']);
  });
});

describe('a sharded checkpoint', () => {
  it('is opened by one request, and knows its names by the index', async () => {
    const files = twoShards();
    const checkpoint = await files.open(INDEX);
    const local = safeOpen(writeCheckpoint(TWO_SHARDS));
    expect(checkpoint.keys()).toEqual(local.keys());
    expect(checkpoint.size).toBe(local.size);
    expect(checkpoint.metadata).toEqual(local.metadata);
    expect(checkpoint.shards).toEqual(local.shards);
    expect(['embed', 'lm_head.weight', 'lost', 'c'].map((name) => checkpoint.has(name))).toEqual(
      ['embed', 'lm_head.weight', 'lost', 'c'].map((name) => local.has(name)),
    );
    expect(files.take()).toMatchObject([{ name: INDEX }]);
    expect(await checkpoint.offsetKeys()).toEqual(local.offsetKeys());
    expect(await checkpoint.byteLength()).toBe(local.byteLength());
    expect(await checkpoint.headers()).toEqual(await local.headers());
    for (const name of local.keys()) expect(await checkpoint.info(name)).toEqual(local.info(name));
    expect(files.take().map(({ name }) => name)).toEqual(checkpoint.shards);
    local.close();
  });

  it('lists the tensors of headers that are retained without creating them again', async () => {
    const [first, second] = Object.keys(TWO_SHARDS.shards) as [string, string];
    const weightMap = { embed: first, 'b.bias': second };
    for (const files of [TWO_SHARDS, { ...TWO_SHARDS, weightMap }]) {
      const checkpoint = await countedCheckpoint(files).open(INDEX);
      const headers = await checkpoint.headers();
      const inHeaders = new Set(headers.flatMap(({ tensors }) => tensors));
      const listed = await checkpoint.tensors();
      expect(listed.filter((one) => !inHeaders.has(one))).toEqual([]);
      expect(listed.map(({ name }) => name)).toEqual(await checkpoint.offsetKeys());
      expect(listed).not.toBe(await checkpoint.tensors());
      expect(headers.every(({ tensors }) => Object.isFrozen(tensors))).toBe(true);
      checkpoint.close();
    }
  });

  it('counts as a local one', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const config = '{"quantization_config":{"quant_method":"gptq","bits":4}}';
    writeBelow(folder, 'config.json', config);
    const local = safeOpen(folder);
    const files = countedCheckpoint(TWO_SHARDS, { 'config.json': config });
    expect(await (await files.open(INDEX)).summary()).toEqual(await local.summary());
    expect(
      files
        .take()
        .map(({ name }) => name)
        .toSorted(),
    ).toEqual([INDEX, 'config.json', ...local.shards].toSorted());
    local.close();
  });

  it.each([
    ['none', {}],
    ['a bad one', { 'config.json': '{' }],
  ])('counts with %s as config.json', async (_, others) => {
    const files = countedCheckpoint(TWO_SHARDS, others);
    expect((await (await files.open(INDEX)).summary()).parameters).toBe(28);
  });

  it('fetches only the header of the shard that is asked for, and once', async () => {
    const files = twoShards();
    const checkpoint = await files.open(INDEX);
    files.take();
    await Promise.all([
      checkpoint.info('b.bias'),
      checkpoint.info('b.weight'),
      checkpoint.info('b.bias'),
    ]);
    await checkpoint.info('b.weight');
    expect(files.take()).toMatchObject([{ name: 'model-00002-of-00002.safetensors', begin: 0 }]);
  });

  it('fetches the headers of 163 shards when all are needed, 16 at a time', async () => {
    const files = manyShards(163);
    files.delayMs = 2;
    const checkpoint = await files.open(INDEX);
    expect(checkpoint.size).toBe(163);
    expect(files.take().length).toBe(1);
    const [summary, keys] = await Promise.all([checkpoint.summary(), checkpoint.offsetKeys()]);
    expect(summary.parameters).toBe(163 * 200_000);
    expect(keys.length).toBe(163);
    // And one for config.json.
    expect(files.requests.length).toBe(164);
    expect(files.requests.every(({ end }) => end <= FIRST_BYTE_LENGTH)).toBe(true);
    expect(files.mostUnderWay).toBeLessThanOrEqual(17);
    expect(files.mostUnderWay).toBeGreaterThan(10);
  });

  it('ends the others when one header cannot be fetched, and fetches it when it is asked again', async () => {
    const files = manyShards(40);
    files.delayMs = 20;
    const checkpoint = await files.open(INDEX);
    const reason = new Error('no');
    files.onRequest = ({ name }) => {
      if (name.includes('-00003-')) throw reason;
    };
    await expect(checkpoint.offsetKeys()).rejects.toBe(reason);
    expect(files.requests.length).toBeLessThan(40);
    files.onRequest = () => {};
    expect((await checkpoint.offsetKeys()).length).toBe(40);
    expect(files.underWay).toBe(0);
  });

  it('lets one caller give up a header for which another waits', async () => {
    const files = twoShards();
    const checkpoint = await files.open(INDEX);
    const release = files.hold();
    const aborting = new AbortController();
    const given = checkpoint.info('embed', { signal: aborting.signal });
    const wanted = checkpoint.info('a.weight');
    aborting.abort('enough');
    await expect(given).rejects.toBe('enough');
    release();
    expect((await wanted).shape).toEqual([2, 5]);
    expect(files.aborted).toBe(0);
    expect(files.requests.length).toBe(2);
  });

  it('ends the request for a header when nobody waits any more, and makes another one later', async () => {
    const files = twoShards();
    const checkpoint = await files.open(INDEX);
    files.delayMs = 10_000;
    const aborting = new AbortController();
    const given = checkpoint.info('embed', { signal: aborting.signal });
    await new Promise((resolve) => setTimeout(resolve));
    aborting.abort('enough');
    await expect(given).rejects.toBe('enough');
    files.delayMs = 0;
    expect((await checkpoint.info('embed')).shape).toEqual([4, 2]);
    expect(files.aborted).toBe(1);
  });

  it('says which shard lacks a tensor that the index names', async () => {
    const description = { ...TWO_SHARDS, weightMap: { embed: 'model-00002-of-00002.safetensors' } };
    const checkpoint = await countedCheckpoint(description).open(INDEX);
    const error = { code: 'SAFETENSORS_INDEX_MISMATCH', tensor: 'embed' };
    for (const call of [
      checkpoint.info('embed'),
      checkpoint.offsetKeys(),
      checkpoint.getTensor('embed'),
    ]) {
      await expect(call).rejects.toMatchObject(error);
    }
  });

  it('says which shard is bad', async () => {
    const files = countedCheckpoint(TWO_SHARDS, { 'model-00001-of-00002.safetensors': 'bad' });
    const checkpoint = await files.open(INDEX);
    await expect(checkpoint.summary()).rejects.toMatchObject({
      code: 'SAFETENSORS_HEADER_TOO_SMALL',
      path: 'https://models.example/model-00001-of-00002.safetensors',
    });
  });

  it('refuses a bad index', async () => {
    const files = countedCheckpoint(TWO_SHARDS, {
      [INDEX]: '{"weight_map":{"a":"../b.safetensors"}}',
    });
    await expect(files.open(INDEX)).rejects.toMatchObject({
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
    });
  });

  it('names what was meant', async () => {
    const checkpoint = await twoShards().open(INDEX);
    await expect(checkpoint.info('embd')).rejects.toThrow(
      `https://models.example/${INDEX}: tensor "embd": no such tensor; did you mean "embed"?`,
    );
  });
});

describe('any', () => {
  it('shows facts, and none of them once it is closed', async () => {
    const checkpoint = await twoShards().open(INDEX);
    const path = `https://models.example/${INDEX}`;
    expect(JSON.parse(JSON.stringify(checkpoint))).toMatchObject({ path, ok: true, size: 4 });
    expect(inspect(checkpoint)).toMatch(/^RemoteCheckpoint \{\n {2}path: 'https:/);
    checkpoint.close();
    expect(Object.keys(checkpoint.toJSON())).toEqual(['path', 'shards', 'ok']);
    expect(checkpoint.toJSON().ok).toBe(false);
  });

  it('ends what is under way when it is closed, and refuses more', async () => {
    const files = twoShards();
    const checkpoint = await files.open(INDEX);
    files.delayMs = 10_000;
    const calls: Promise<unknown>[] = [
      checkpoint.info('embed'),
      checkpoint.summary(),
      checkpoint.readTensors(),
    ];
    await new Promise((resolve) => setTimeout(resolve));
    checkpoint.close();
    checkpoint.close();
    const closed = { code: 'SAFETENSORS_FILE_CLOSED', path: checkpoint.path };
    calls.push(
      checkpoint.byteLength(),
      checkpoint.getTensor('embed'),
      checkpoint.getSlice('embed', 0),
    );
    for (const call of calls) await expect(call).rejects.toMatchObject(closed);
    const uses = [
      () => checkpoint.size,
      () => checkpoint.metadata,
      () => checkpoint.keys(),
      () => checkpoint.has('a'),
    ];
    for (const use of uses) expect(use).toThrow('the file is closed');
    expect([checkpoint.ok, checkpoint.shards.length]).toEqual([false, 2]);
    await new Promise((resolve) => setTimeout(resolve));
    expect(files.underWay).toBe(0);
  });

  it('asks nothing for its properties, open or closed', async () => {
    const files = twoShards();
    const checkpoint = await files.open(INDEX);
    const before = files.requests.length;
    const prototype = Object.getPrototypeOf(checkpoint) as object;
    const look = (): unknown[] =>
      Object.entries(Object.getOwnPropertyDescriptors(prototype)).flatMap(([name, { get }]) => {
        if (get === undefined) return [];
        try {
          return [Reflect.get(checkpoint, name) as unknown];
        } catch (error) {
          return [error];
        }
      });
    const open = look();
    checkpoint.close();
    for (const value of [...open, ...look()]) expect(value).not.toBeInstanceOf(Promise);
    expect(files.requests).toHaveLength(before);
  });

  it('is closed at the end of a block that uses it', async () => {
    const checkpoint = await twoShards().open(INDEX);
    checkpoint[Symbol.dispose]();
    expect(checkpoint.ok).toBe(false);
  });

  it('refuses options that there are not, and arguments of the wrong kind', async () => {
    const checkpoint = await twoShards().open(INDEX);
    const wrong: Promise<unknown>[] = [
      checkpoint.info('embed', { sginal: undefined, onProgress: () => {} } as never),
      checkpoint.getTensor('embed', { maxGapByteLength: 1 } as never),
      checkpoint.readTensors(['embed'], { maxGap: 1 } as never),
    ];
    for (const call of wrong)
      await expect(call).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_VALUE' });
    const types: Promise<unknown>[] = [
      checkpoint.info(5 as never),
      checkpoint.summary({ signal: {} as never }),
      checkpoint.getTensor('embed', { onProgress: 5 as never }),
      checkpoint.readTensors('embed' as never),
      checkpoint.readTensors(['embed'], { maxGapByteLength: '1' as never }),
      checkpoint.getPartition('embed', 1 as never),
    ];
    for (const call of types)
      await expect(call).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    expect(() => checkpoint.has(5 as never)).toThrow('name must be a string');
  });
});
