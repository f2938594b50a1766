// Converts a checkpoint with its other files, and kills itself before the n-th call that changes a name.
import { killAtCall } from './killed-at-call.mjs';

const [source, folder, last] = process.argv.slice(2);
killAtCall(last);

const { convert } = await import('../../../../lib/index.js');
await convert(source, folder, { copyOtherFiles: true, durable: false, overwrite: true });
