/** Mutation testing: `mutate DIRECTORY` of one directory of `src`, `mutate --all` of all of them with the test suite. */
import process from 'node:process';

await import(process.argv.includes('--all') ? './mutate-all.mjs' : './mutate-directory.mjs');
