/** A conversion takes little memory, also where elements have to be gathered, and of archives. */
import { truncateSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { FILES } from '../../foreign/dduf/pipeline-files.js';
import { headerOf, npy } from '../../foreign/numpy/arrays.js';
import { storedArchive } from '../../foreign/stored-archive.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { measureInChild } from '../../support/run-child.js';

/** Two blocks of 16 MiB, six pieces of 1 MiB, and V8's own growth. */
const LIMIT = 52e6;

/** A square of F32 in Fortran order: 400 or 144 MB. */
const SIZE = nightly(10_000, 6000);

interface Growth {
  readonly anonymous: number;
  readonly resident: number;
}

/** The memory that a conversion takes. V8 collects when it likes, which only adds: the run that takes the least counts. */
async function growthOf(source: string, target: string): Promise<Growth> {
  let least: Growth = { anonymous: Number.POSITIVE_INFINITY, resident: Number.POSITIVE_INFINITY };
  for (let runs = 0; runs < 3 && least.resident >= LIMIT; runs++) {
    const script = 'write/convert/children/convert-memory.mjs';
    const growth = await measureInChild<Growth>(script, [source, target]);
    if (growth.resident < least.resident) least = growth;
  }
  return least;
}

describe.runIf(process.platform === 'linux')('a conversion', () => {
  it('in Fortran order takes two blocks of memory at most', async () => {
    const source = temporaryPath('array.npy');
    const header = npy(headerOf('<f4', `(${SIZE}, ${SIZE})`, true), Buffer.alloc(0));
    writeFileSync(source, header);
    truncateSync(source, header.length + 4 * SIZE * SIZE);
    const { anonymous, resident } = await growthOf(source, temporaryPath('model.safetensors'));
    expect(anonymous).toBeLessThan(LIMIT);
    expect(resident).toBeLessThan(LIMIT);
  });

  it('of a pipeline in an archive takes as little', async () => {
    const source = temporaryPath('pipeline.dduf');
    const bytes = new Uint8Array(nightly(2e8, 1e8)).fill(7);
    const model = fileBytes([{ name: 'a', dtype: 'U8', shape: [bytes.length], bytes }]);
    const files = { ...FILES, 'unet/diffusion_pytorch_model.safetensors': model };
    writeFileSync(source, storedArchive(files));
    const { anonymous, resident } = await growthOf(source, temporaryPath('folder'));
    expect(anonymous).toBeLessThan(LIMIT);
    expect(resident).toBeLessThan(LIMIT);
  });
});
