/** Reads files of other formats, and compares the result with Python's. */
import { createHash } from 'node:crypto';
import type { TensorFact } from '../foreign/python-reader.js';
import { type READERS, readAll } from '../foreign/readings.js';
import type { PythonAnswer } from './oracle.js';
import { Problem } from './target.js';

/** The tensors of a file, and the names of those that safetensors cannot hold; or the code of its error. */
export interface ForeignReading {
  readonly code: string | undefined;
  readonly tensors: readonly TensorFact[];
  readonly leftOut: ReadonlySet<string>;
}

/** Reads all tensors. */
export async function readForeign(
  reader: keyof typeof READERS,
  path: string,
): Promise<ForeignReading> {
  const tensors: TensorFact[] = [];
  const leftOut = new Set<string>();
  const error = await readAll(
    reader,
    path,
    (name, { dtype, shape, bytes }) => {
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      tensors.push([name, dtype, [...shape], sha256]);
    },
    (name) => leftOut.add(name),
  );
  return { code: error?.code, tensors, leftOut };
}

function inOrder(tensors: readonly TensorFact[]): TensorFact[] {
  return tensors.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Both as text, without the bytes of which Python is not sure. */
function shown(here: readonly TensorFact[], there: readonly TensorFact[]): [string, string] {
  const theirs = inOrder(there);
  const ours = inOrder(here).map(([name, dtype, shape, sha256], i) => {
    return [name, dtype, shape, theirs[i]?.[3] === null ? null : sha256];
  });
  return [JSON.stringify(ours), JSON.stringify(theirs)];
}

/**
 * Python reads the same tensors, or refuses the file, as with protocol 4. It is not asked about files that are
 * refused here. Tensors that are left out here exist in Python, of any kind; `all` when Python reads nothing in part.
 */
export function compareWithPython(
  { tensors, leftOut }: ForeignReading,
  { found }: PythonAnswer<readonly TensorFact[]>,
  all: boolean,
): void {
  if (found === undefined) return;
  const others = found.filter(([name]) => !leftOut.has(name));
  if (all && others.length + leftOut.size !== found.length) {
    throw new Problem(`Python does not have ${[...leftOut].join()}`);
  }
  const [ours, theirs] = shown(tensors, others);
  if (ours !== theirs)
    throw new Problem(`Python reads other tensors\nhere   ${ours}\nPython ${theirs}`);
}

/** Two ways of reading here that must agree. */
export function compareReadings(what: string, one: ForeignReading, other: ForeignReading): void {
  const [ours, theirs] = shown(one.tensors, other.tensors);
  if (one.code === other.code && ours === theirs) return;
  throw new Problem(`${what} differ\n${one.code} ${ours}\n${other.code} ${theirs}`);
}
