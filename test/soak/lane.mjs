/** A lane of the soak: one operation after the other, chosen at random, until it gets the message to stop. */
import { join } from 'node:path';
import { makeFolder } from './files.mjs';
import { Random } from './random.mjs';
import { READING } from './reading.mjs';
import { WRITING } from './writing.mjs';

const OPERATIONS = Object.entries({ ...READING, ...WRITING });

/** Names of all operations; their order is that of the counts. */
export const OPERATION_NAMES = OPERATIONS.map(([name]) => name);

/** How many models all lanes share. */
export const SHARED_MODELS = 4;

// Tensors that a lane keeps of files that it has let go.
const KEPT = 4;

export class Lane {
  random;
  isMain;
  folder;
  kept = [];
  #shared;
  #server;
  #counts;

  /** `counts` has a number for each operation, shared by all threads. */
  constructor({ seed, folder, shared, server, counts, isMain }) {
    this.random = new Random(seed);
    this.folder = folder;
    this.isMain = isMain;
    this.#shared = shared;
    this.#server = server;
    this.#counts = counts;
  }

  /** The path of a model that all lanes read and replace. */
  sharedModel() {
    return join(this.#shared, `${this.random.below(SHARED_MODELS)}.safetensors`);
  }

  url(name) {
    return `http://127.0.0.1:${this.#server}/${name}.safetensors`;
  }

  /** Holds on to a tensor, in the place of an older one. */
  keep(tensor) {
    this.kept[this.random.below(KEPT)] = tensor;
  }

  /** Works until `isOver`; an error says which operation had it. */
  async work(isOver) {
    await makeFolder(this.folder, { recursive: true });
    while (!isOver()) {
      const index = this.random.below(OPERATIONS.length);
      const [name, operation] = OPERATIONS[index];
      try {
        await operation(this);
        Atomics.add(this.#counts, index, 1);
      } catch (error) {
        throw new Error(`${name}: ${error?.code ?? error?.name}`, { cause: error });
      }
    }
  }
}
