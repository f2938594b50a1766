/** Uploads some tensors of a file as a file of their own, which is made while it is sent. */
import { Readable } from 'node:stream';
import { parseArgs } from 'node:util';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { safeOpen, serializeStream } from 'safetensors-mmap';
import { makeClient, parseAddress } from './s3.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { names: { type: 'string', default: '' } },
});
const [path, address] = positionals;
if (address === undefined) {
  console.error('usage: node upload.js FILE s3://bucket/key [--names REGEXP]');
  process.exit(2);
}

const client = makeClient();
let file;
try {
  file = safeOpen(path);
  const pattern = new RegExp(values.names);
  const tensors = file.getTensors(file.keys().filter((name) => pattern.test(name)));
  const stream = serializeStream(tensors, { metadata: file.metadata });
  const Body = Readable.from(stream);
  const options = { ...parseAddress(address), Body, ContentLength: stream.byteLength };
  await client.send(new PutObjectCommand(options));
  console.log(`${tensors.size} tensors, ${stream.byteLength} bytes`);
} catch (error) {
  console.error(`${error.name}: ${error.message}`);
  process.exitCode = 1;
} finally {
  file?.close();
  client.destroy();
}
