/** From which lengths on files are worth threads, which take time to start and read again what was written. */

const MIB = 2 ** 20;

/** Bytes of a file whose tensors are hashed while it is written: below, the calling thread is as fast. */
export const HASHED_BYTE_LENGTH: number = 1024 * MIB;

/** Bytes of a file that is read back and compared, with digests or without. */
export const VERIFIED_BYTE_LENGTH: number = 256 * MIB;

/** Bytes of tensors that are hashed before they are streamed. */
export const STREAMED_BYTE_LENGTH: number = 64 * MIB;
