/** Opens by the synchronous and by the asynchronous function, which must have one outcome. */

import { isNativeError } from 'node:util/types';
import { expect } from 'vitest';
import type { PathOrDescriptor } from '../../src/platform/io/paths.js';
import { type Checkpoint, type OpenOptions, safeOpen, safeOpenAsync } from './api.js';

/** Every property of an error that a caller can see. */
function errorFacts(error: unknown): unknown {
  if (!isNativeError(error)) return error;
  const { constructor: type, name, message, cause } = error;
  return { ...error, type, name, message, cause: errorFacts(cause) };
}

interface Closable {
  close(): void;
}

/** The result of `sync`, or its error; `async` must give the same. */
async function sameOutcome<Opened extends Closable>(
  sync: () => Opened,
  async: () => Promise<Opened>,
  facts: (opened: Opened) => unknown,
): Promise<Opened> {
  const [expected, found] = await Promise.allSettled([
    new Promise<Opened>((resolve) => resolve(sync())),
    async(),
  ]);
  if (expected.status === 'rejected') {
    const reason = found.status === 'rejected' ? found.reason : 'opened';
    expect(errorFacts(reason)).toEqual(errorFacts(expected.reason));
    throw expected.reason;
  }
  if (found.status === 'rejected') throw found.reason;
  expect(facts(found.value)).toEqual(facts(expected.value));
  found.value.close();
  return expected.value;
}

/** `safeOpen`, and `safeOpenAsync` with the same outcome. */
export function openBoth(path: PathOrDescriptor, options?: OpenOptions): Promise<Checkpoint> {
  return sameOutcome(
    () => safeOpen(path, options),
    () => safeOpenAsync(path, options),
    (file) => [
      file.toJSON(),
      file.ignoredFiles,
      file.keys(),
      file.offsetKeys().map((name) => ({ name, ...file.info(name) })),
    ],
  );
}
