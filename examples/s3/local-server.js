/** A server that speaks S3, for this machine alone: to try the example without an account. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import S3rver from 's3rver';

const directory = mkdtempSync(join(tmpdir(), 'local-s3-'));
const server = new S3rver({
  address: '127.0.0.1',
  port: Number(process.env.PORT ?? 4568),
  silent: true,
  directory,
  configureBuckets: [{ name: 'models' }],
});
const { port } = await server.run();

console.log(`export AWS_ENDPOINT_URL_S3=http://127.0.0.1:${port} AWS_REGION=us-east-1`);
console.log('export AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER');

async function end() {
  await server.close();
  rmSync(directory, { recursive: true });
}
process.once('SIGINT', end);
process.once('SIGTERM', end);
