/** Looks for leaks after the tests of each file, in the process that ran them. */
import process from 'node:process';
import { afterAll } from 'vitest';

const module = { exports: {} as { checkLeaks(): void } };
process.dlopen(module, process.env['SANITIZE_LEAK_CHECK'] ?? '');

afterAll(() => module.exports.checkLeaks());
