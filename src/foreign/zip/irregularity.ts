/** What is wrong with an archive. */

/**
 * - `cut-short`: a record is missing, or ends behind the end of the file
 * - `end-record`: the records at the end contradict each other or the directory
 * - `surroundings`: bytes before the archive or behind it
 * - `directory`: an entry of the directory is not as the format asks
 * - `limit`: more than the limits allow
 * - `name`: a name that leads out of a folder, or that readers understand in several ways
 * - `duplicate-name`: two entries of one name, upper and lower case alike
 * - `link`: a symbolic link
 * - `encrypted`, `method`: bytes that are not stored or deflated
 * - `local-header`: the header before an entry's bytes says other things than the directory
 * - `descriptor`: so does the record behind them
 * - `overlap`, `gap`: entries over common bytes; bytes that belong to none
 * - `comment`, `extra-field`: bytes of the archive's own records that no reader of checkpoints looks at; an archive
 *   with them is read
 */
export type IrregularityKind =
  | 'cut-short'
  | 'end-record'
  | 'surroundings'
  | 'directory'
  | 'limit'
  | 'name'
  | 'duplicate-name'
  | 'link'
  | 'encrypted'
  | 'method'
  | 'local-header'
  | 'descriptor'
  | 'overlap'
  | 'gap'
  | 'comment'
  | 'extra-field';

/** Kinds that leave no doubt about what the files are. */
export const HARMLESS_KINDS: readonly IrregularityKind[] = ['comment', 'extra-field'];

/** One thing that a careful writer would not have written. */
export interface Irregularity {
  readonly kind: IrregularityKind;
  /** What was expected and what was found. */
  readonly message: string;
  /** Where, in bytes from the start of the file. */
  readonly position: number;
  /** The entry that it is about. */
  readonly entry?: string | undefined;
}

/** Is told of every irregularity. When it throws, nothing more is read. */
export type Report = (irregularity: Irregularity) => void;
