/** What a zip archive holds, as its readers pass it on. Nothing is ever extracted by name. */

/** Bytes of a file by position. */
export interface ByteReader {
  /** Length of the file in bytes. */
  readonly byteLength: number;
  /** A copy of the bytes [begin, end), which lie within the file. */
  read(begin: number, end: number): Uint8Array<ArrayBuffer>;
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
   * CRC-32 of the uncompressed bytes, as the directory says; nobody has compared it yet. Null in an archive
   * without checksums, as torch writes it after `set_crc32_options(False)`: they are 0 of all its entries.
   */
  readonly crc32: number | null;
}

/** An archive of which there is only one reading. */
export interface Archive {
  /** Its files by name, in the order of their bytes; folders are left out. */
  readonly entries: ReadonlyMap<string, ArchiveEntry>;
}
