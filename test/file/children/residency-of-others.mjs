// As another user, asks about a file of the superuser. Run by the superuser.
import { safeOpen } from '../../../lib/index.js';

const file = safeOpen(process.argv[2]);
const own = file.residency();
process.setgroups([]);
process.setgid(65_534);
process.setuid(65_534);
console.log(JSON.stringify({ own, others: file.residency(), tensor: file.residency('t') }));
