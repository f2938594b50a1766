// Prints how often each shard of a checkpoint is mapped after each kind of question.
import { join } from 'node:path';
import { safeOpen } from '../../../../lib/index.js';
import { counters } from '../../../support/process-memory.mjs';

const checkpoint = safeOpen(process.argv[2]);
const mapped = () =>
  checkpoint.shards.map((name) => counters(join(process.argv[2], name)).fileMappings);
const result = { opened: mapped() };
checkpoint.keys();
result.keys = mapped();
checkpoint.has('embed');
checkpoint.has('none');
result.has = mapped();
checkpoint.byteLength();
result.byteLength = mapped();
checkpoint.metadata;
result.metadata = mapped();
checkpoint.info('b.bias');
result.info = mapped();
checkpoint.getTensor('b.weight').data;
result.again = mapped();
checkpoint.getTensors();
result.all = mapped();
const { problems } = await checkpoint.verify();
if (problems.length > 0) throw new Error(JSON.stringify(problems));
result.verified = mapped();
checkpoint.close({ detach: true });
result.closed = mapped();
console.log(JSON.stringify(result));
