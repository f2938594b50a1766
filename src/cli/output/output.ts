/** The target of text. */
export interface Output {
  write(text: string): void;
  readonly isTerminal: boolean;
  /** Columns of the terminal; null for a file or a pipe. */
  readonly columns: number | null;
  /** Whether the terminal shows colours and the user wants them. */
  readonly hasColors: boolean;
}
