/** A checkpoint before its file is mapped: tensors as the pickle describes them, places of storages. */

import { type ErrorContext, FormatError } from '../../errors/errors.js';
import type { StorageBytes } from '../../tensor/storage/computed.js';
import type { Storage } from '../../tensor/storage/storage.js';
import type { ArchiveContent } from '../checksums.js';
import type { PickleValue } from '../pickle/values.js';
import type { TorchStorage } from './state-dict/values.js';

/** The contents of a checkpoint's pickle and directory. */
export interface DescribedCheckpoint {
  /** The outermost value. */
  readonly value: PickleValue;
  readonly isBigEndian: boolean;
  /** The records of storages that the pickle names; the legacy stream has none. */
  readonly archive: ArchiveContent | undefined;
  /** Finds the bytes of storages; called once, with the storage of the whole file. */
  placesIn(file: Storage): (storage: TorchStorage) => StorageBytes;
}

/** The error for a file that is not a whole torch checkpoint. */
export function invalidTorch(message: string, context: ErrorContext): FormatError {
  return new FormatError('SAFETENSORS_INVALID_TORCH_CHECKPOINT', message, context);
}
