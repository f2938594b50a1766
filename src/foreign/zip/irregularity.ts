/** The faults that an archive can have. */

/**
 * - `cut-short`: a record is missing, or ends after the end of the file
 * - `end-record`: the records at the end contradict each other or the directory
 * - `surroundings`: bytes before or after the archive
 * - `directory`: an entry of the directory breaks the format
 * - `limit`: more than the limits allow
 * - `name`: a name that leads out of a folder, or that readers understand in several ways
 * - `duplicate-name`: two entries of one name, upper and lower case alike
 * - `link`: a symbolic link
 * - `encrypted`, `method`: bytes that are not stored or deflated
 * - `local-header`: the header before an entry's bytes disagrees with the directory
 * - `descriptor`: the record after them disagrees
 * - `overlap`, `gap`: entries that share bytes; bytes outside of entries
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

/** Kinds that leave no doubt about the files. */
export const HARMLESS_KINDS: readonly IrregularityKind[] = ['comment', 'extra-field'];

/** One irregularity: careful writers make none of them. */
export interface Irregularity {
  readonly kind: IrregularityKind;
  /** The expected and the found. */
  readonly message: string;
  /** Position in the file. */
  readonly position: number;
  /** The entry that it is about. */
  readonly entry?: string | undefined;
}

/** Receives every irregularity. Throwing ends the reading. */
export type Report = (irregularity: Irregularity) => void;
