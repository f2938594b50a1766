// Saves to the path that it is given.
import { saveFileSync } from '../../../lib/index.js';

saveFileSync(process.argv[2], {}, { durable: false });
