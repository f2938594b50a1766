/** Compares a GGUF model that is read by requests with the same one from a path. */
import { expect } from 'vitest';
import { type Checkpoint, dequantize, type RemoteCheckpoint } from '../../support/api.js';

/** `dequantizeRemote` comes from the build that opened the remote model. */
export async function expectSameModel(
  remote: RemoteCheckpoint,
  local: Checkpoint,
  dequantizeRemote: (model: RemoteCheckpoint) => Promise<RemoteCheckpoint>,
): Promise<void> {
  expect([remote.format, remote.keys()]).toEqual(['gguf', local.keys()]);
  expect(remote.metadata).toEqual(local.metadata);
  expect(await remote.extra()).toEqual(await local.extra());
  for (const key of local.keys()) expect(await remote.info(key)).toEqual(local.info(key));
  using view = await dequantize(local);
  const values = await dequantizeRemote(remote);
  for (const key of view.keys()) {
    const fetched = await values.getTensor(key);
    expect([fetched.dtype, fetched.shape]).toEqual([view.info(key).dtype, view.info(key).shape]);
    expect(Buffer.compare(fetched.bytes, view.getTensor(key).bytes), key).toBe(0);
  }
  expect(await remote.verify()).toMatchObject({ ok: true, checks: ['headers'] });
}
