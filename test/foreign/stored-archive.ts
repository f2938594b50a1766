/** Regular zip archives of files that are stored. */
import type { Random } from '../support/random.js';
import { writeArchive } from './generated-archive.js';

/** The bytes of an archive as Python's zipfile writes it. One of the files may be deflated. */
export function storedArchive(
  files: Readonly<Record<string, string | Uint8Array>>,
  deflated?: string,
): Buffer {
  const plain = { pick: () => 'python', chance: () => false } as unknown as Random;
  const entries = Object.entries(files).map(([name, content]) => {
    return { name, data: Buffer.from(content as string), isDeflated: name === deflated };
  });
  return writeArchive(entries, plain);
}
