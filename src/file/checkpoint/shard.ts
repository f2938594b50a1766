/** One open file of a checkpoint, whatever its format. */

import type { FileContents } from '../../header/file-contents.js';
import type { TransferOptions } from '../../work/transfer.js';
import { SafetensorsFile } from '../file.js';

/** The interface of an open file of another format. */
export interface OtherShard
  extends Pick<
    SafetensorsFile,
    | 'path'
    | 'storage'
    | 'ok'
    | 'byteLength'
    | 'findTensor'
    | 'prefetch'
    | 'residency'
    | 'readTensors'
    | 'close'
    | 'reclaimDescriptor'
  > {
  /** Its readable tensors. Throws when the file is closed. */
  readonly contents: FileContents;

  /** Whether it has checksums, which `verifyBytes` compares. */
  readonly hasChecksums: boolean;

  /** Throws when the file is closed or has changed. */
  verify(): void;

  /**
   * Reads all bytes with checksums and compares them; reports every difference.
   *
   * @throws FileChangedError, FileClosedError, `signal.reason`
   */
  verifyBytes(options: TransferOptions, report: (problem: Error) => void): Promise<void>;
}

/** An open file: of safetensors, or of another format in its place. */
export type Shard = SafetensorsFile | OtherShard;

/** Whether a file is of another format. */
export function isOther(shard: Shard): shard is OtherShard {
  return !(shard instanceof SafetensorsFile);
}

/** The tensors of an open file, even after it has changed. */
export function contentsOf(shard: Shard): FileContents {
  return isOther(shard) ? shard.contents : SafetensorsFile.headerOf(shard);
}

/** As above, unless the file has changed. */
export function verifiedContents(shard: Shard): FileContents {
  if (!isOther(shard)) return SafetensorsFile.contentOf(shard).header;
  shard.verify();
  return shard.contents;
}
