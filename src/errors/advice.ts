/** Advice in messages as data: the library names its options, the command line its flags. */

/** Words of an error's message that name an option or a function of the library. */
export interface Advice {
  /** The option or the function, such as `overwrite` or `open`. */
  readonly option: string;
  /** The value to pass, where the advice is about one. */
  readonly value?: string;
  /** The words, as the message has them. */
  readonly text: string;
}

/** Functions of the library that open what the failed call does not. */
export const OPEN_READS: Advice = { option: 'open', text: 'open() reads' };

/** For servers that want credentials. */
export const PASS_TOKEN: Advice = { option: 'token', text: 'pass a token' };
export const PASS_CREDENTIALS: Advice = { option: 'token', text: 'pass a token or headers' };

/** The advice of errors, also of those of the system. */
export function adviceOf(...errors: readonly unknown[]): readonly Advice[] {
  return errors.flatMap((error) => {
    const { advice } = Object(error) as { readonly advice?: readonly Advice[] };
    return advice ?? [];
  });
}
