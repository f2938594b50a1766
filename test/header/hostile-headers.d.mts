/** A header, and how many bytes of data its file has. */
export interface HostileHeader {
  readonly json: Uint8Array;
  readonly dataByteLength: number;
}

/** Hashes the string that the array holds at each call. */
export type Hasher = (quoted: Uint8Array) => () => number;

export const ATTACKS: Readonly<
  Record<string, (byteLength: number, hasher: Hasher) => HostileHeader>
>;

export const OUTCOMES: Readonly<Record<string, string>>;
