// `npm run faults`: what comes of calls of the system that fail (`calls`), of a loss of power (`power`) and of
// kills (`kills`); all unless told. `--only save,edit` chooses groups of operations; `--quick` tries fewer faults.
import process from 'node:process';
import { parseArgs } from 'node:util';
import { failCalls } from './calls.mjs';
import { kill } from './kills.mjs';
import { OPERATIONS } from './operations.mjs';
import { losePower } from './power.mjs';

const PARTS = { calls: failCalls, power: losePower, kills: kill };

function refuse(text) {
  console.error(`faults: ${text}`);
  process.exit(2);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string' }, quick: { type: 'boolean', default: false } },
});
const parts = positionals.length === 0 ? Object.keys(PARTS) : positionals;
for (const part of parts) if (!(part in PARTS)) refuse(`there is no part ${part}`);
const groups = values.only?.split(',');
for (const group of groups ?? []) {
  if (!OPERATIONS.some((each) => each.group === group)) refuse(`there is no group ${group}`);
}
const chosen = OPERATIONS.filter(({ group }) => groups?.includes(group) ?? true);
for (const part of parts) {
  const { tries, problems } = await PARTS[part](chosen, values.quick);
  // A run that tries nothing shows nothing.
  if (tries === 0 || problems > 0) process.exitCode = 1;
}
