// Compares a copy with the Hub, or previews its repair, and prints how much memory that took at most.
// Arguments: verify|repair SOURCE FOLDER
import { download, verify } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [call, source, folder] = process.argv.slice(2);
const before = processStatus('VmRSS');
let found;
if (call === 'verify') {
  const { hub } = await verify(folder, { against: source });
  found = hub.changed.length;
} else {
  const { repaired } = await download(source, folder, { repair: true, dryRun: true });
  found = repaired.length;
}
console.log(JSON.stringify({ found, grown: processStatus('VmHWM') - before }));
