/** Before each test file: gives the switches of this process, and of those that it starts, the file's record. */
import { join } from 'node:path';
import process from 'node:process';
import { recordName } from './suite-plan.mjs';

const { filepath } = globalThis.__vitest_worker__;
const { MUTATION_RECORDS, MUTATION_PROJECT } = process.env;
const path = filepath.slice(process.cwd().length + 1).replaceAll('\\', '/');
process.env.MUTATION_REACHED = join(MUTATION_RECORDS, recordName(MUTATION_PROJECT, path));
