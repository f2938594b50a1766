/** The record of merged adapters in the metadata of a checkpoint. */

import type { Advice } from '../../errors/advice.js';
import { SafetensorsError } from '../../errors/errors.js';
import type { Tensor } from '../../tensor/tensor.js';
import { type Adapter, labelOf } from './adapter.js';
import type { CheckedInput } from './options.js';

/** The key. Its value is a JSON array of objects with the members of {@link MergedAdapter}. */
export const ADAPTERS_KEY = 'safetensors-mmap.adapters';

/** Advice for an adapter that is listed twice. */
const SCALES: Advice = { option: 'scales', text: 'with scales for strengths of single weights' };

/** A merged adapter. */
export interface MergedAdapter {
  /** Hub id, or the name of its file or folder. */
  readonly name: string | null;
  /** Digest of its tensors: names, dtypes, shapes and bytes, wherever they are stored. */
  readonly sha256: string;
  readonly scale: number;
  /** Strengths of single weights by pattern, if there were any. */
  readonly scales?: readonly (readonly [pattern: string, scale: number])[];
  /** The component, if only its keys were merged. */
  readonly component?: string;
}

/** Bytes that are hashed at once. */
const CHUNK_BYTE_LENGTH = 2 ** 23;

/** The adapters that metadata lists as merged; none for a value of another form. */
export function mergedAdapters(metadata: ReadonlyMap<string, string> | null): MergedAdapter[] {
  try {
    const list: unknown = JSON.parse(metadata?.get(ADAPTERS_KEY) ?? '[]');
    return Array.isArray(list) ? list.filter((one) => typeof Object(one).sha256 === 'string') : [];
  } catch {
    return [];
  }
}

/** Returns the digest of the tensors of an adapter. */
export async function adapterDigest(
  tensors: ReadonlyMap<string, Tensor>,
  signal: AbortSignal | undefined,
): Promise<string> {
  const lines: string[] = [];
  for (const [name, { dtype, shape, bytes }] of [...tensors].sort(([a], [b]) => (a < b ? -1 : 1))) {
    lines.push(`${JSON.stringify(name)} ${dtype} [${shape}]`);
    for (let begin = 0; begin < bytes.length; begin += CHUNK_BYTE_LENGTH) {
      signal?.throwIfAborted();
      lines.push(await sha256(bytes.subarray(begin, begin + CHUNK_BYTE_LENGTH)));
    }
  }
  return await sha256(new TextEncoder().encode(lines.join('\n')));
}

/** The digest of bytes, in hexadecimal digits. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The adapters that are merged into a base, those of its metadata first. */
export class MergedAdapters {
  readonly list: MergedAdapter[];
  /** How many of them the metadata lists. */
  readonly #before: number;

  constructor(metadata: ReadonlyMap<string, string> | null) {
    this.list = mergedAdapters(metadata);
    this.#before = this.list.length;
  }

  /**
   * Adds one.
   *
   * @throws SafetensorsError `SAFETENSORS_ALREADY_MERGED`
   */
  add(
    adapter: Adapter,
    {
      sha256,
      scale,
      scales,
      component,
    }: Pick<CheckedInput, 'scale' | 'scales' | 'component'> & { readonly sha256: string },
  ): void {
    const found = this.list.findIndex((one) => {
      const isOther =
        one.component !== undefined && component !== null && one.component !== component;
      return one.sha256 === sha256 && !isOther;
    });
    if (found !== -1) {
      const problem =
        found < this.#before
          ? 'is merged into the base already; start from the original base'
          : `is listed twice; list it once, ${SCALES.text}`;
      const context = { path: adapter.path, advice: [SCALES] };
      const message = `${labelOf(adapter)} ${problem}`;
      throw new SafetensorsError('SAFETENSORS_ALREADY_MERGED', message, context);
    }
    this.list.push({
      name: adapter.name,
      sha256,
      scale,
      ...(scales.length === 0 ? {} : { scales }),
      ...(component === null ? {} : { component }),
    });
  }
}
