/** Options of `verify()`, of local and remote checkpoints. */

import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  type TransferOptions,
} from '../../work/transfer.js';

/** Options of `verify()` of checkpoints. */
export interface VerifyBytesOptions extends TransferOptions {
  /**
   * True checks headers and index, and reads no tensors. By default, tensors are also compared with the digests that
   * files declare, and with the checksums of PyTorch, NumPy and DDUF archives.
   */
  readonly headersOnly?: boolean | undefined;
}

/** Names of the options. */
export const VERIFY_BYTES_OPTIONS: OptionNames<VerifyBytesOptions> = {
  ...TRANSFER_OPTIONS,
  headersOnly: true,
};

/** Throws a TypeError for unusable options. */
export function requireVerifyBytesOptions(options: VerifyBytesOptions): void {
  requireOptions(options, VERIFY_BYTES_OPTIONS);
  requireTransferOptions(options);
  requireBoolean('headersOnly', options.headersOnly ?? false);
}
