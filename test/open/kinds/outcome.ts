/** What a call returned or threw, as data that can be compared between kinds. */
import { isNativeError } from 'node:util/types';
import { SafetensorsError, type Tensor } from '../../support/api.js';
import type { Handle } from './kinds.js';

/** Stand-ins for the names of a handle's files, which depend on the place. */
type Names = readonly (readonly [name: string, standIn: string])[];

const lastPart = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

function namesOf({ path = '', shards }: Handle): Names {
  const isOnly = shards.length === 1;
  const ofShards = shards.map((name, i) => [name, isOnly ? '<path>' : `<shard ${i}>`] as const);
  return [[path, '<path>'], [lastPart(path), '<path>'], ...ofShards];
}

/** A value without buffers and classes. */
function plain(value: unknown, names: Names): unknown {
  if (typeof value === 'string') return plainText(value, names);
  if (isNativeError(value)) return errorFacts(value, names);
  if (isTensor(value)) return tensorFacts(value);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Map) return Array.from(value, (pair) => plain(pair, names));
  if (Array.isArray(value)) return value.map((item) => plain(item, names));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item, names)]));
}

function plainText(text: string, names: Names): string {
  const [, whole] = names.find(([name]) => name === text) ?? [];
  if (whole !== undefined) return whole;
  return names.reduce(
    (replaced, [name, standIn]) => (name === '' ? replaced : replaced.replaceAll(name, standIn)),
    text,
  );
}

function isTensor(value: unknown): value is Tensor {
  return typeof value === 'object' && value !== null && 'toFloat32' in value;
}

function tensorFacts(tensor: Tensor): unknown {
  const { name, dtype, shape, elementCount, byteLength, bytes, data } = tensor;
  const array = data.constructor.name;
  const hex = Buffer.from(bytes).toString('hex');
  return { name, dtype, shape, elementCount, byteLength, array, hex };
}

/** What callers see of an error. */
export interface ErrorFacts {
  readonly type: string;
  readonly code: string | undefined;
  readonly tensor?: string | undefined;
  /** The last part of the path. */
  readonly path?: string;
  readonly message: string;
}

/** Class, code, subject and message of an error; the message without the path in front of it. */
function errorFacts(error: Error, names: Names): ErrorFacts {
  const { constructor: type, message } = error;
  const { code, tensor, path } = error as SafetensorsError;
  const isOwn = error instanceof SafetensorsError;
  const start = isOwn && path !== undefined ? `${path}: ` : '';
  return {
    type: type.name,
    code,
    ...(isOwn ? { tensor, path: plainText(lastPart(path ?? ''), names) } : {}),
    message: plainText(message.startsWith(start) ? message.slice(start.length) : message, names),
  };
}

/** The result of a call of a handle, or its error. */
export async function outcomeOf(
  handle: Handle,
  call: (handle: Handle) => unknown,
): Promise<unknown> {
  const names = namesOf(handle);
  try {
    return { value: plain(await call(handle), names) };
  } catch (error) {
    return { error: isNativeError(error) ? errorFacts(error, names) : error };
  }
}

/** The error of work without a handle; undefined if there is none. File names stay as they are. */
export async function errorOf(work: () => unknown): Promise<ErrorFacts | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (!isNativeError(error)) throw error;
    return errorFacts(error, []);
  }
}
