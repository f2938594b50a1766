/** The cases of `fixtures/sharding-cases.json`, and the same questions asked of Python. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TensorMemory } from '../../../src/file/shards/shared-tensors.js';
import { type Python, runPython } from '../../support/python.js';

/** A state dict to split. */
export interface SplitQuestion {
  readonly tensors: readonly {
    readonly name: string;
    readonly nbytes?: number;
    readonly storage?: string;
    readonly string?: string;
  }[];
  readonly max_shard_size: number | string;
  readonly filename_pattern: string;
}

/** How Python splits it; pairs in the order of its dicts. */
export interface SplitAnswer {
  readonly is_sharded: boolean;
  readonly filename_to_tensors: readonly (readonly [string, readonly string[]])[];
  readonly tensor_to_filename: readonly (readonly [string, string])[];
  readonly metadata: { readonly total_size: number };
}

/** Tensors that may share storages. */
export interface DedupeQuestion {
  readonly tensors: readonly {
    readonly name: string;
    readonly storage: string;
    readonly storage_nbytes: number;
    readonly storage_offset: number;
    readonly shape: readonly number[];
    readonly stride: readonly number[];
    readonly dtype: string;
  }[];
  readonly discard_names?: readonly string[];
  readonly preferred_names?: readonly string[];
}

/** Dropped names by kept name. */
export type DedupeAnswer = readonly (readonly [string, readonly string[]])[];

interface ShardingCases {
  readonly sharding: readonly {
    readonly id: string;
    readonly note: string;
    readonly input: SplitQuestion;
    readonly expected?: SplitAnswer;
  }[];
  readonly parse_size: readonly {
    readonly input: string;
    readonly expected?: number | { readonly bigint: string };
  }[];
  readonly dedupe: readonly {
    readonly id: string;
    readonly note: string;
    readonly input: DedupeQuestion;
    readonly hub: { readonly expected?: DedupeAnswer };
  }[];
  readonly save: readonly {
    readonly id: string;
    readonly input: {
      readonly state_dict: string;
      readonly existing_files: readonly string[];
      readonly max_shard_size?: number;
      readonly safe_serialization?: boolean;
      readonly shared_tensors_to_discard?: readonly string[];
      readonly filename_pattern?: string;
      readonly metadata?: Readonly<Record<string, string>>;
      readonly is_main_process?: boolean;
    };
    readonly expected_files: Readonly<
      Record<string, { readonly untouched?: true; readonly text?: string }>
    >;
    readonly expected_error?: object;
  }[];
}

const fixture = new URL('../../fixtures/sharding-cases.json', import.meta.url);

/** The recorded results of the Python library. */
export const shardingCases: ShardingCases = JSON.parse(readFileSync(fixture, 'utf8'));

/** Python's answer: a result, or the type of an error. */
export type Answer<T> =
  | { readonly result: T; readonly error?: undefined }
  | { readonly error: string; readonly result?: undefined };

/** Asks `huggingface_hub` all questions at once. */
export function askHub<T>(
  python: Python,
  kind: 'split' | 'sizes' | 'dedupe',
  questions: readonly unknown[],
): Answer<T>[] {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-hub-'));
  try {
    const path = join(folder, 'questions.json');
    writeFileSync(path, JSON.stringify(questions));
    const script = fileURLToPath(new URL('children/hub_serialization.py', import.meta.url));
    return JSON.parse(runPython(python, [script, kind, path]));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** F32 elements `first` to `last - 1` of a memory of 12. */
export function view(name: string, first: number, last: number, more: object = {}): TensorMemory {
  return {
    name,
    storage: 'S',
    storageByteLength: 48,
    byteOffset: first * 4,
    dtype: 'F32',
    shape: [last - first],
    ...more,
  };
}
