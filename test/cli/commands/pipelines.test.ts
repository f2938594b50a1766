/** Commands that take pipelines of diffusers: folders and DDUF archives. */
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { FILES } from '../../foreign/dduf/pipeline-files.js';
import { storedArchive } from '../../foreign/stored-archive.js';
import { temporaryPath } from '../../support/make-file.js';
import { call, printed } from '../call.js';

it('makes a folder of an archive of a pipeline, as it said', async () => {
  const path = temporaryPath('pipeline.dduf');
  writeFileSync(path, storedArchive(FILES));
  const target = join(dirname(path), 'unpacked');
  const plan = JSON.parse(await printed(['convert', path, target, '--dry-run', '--json']));
  expect(existsSync(target)).toBe(false);
  const text = await printed(['convert', path, target]);
  expect(text).toContain('not copied: unet/diffusion_pytorch_model.fp16.safetensors');
  for (const name of [...plan.files, ...plan.copied])
    expect(existsSync(join(target, name))).toBe(true);
  const other = join(dirname(path), 'other');
  const done = JSON.parse(await printed(['convert', path, other, '--json']));
  expect(done).toEqual({ ...plan, target: other, dryRun: false, overflowed: {} });
  expect((await call(['diff', path, target])).code).toBe(0);
  for (const [option, value] of [
    ['--filter', 'a'],
    ['--rename', 'a=>b'],
    ['--root', 'a'],
  ]) {
    const { code, stderr } = await call([
      'convert',
      path,
      other,
      option as string,
      value as string,
    ]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(option as string)]);
  }
  expect((await call(['convert', path, '-'])).stderr).toContain('a DDUF archive');
});
