/** Lists a checkpoint in a bucket, or reads some rows of a tensor, and tells how little was fetched for that. */
import { parseArgs } from 'node:util';
import { makeClient, openInBucket, parseAddress } from './s3.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { tensor: { type: 'string' }, rows: { type: 'string', default: '0:1' } },
});
if (positionals.length !== 1) {
  console.error('usage: node read.js s3://bucket/model.safetensors [--tensor NAME] [--rows 0:1]');
  process.exit(2);
}

const client = makeClient();
const counts = { requests: 0, bytes: 0 };
let checkpoint;
try {
  checkpoint = await openInBucket(client, parseAddress(positionals[0]), counts);
  const names = values.tensor === undefined ? checkpoint.keys() : [values.tensor];
  for (const name of names) {
    const { dtype, shape } = await checkpoint.info(name);
    console.log(`${name}  ${dtype}  ${shape.join(' x ')}`);
  }
  if (values.tensor !== undefined) {
    const rows = await checkpoint.getSlice(values.tensor, values.rows);
    console.log(rows.toFloat32());
  }
  console.log(`${counts.requests} ranges, ${counts.bytes} bytes`);
} catch (error) {
  console.error(`${error.name}: ${error.message}`);
  process.exitCode = 1;
} finally {
  await checkpoint?.close();
  client.destroy();
}
