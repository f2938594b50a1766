/** Where things are: what is compiled runs in `build/benchmarks`, the rest stays in `benchmarks`. */
import { join } from 'node:path';

/** Root of the repository. */
export const ROOT_FOLDER: string = join(import.meta.dirname, '../..');

/** `benchmarks/`: sources of the programs in Python and C, packages of the rivals, results. */
export const SOURCE_FOLDER: string = join(ROOT_FOLDER, 'benchmarks');

/** Children in TypeScript, compiled. */
export const NODE_CHILDREN: string = join(import.meta.dirname, 'children');

/** Children in Python. */
export const PYTHON_CHILDREN: string = join(SOURCE_FOLDER, 'children');
