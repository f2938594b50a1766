// Saves to the path that it is given, as another user. Run by the superuser. That user may be unable to enter
// the folder of this file, or that of Node, so everything is loaded before the rights are given up.
import { mappingStatus, saveFile } from '../../../../lib/index.js';

mappingStatus();
// Without groups but its own.
process.setgroups([]);
process.setgid(12_345);
process.setuid(12_345);
await saveFile(process.argv[2], {}, { durable: false });
