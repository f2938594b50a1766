// Announces that it is ready, runs an operation once in the folder that a message names, and announces its end.
import process from 'node:process';
import { load, OPERATIONS } from '../operations.mjs';

const [name] = process.argv.slice(2);
const { group, run } = OPERATIONS.find((each) => each.name === name);
process.on('message', async ({ root }) => {
  const began = performance.now();
  try {
    await run(root);
    process.send({ milliseconds: performance.now() - began });
  } catch (error) {
    process.send({ code: error.code, error: String(error.stack) });
  }
});
await load(group);
process.send('ready');
