/** Torch files of one rank of several, which look like complete models. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { call, printed } from '../../cli/call.js';
import { convert, open, openTorch } from '../../support/api.js';
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
  ['another file of Megatron', ['mp_rank_00/model.pt', 'mp_rank_01/model.pt']],
  ['DeepSpeed', ['mp_rank_00_model_states.pt', 'mp_rank_01_model_states.pt']],
])('%s: each is rejected, and inspect lists it', async (_, names) => {
  for (const [rank, path] of write(...names).entries()) {
    const error = expect.objectContaining({ code: 'SAFETENSORS_DISTRIBUTED_PART' });
    await expect(openTorch(path)).rejects.toThrow(error);
    await expect(openTorch(path)).rejects.toThrow(`(rank ${rank}), not a model`);
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
])('the only rank is a model: %s', async (name) => {
  using checkpoint = await openTorch(write(name)[0] as string);
  expect(checkpoint.size).toBeGreaterThan(0);
});

it('the parameters of DeepSpeed ZeRO-3 are in other files', async () => {
  const [path = ''] = write('zero_pp_rank_0_mp_rank_00_model_states.pt');
  await expect(openTorch(path)).rejects.toThrow(
    expect.objectContaining({ foundFormat: 'deepspeed' }),
  );
});

it('a path without its folder is looked up in the working directory', async () => {
  const [path = ''] = write('mp_rank_00/model_optim_rng.pt', 'mp_rank_01/model_optim_rng.pt');
  // Workers cannot change it.
  using _ = vi.spyOn(process, 'cwd').mockReturnValue(dirname(path));
  await expect(open(basename(path), { formats: ['torch'] })).rejects.toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_DISTRIBUTED_PART' }),
  );
});

it('a folder of ranks is rejected, without advice to open its files', async () => {
  const [path = ''] = write('llama/consolidated.00.pth', 'llama/consolidated.01.pth');
  const folder = dirname(path);
  for (const args of [
    ['inspect', folder],
    ['convert', folder, temporaryPath('out')],
  ]) {
    const { code, stderr } = await call(args);
    expect(code).toBe(1);
    expect(stderr).toContain('the folder contains parts of a distributed checkpoint');
    expect(stderr).not.toContain('by their paths');
  }
  write('llama/other.pt');
  const { stderr } = await call(['convert', folder, temporaryPath('out')]);
  expect(stderr).toContain('by their paths: "other.pt"');
});

it.each([['pytorch_model.bin'], ['adapter_model.bin']])(
  'parts next to a complete %s do not count',
  async (name) => {
    const [path = ''] = write(`trained/${name}`);
    const folder = dirname(path);
    mkdirSync(join(folder, 'global_step500'));
    writeFileSync(join(folder, 'zero_to_fp32.py'), '');
    expect((await call(['inspect', folder])).code).toBe(0);
    expect((await call(['verify', folder])).code).toBe(0);
    expect((await call(['convert', folder, temporaryPath('out')])).code).toBe(0);
  },
);
