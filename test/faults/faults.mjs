// `node test/faults/faults.mjs`: failing system calls, losses of power and kills, in every operation on files.
import process from 'node:process';
import { build } from '../../scripts/build.mjs';
import { readOptions, refuse } from '../support/options.mjs';

await build();
// These import the package.
const { failCalls } = await import('./calls.mjs');
const { kill } = await import('./kills.mjs');
const { OPERATIONS } = await import('./operations.mjs');
const { losePower } = await import('./power.mjs');

const PARTS = { calls: failCalls, power: losePower, kills: kill };

const GROUPS = [...new Set(OPERATIONS.map(({ group }) => group))];

const USAGE = `node test/faults/faults.mjs [calls power kills] [--only GROUPS] [--quick]
  calls          calls of the system that fail; each part unless told
  power          a loss of power
  kills          processes that are killed
  --only GROUPS  some operations, separated by commas: ${GROUPS.join(', ')}
  --quick        a sample of the calls and kills; the power goes as often`;

const { values, positionals } = readOptions('faults', USAGE, {
  only: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const parts = positionals.length === 0 ? Object.keys(PARTS) : positionals;
for (const part of parts)
  if (!Object.hasOwn(PARTS, part)) refuse('faults', `there is no part ${part}`);
const groups = values.only?.split(',');
for (const group of groups ?? []) {
  if (!GROUPS.includes(group)) refuse('faults', `there is no group ${group}`);
}
const chosen = OPERATIONS.filter(({ group }) => groups?.includes(group) ?? true);
for (const part of parts) {
  const { tries, problems } = await PARTS[part](chosen, values.quick);
  // A run without a single try must fail.
  if (tries === 0 || problems > 0) process.exitCode = 1;
}
