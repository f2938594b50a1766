/** The embedding table of one version of the file, and what requests compute from it. */
import { TENSOR } from './make-table.js';

export class Table {
  #file;
  #tensor;
  version;
  shape;

  /** Takes over an open file; closes it if it has no table. */
  constructor(file) {
    this.#file = file;
    try {
      this.#tensor = file.getTensor(TENSOR);
      this.shape = this.#tensor.shape;
      if (this.shape.length !== 2) throw new Error(`${TENSOR} is not a matrix`);
    } catch (error) {
      file.close();
      throw error;
    }
    this.version = file.metadata?.get('version') ?? 'unknown';
  }

  /** Stored rows. */
  rows(ids) {
    return this.#tensor.takeAsync(ids);
  }

  /** The mean of some rows, of length 1. */
  async embed(ids) {
    const values = await this.#tensor.takeFloat32Async(ids);
    const [, width] = this.shape;
    const mean = new Float32Array(width);
    for (let i = 0; i < values.length; i += width) {
      for (let k = 0; k < width; k++) mean[k] += values[i + k];
    }
    let squares = 0;
    for (const value of mean) squares += value * value;
    const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares);
    return mean.map((value) => value * scale);
  }

  /** Requests that run still have the tensor. The mapping is released when the last of them ends. */
  close() {
    this.#file.close();
  }
}
