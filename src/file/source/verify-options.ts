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
   * Whether to read bytes and compare them with the hashes that files declare, and with the checksums of archives of
   * torch, NumPy and DDUF; `true` by default.
   */
  readonly checksums?: boolean | undefined;
}

const VERIFY_BYTES_OPTIONS: OptionNames<VerifyBytesOptions> = {
  ...TRANSFER_OPTIONS,
  checksums: true,
};

/** Throws a TypeError for unusable options. */
export function requireVerifyBytesOptions(options: VerifyBytesOptions): void {
  requireOptions(options, VERIFY_BYTES_OPTIONS);
  requireTransferOptions(options);
  requireBoolean('checksums', options.checksums ?? true);
}
