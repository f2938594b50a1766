/** Torch files of one rank of several, which look like complete models. */
import { cpSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { convert, openTorchCheckpoint } from '../../../src/convert.js';
import { call, printed } from '../../cli/call.js';
import { temporaryPath } from '../../support/make-file.js';

const FILE = join(import.meta.dirname, '../../fixtures/torch/zip-state-dict.pt');

/** Copies a torch file to these places. */
function write(...names: readonly string[]): readonly string[] {
  return names.map((name) => {
    const path = temporaryPath(name);
    mkdirSync(dirname(path), { recursive: true });
    cpSync(FILE, path);
    return path;
  });
}

it.each([
  ['Llama', ['consolidated.00.pth', 'consolidated.01.pth']],
  ['Megatron', ['mp_rank_00/model_optim_rng.pt', 'mp_rank_01/model_optim_rng.pt']],
  [
    'Megatron with pipelines',
    ['mp_rank_00_000/model_optim_rng.pt', 'mp_rank_01_000/model_optim_rng.pt'],
  ],
])('%s: each is rejected, and inspect lists it', async (_, names) => {
  for (const [rank, path] of write(...names).entries()) {
    const error = expect.objectContaining({ code: 'SAFETENSORS_DISTRIBUTED_PART' });
    expect(() => openTorchCheckpoint(path)).toThrow(error);
    expect(() => openTorchCheckpoint(path)).toThrow(`(rank ${rank}), not a model`);
    await expect(convert(path, temporaryPath('out'))).rejects.toThrow(error);
    expect((await call(['show', path, 'w'])).code).toBe(1);
    const kind = `part of a distributed checkpoint (rank ${rank})`;
    expect(JSON.parse(await printed(['inspect', path, '--json']))).toMatchObject({ kind });
  }
});

it.each([
  ['consolidated.00.pth'],
  ['mp_rank_00/model_optim_rng.pt'],
  ['mp_rank_00_model_states.pt'],
])('the only rank is a model: %s', (name) => {
  using checkpoint = openTorchCheckpoint(write(name)[0] as string);
  expect(checkpoint.size).toBeGreaterThan(0);
});

it('the parameters of DeepSpeed ZeRO-3 are in other files', () => {
  const [path = ''] = write('zero_pp_rank_0_mp_rank_00_model_states.pt');
  expect(() => openTorchCheckpoint(path)).toThrow(
    expect.objectContaining({ foundFormat: 'deepspeed' }),
  );
});
