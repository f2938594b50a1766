// Prints whether buffers are counted in a process with other facts, such as
// {"versions": {"bun": "1.4.5"}}, or with so many bytes of addresses left: {"addresses": 5e8}.
// node buffer-counting.mjs <facts>
import { execFileSync } from 'node:child_process';
import process from 'node:process';
import { mappingStatus } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const { versions, release, variables, addresses } = JSON.parse(process.argv[2]);

/** JSON has no undefined. */
const changed = (facts, changes = {}) =>
  Object.fromEntries(Object.entries({ ...facts, ...changes }).map(([k, v]) => [k, v ?? undefined]));

const facts = {
  versions: changed(process.versions, versions),
  release: changed(process.release, release),
  config: { variables: changed(process.config.variables, variables) },
};
for (const [name, value] of Object.entries(facts)) Object.defineProperty(process, name, { value });
if (addresses !== undefined) {
  const limit = processStatus('VmSize') + addresses;
  execFileSync('prlimit', ['--pid', String(process.pid), `--as=${limit}`]);
}
console.log(JSON.stringify(mappingStatus().buffers));
