/** Random rows of a table: from the disk, and from the page cache. */
import { join } from 'node:path';
import { pick } from '../contenders.mjs';
import { tensor, writeModel, writeSparseModel } from '../models.mjs';

const READERS = pick('take takeAsync rowsLoop rowsRead');
/** The loop needs one buffer for the table, and engines have none of 100 GB. */
const SPARSE_READERS = pick('take takeAsync rowsRead');
const SINGLE_READERS = pick('take takeAsync rowsRead rowsReadAsync');
const WIDTH = 4096;
const HEIGHT = 120_000;
/** Calls of 16 rows: few of them are in what the system reads ahead for another. */
const ROWS = 16;
const COLD_CALLS = 100;
const WARM_CALLS = 1000;
const SPARSE_HEIGHT = 12_200_000;
const REQUESTS = 60_000;

/** Rows of 8 kB of a table of 1 GB, and of one of 100 GB that has no blocks on the disk. */
export const rows = {
  name: 'rows',
  prepare: async ({ folder, signal, size }) => {
    const path = join(folder, 'table.safetensors');
    await writeModel(path, [tensor('table', 'BF16', size(HEIGHT, 200), WIDTH)], signal);
    const sparse = join(folder, 'sparse.safetensors');
    await writeSparseModel(sparse, [tensor('table', 'BF16', size(SPARSE_HEIGHT, 200), WIDTH)]);
    return { path, sparse };
  },
  legs: ({ rounds, many, size }, { path, sparse }) => {
    const compared = ['firstTime', 'thirdTime'];
    const base = { contenders: READERS, path, rounds: Math.max(rounds, many(5)), compared };
    const single = { ...base, contenders: SINGLE_READERS };
    return {
      cold: { ...base, cache: 'cold', args: [`${COLD_CALLS}`, `${ROWS}`] },
      warm: { ...base, cache: 'warm', args: [`${WARM_CALLS}`, `${ROWS}`] },
      singleCold: { ...single, cache: 'cold', args: [`${COLD_CALLS * ROWS}`, '1'] },
      single: { ...single, cache: 'warm', args: [`${WARM_CALLS * ROWS}`, '1'] },
      sparse: {
        ...base,
        ...{ contenders: SPARSE_READERS, path: sparse, cache: 'cold' },
        args: [`${WARM_CALLS}`, `${ROWS}`],
      },
      server: {
        ...base,
        ...{ contenders: pick('rowServer rowServerRead'), path: sparse, cache: 'cold' },
        compared: ['answerTime'],
        args: [`${size(REQUESTS, 640)}`],
      },
    };
  },
  page: `
    ## Random rows of 8 kB as float32, rows a second
    | way | cold = cold:first # | warm, first pass = warm:first # | second = warm:second # | third = warm:third # | 100 GB, sparse = sparse:first # | one row a call, cold = singleCold:first # | warm, third pass = single:third # | requests by HTTP = server:perSecond # |
    - 16 rows a call of a table of 1 GB, unless said; the table of the loop is mapped, and its rows come by page faults
    - calls that return promises are made 16 at once
    - by HTTP, server and load share the cores; an eighth as many requests come first and are not counted
    - {reasons}
    > rows, cold: takeFloat32 against a read a row | at least 0.8 × | cold:take.first / cold:rowsRead.first | rows a second = cold:take.first # & by reads = cold:rowsRead.first #
    > rows, cold: takeFloat32Async against a read a row | at least 0.8 × | cold:takeAsync.first / cold:rowsRead.first | rows a second = cold:takeAsync.first # & by reads = cold:rowsRead.first #
    > rows, warm, third pass: takeFloat32 against a read a row | at least 0.8 × | warm:take.third / warm:rowsRead.third | rows a second = warm:take.third # & by reads = warm:rowsRead.third #
    > rows of 100 GB, sparse: takeFloat32 against a read a row | at least 0.8 × | sparse:take.first / sparse:rowsRead.first | rows a second = sparse:take.first # & by reads = sparse:rowsRead.first #
    > rows of 100 GB, sparse: takeFloat32Async against a read a row | at least 0.8 × | sparse:takeAsync.first / sparse:rowsRead.first | rows a second = sparse:takeAsync.first # & by reads = sparse:rowsRead.first #
    > one row a call, cold: takeFloat32 against a read | at least 0.9 × | singleCold:take.first / singleCold:rowsRead.first | rows a second = singleCold:take.first # & by reads = singleCold:rowsRead.first #
    > one row a call, warm: takeFloat32Async, rows a second | at least 60000 # | single:takeAsync.third | by fs.promises = single:rowsReadAsync.third #
    > rows of 100 GB by HTTP: takeAsync against fs.read | at least 0.9 × | server:rowServer.perSecond / server:rowServerRead.perSecond | rows a second = server:rowServer.perSecond # & by reads = server:rowServerRead.perSecond #
    > rows of 100 GB by HTTP, requests a second | at least 8000 # | server:rowServer.perSecond | median = server:rowServer.p50 & private memory = server:rowServer.anonymous MB
    > rows of 100 GB by HTTP, the 99th percentile | at most 10 ms | server:rowServer.p99`,
};
