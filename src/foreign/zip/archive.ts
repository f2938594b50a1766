/** The contents of a zip archive, as data. Nothing is ever extracted by name. */

/** Bytes of a file by position. */
export interface ByteReader {
  /** Length of the file in bytes. */
  readonly byteLength: number;
  /**
   * Returns a copy of the bytes [begin, end), which are within the file. It may be in the start of the buffer, which
   * must have room for it.
   */
  read(begin: number, end: number, buffer?: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
}

/** One file of an archive. */
export interface ArchiveEntry {
  /** Full name with its folders, `/` between them: never absolute, without `.` and `..`. */
  readonly name: string;
  readonly method: 'stored' | 'deflated';
  /** Where its bytes begin in the archive's file: deflated ones in their compressed form. */
  readonly begin: number;
  /** The byte after the last one. */
  readonly end: number;
  /** Length in bytes, uncompressed. */
  readonly byteLength: number;
  /**
   * CRC-32 of the uncompressed bytes, as declared in the directory and not yet compared. Null in an archive without
   * checksums, where all are 0, as torch writes it after `set_crc32_options(False)`.
   */
  readonly crc32: number | null;
}

/** An archive that all readers read alike. */
export interface Archive {
  /** Its files by name, in the order of their bytes; folders are left out. */
  readonly entries: ReadonlyMap<string, ArchiveEntry>;
}
