/** `verify` of an open handle, in Node and in browsers; the options of `verify`. */

import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import type { VerifiableSource } from '../../file/checkpoint/verify.js';
import type { VerificationReport } from '../../file/shards/verification-report.js';
import type { RootKeys } from '../../file/source/plain-value.js';
import { withRanks } from '../../file/source/ranks-found.js';
import {
  requireVerifyBytesOptions,
  VERIFY_BYTES_OPTIONS,
  type VerifyBytesOptions,
} from '../../file/source/verify-options.js';
import type { VoidDtype } from '../../foreign/numpy/item-types.js';
import type { UnknownGlobals } from '../../foreign/torch/state-dict/builders.js';
import type { HeadersInput } from '../../remote/credentials.js';
import { unusedOption } from './options.js';

/** Options of `verify`. */
export interface VerifyOptions extends VerifyBytesOptions {
  /** As for `open`; only for paths. */
  readonly variant?: string | undefined;
  /** As for `open`; only for paths. */
  readonly revision?: string | undefined;
  /** As for `open`; only for paths. */
  readonly root?: string | RootKeys | undefined;
  /** As for `open`; only for paths. */
  readonly unknownGlobals?: UnknownGlobals | undefined;
  /** As for `open`; only for paths. */
  readonly voidDtype?: VoidDtype | undefined;
  /**
   * True also reads all values, as they are stored, and reports tensors with NaN or infinities, which are problems, and
   * constant and all-zero tensors. Also for handles, of remote sources, too.
   */
  readonly values?: boolean | undefined;
  /**
   * Compares all files of a local copy with those of a repository on the Hub, in place of the other checks: the address
   * of a repository, or of a folder or file in it (`hf://org/name@revision`), or `'origin'`, the repository and commit
   * that `download` recorded or whose snapshot in the Hub cache it is. Without a revision, the recorded commit is
   * compared, where there is one, else `main`. Only for paths; requests lists of files, no weights.
   */
  readonly against?: string | URL | undefined;
  /** With `against`: as for `open`. */
  readonly token?: string | false | undefined;
  /** With `against`: as for `open`. */
  readonly headers?: HeadersInput | undefined;
  /** With `against`: as for `open`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

const VERIFY_OPTIONS: OptionNames<VerifyOptions> = {
  ...VERIFY_BYTES_OPTIONS,
  variant: true,
  revision: true,
  root: true,
  unknownGlobals: true,
  voidDtype: true,
  values: true,
  against: true,
  token: true,
  headers: true,
  fetch: true,
};

/** Options that select what a path opens. */
export type VerifyChoice = Omit<VerifyOptions, keyof VerifyBytesOptions | 'values'>;

/** The method of a handle that `verify` calls. */
type Handle = Pick<VerifiableSource, 'verify'>;

/** Checks the options of `verify`, and separates those of a handle's method. Throws a TypeError. */
export function splitVerifyOptions(
  options: VerifyOptions,
): readonly [verifying: VerifyBytesOptions, choice: VerifyChoice, values: boolean] {
  requireOptions(options, VERIFY_OPTIONS);
  const { headersOnly, signal, onProgress, values = false, ...choice } = options;
  const verifying = { headersOnly, signal, onProgress };
  requireVerifyBytesOptions(verifying);
  requireBoolean('values', values);
  if (values && headersOnly === true) throw unusedOption('values', 'headersOnly');
  return [verifying, choice, values];
}

/** Whether `verify` takes a value as an open handle. */
export function isHandle(source: unknown): source is Handle {
  const isObject = typeof source === 'object' && source !== null;
  return isObject && 'verify' in source && typeof source.verify === 'function';
}

/**
 * As the public `verify`, for an open handle.
 *
 * @throws TypeError and RangeError, by rejecting, for unusable options
 */
export async function verifyHandle(
  handle: Handle,
  options: VerifyOptions = {},
): Promise<VerificationReport> {
  const [verifying, choice, values] = splitVerifyOptions(options);
  for (const [name, value] of Object.entries(choice)) {
    if (value !== undefined) throw unusedOption(name, 'an open handle');
  }
  verifying.signal?.throwIfAborted();
  const report = await withRanks(await handle.verify(verifying), handle);
  if (!values) return report;
  const { withValues } = await import('./verify-values.js');
  return await withValues(report, handle, verifying);
}
