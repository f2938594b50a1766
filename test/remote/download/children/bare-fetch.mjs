// Reads a file by ranges with plain `fetch`, and keeps nothing; prints the memory that it took.
import { processStatus } from '../../../support/process-memory.mjs';

const [url, byteLength] = process.argv.slice(2);
const before = processStatus('VmRSS');
const PIECE = 2 ** 22;
let received = 0;
for (let begin = 0; begin < Number(byteLength); begin += PIECE) {
  const response = await fetch(url, { headers: { range: `bytes=${begin}-${begin + PIECE - 1}` } });
  for await (const chunk of response.body) received += chunk.length;
}
console.log(JSON.stringify({ received, grown: processStatus('VmHWM') - before }));
