// Does one operation on a folder that is ready.
import process from 'node:process';
import { startHub } from '../hub.mjs';
import { REPOSITORIES } from '../material.mjs';
import { OPERATIONS } from '../operations.mjs';

const [name, root] = process.argv.slice(2);
const { needs, run } = OPERATIONS.find((each) => each.name === name);
if (needs === 'hub') await startHub(REPOSITORIES);
await run(root);
process.exit();
