/** Options of `verify()` of whatever is open: here or remote, with checksums or without. */

import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  type TransferOptions,
} from '../../platform/transfer/transfer.js';

/** Options of `verify()` of checkpoints. */
export interface VerifyBytesOptions extends TransferOptions {
  /**
   * Whether bytes are read whose checksums an archive of torch or NumPy has, and compared with these; `true` by
   * default.
   */
  readonly checksums?: boolean | undefined;
}

const VERIFY_BYTES_OPTIONS: OptionNames<VerifyBytesOptions> = {
  ...TRANSFER_OPTIONS,
  checksums: true,
};

/** Throws a TypeError when the options are of the wrong kind. */
export function requireVerifyBytesOptions(options: VerifyBytesOptions): void {
  requireOptions(options, VERIFY_BYTES_OPTIONS);
  requireTransferOptions(options);
  requireBoolean('checksums', options.checksums ?? true);
}
