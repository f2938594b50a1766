// Edits or saves a file on request: takes `{ call, key, value, inPlace, lockTimeout }` as a message and
// answers with `done` or the code of the error.
import { editMetadata, saveFile } from '../../../../lib/index.js';

const [path] = process.argv.slice(2);

process.on('message', async ({ call, key, value, ...options }) => {
  try {
    if (call === 'save') {
      const tensor = { dtype: 'F32', shape: [100], data: new Float32Array(100) };
      const metadata = { [key]: value };
      await saveFile(path, { tensor }, { metadata, reserve: 2000, durable: false });
    } else {
      await editMetadata(path, { [key]: value }, { ...options, durable: false });
    }
    process.send('done');
  } catch (error) {
    process.send(error.code ?? String(error));
  }
});
process.send('ready');
