/**
 * Reads a pickle of numpy arrays with a parser in JavaScript; the classes that the pickle names are
 * replaced by the least that gets at the bytes. Arguments: those of `measureReader`, METHOD being
 * the parser's package.
 */
import { readFile } from 'node:fs/promises';
import { requireRival } from '../rivals.js';
import { measureReader } from './measure-reader.js';

/** numpy's array; the last field of its state is what it holds. */
class NumpyArray {
  bytes: Uint8Array = new Uint8Array();
  __setstate__(state: readonly unknown[]): void {
    this.bytes = state[4] as Uint8Array;
  }
}

/** numpy's dtype, of which nothing is needed. */
class NumpyDtype {
  __setstate__(): void {}
}

/** What a pickle calls by the name of a function or a class. */
function resolve(_module: string, name: string): () => unknown {
  return name === 'dtype' ? () => new NumpyDtype() : () => new NumpyArray();
}

/** The parsers' entry points. */
interface Parsers {
  readonly Parser: new (options: object) => { parse(bytes: Uint8Array): object };
  readonly emulated: Record<string, unknown>;
  loads(text: string): object;
}

function parse(bytes: Buffer, parser: string): object {
  const { Parser, emulated, loads } = requireRival(parser) as Parsers;
  if (parser !== 'jpickle') return new Parser({ nameResolver: { resolve } }).parse(bytes);
  emulated['numpy._core.multiarray._reconstruct'] = NumpyArray;
  emulated['numpy.ndarray'] = NumpyArray;
  emulated['numpy.dtype'] = NumpyDtype;
  // It takes text of which every character is a byte.
  return loads(bytes.toString('latin1'));
}

await measureReader(async (path, parser) => {
  const arrays = Object.values(parse(await readFile(path), parser)) as NumpyArray[];
  return arrays.map((array) => () => array.bytes);
});
