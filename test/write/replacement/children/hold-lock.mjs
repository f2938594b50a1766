// Locks a file and keeps it locked until it is killed.
import { openSync } from 'node:fs';
import { tryToLock } from '../../../../build/write/replacement/locks.js';

if (!tryToLock(openSync(process.argv[2], 'r'))) throw new Error('somebody else has it');
process.send('locked');
process.on('message', () => {});
