import { describe, expect, it } from 'vitest';
import type { RemoteFile, RemoteSource } from '../../src/remote/remote-file.js';
import { RemoteShards } from '../../src/remote/remote-shards.js';

const { signal } = new AbortController();

/** An index that names these shards, and the names of the files that were asked for. */
function indexOf(names: readonly string[]): { source: RemoteSource; made: string[] } {
  const made: string[] = [];
  const weights = names.map((name, i) => [`t${i}`, name]);
  const bytes = new TextEncoder().encode(
    JSON.stringify({ weight_map: Object.fromEntries(weights) }),
  );
  const file = (path: string): RemoteFile => ({
    path,
    readStart: async () => ({ bytes, fileByteLength: bytes.length }),
    readInto: async () => {},
  });
  const folder = {
    file: (name: string) => {
      made.push(name);
      return file(name);
    },
  };
  const index = file('model.safetensors.index.json');
  return {
    source: {
      file: index,
      kind: 'index',
      folder,
      close: () => {},
      withoutSecrets: (error) => error,
    },
    made,
  };
}

describe('the shards of an index', () => {
  it('are made when they are needed, and once: an index may name very many', async () => {
    const names = Array.from({ length: 1000 }, (_, i) => `${i}.safetensors`);
    const { source, made } = indexOf(names);
    const shards = await RemoteShards.open(source, {}, signal);
    expect([shards.names.length, made]).toEqual([1000, []]);
    expect(shards.file(7)).toBe(shards.file(7));
    expect(made).toEqual([shards.names[7]]);
  });

  it('are all refused at once when one leads elsewhere', async () => {
    const { source } = indexOf(['a.safetensors', '%2e%2e%2fb.safetensors']);
    await expect(RemoteShards.open(source, {}, signal)).rejects.toMatchObject({
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
    });
  });
});
