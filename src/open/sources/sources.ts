/** What `open` accepts, and the handle that it returns for it. */

import type { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { Descriptor } from '../../platform/io/paths.js';
import type { BlobFolder, ByteSource } from '../../remote/byte-source.js';
import type { RemoteCheckpoint } from '../../remote/checkpoint.js';

/** A source on this machine: a path, a `file:` URL, a descriptor or handle, or the bytes of a file. */
export type LocalSource = string | URL | Uint8Array | Descriptor;

/** A source that is read by requests: an address, Blobs, or a reader. */
export type RequestedSource = string | URL | Blob | BlobFolder | ByteSource;

/** Anything that `open` opens. */
export type Source = LocalSource | RequestedSource;

/** The text of an address. */
export type Address = `${'hf' | 'http' | 'https'}://${string}`;

/** Either handle. `local` narrows it, and `await` works on the results of both. */
export type AnyCheckpoint = Checkpoint | RemoteCheckpoint;

/** The handle of a source, as far as its type shows it. */
export type Opened<Given> = Given extends Address | Blob | BlobFolder | ByteSource
  ? RemoteCheckpoint
  : Given extends string
    ? [Given & Address] extends [never]
      ? Checkpoint
      : AnyCheckpoint
    : Given extends Uint8Array | Descriptor
      ? Checkpoint
      : AnyCheckpoint;
