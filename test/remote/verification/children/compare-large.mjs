// Compares a copy with the Hub, or previews its repair, and prints how much memory that took at most.
// Arguments: verify|repair SOURCE FOLDER
import { download, verify } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [call, source, folder] = process.argv.slice(2);
const before = processStatus('VmRSS');
let found;
if (call === 'verify') {
  const { hub } = await verify(folder, { against: source });
  found = [hub.changed.length, hub.changed.length + hub.missing.length - 1];
} else {
  const { repaired, files } = await download(source, folder, { repair: true, dryRun: true });
  found = [repaired.length, files.length - repaired.length];
}
console.log(JSON.stringify({ found, grown: processStatus('VmHWM') - before }));
