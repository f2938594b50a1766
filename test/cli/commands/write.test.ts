/** `convert`, `split`, `join` and `scan`. */
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { unicode } from '../../foreign/pickle/pickle-bytes.js';
import { dict, legacyFile, tensor as torchTensor } from '../../foreign/torch/legacy-file.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { writeTensors } from '../../support/write-tensors.js';
import { type Called, call, printed, toTarget } from '../call.js';
import { LAYERED } from '../models.js';

const TORCH = join(root, 'test/fixtures/torch');

async function names(source: string): Promise<string[]> {
  const { tensors } = JSON.parse(await printed(['inspect', source, '--sort', 'name', '--json']));
  return tensors.map(({ name }: { name: string }) => name);
}

it.each(['convert', 'split', 'join', 'join several'])(
  '%s lists patterns without a match',
  async (kind) => {
    const path = writeTemporary(LAYERED);
    const more = temporaryPath('more.safetensors');
    writeTensors(more, { more: { dtype: 'U8', shape: [1], data: new Uint8Array(1) } });
    const [command = ''] = kind.split(' ');
    const sources = kind === 'join several' ? [path, more] : [path];
    const args = [command, ...sources, ...toTarget(command, temporaryPath('target'))];
    args.push('--filter', 'model.*', '--filter', 'modle.*', '--exclude', '*.scale');
    args.push(
      '--exclude',
      'bias*',
      '--rename',
      'model.layers.*=>layers.*',
      '--rename',
      'lost=>found',
    );
    const unmatched = ['--filter modle.*', '--exclude bias*', '--rename lost=>found'];
    expect(JSON.parse(await printed([...args, '--dry-run', '--json']))).toMatchObject({
      unmatched,
    });
    const text = await printed(args);
    for (const one of unmatched) expect(text).toContain(`warning: no tensor matches ${one}\n`);
    expect(text.split('no tensor matches').length).toBe(4);
    const none = await printed([...args.slice(0, -12), '--filter', 'model.*', '--force', '--json']);
    expect(JSON.parse(none).unmatched).toBe(undefined);
  },
);

describe('split and join', () => {
  it.each(['split', 'join'])('%s does not take - for a folder', async (command) => {
    const path = writeTemporary(LAYERED);
    const { code, stderr } = await call([command, path, ...toTarget(command, '-')]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('`convert SOURCE -` writes')]);
  });

  it('join does not put a file of all tensors in place of a shard without --force', async () => {
    const folder = temporaryPath('shards');
    writeCheckpoint(TWO_SHARDS, folder);
    const [shard = ''] = readdirSync(folder).filter((name) => name.includes('00001'));
    const before = readFileSync(join(folder, shard));
    const args = ['join', folder, '-o', join(folder, shard)];
    const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
    expect(plan.replaced).toEqual([{ name: shard, byteLength: before.length }]);
    const { code, stderr } = await call(args);
    expect([code, stderr]).toEqual([1, expect.stringContaining('SAFETENSORS_TARGET_EXISTS')]);
    expect(readFileSync(join(folder, shard))).toEqual(before);
    await printed([...args, '--force']);
    expect((await names(join(folder, shard))).length).toBeGreaterThan(1);
  });

  it('write the same tensors in other files, as they said', async () => {
    const path = writeTemporary(LAYERED);
    const folder = join(dirname(path), 'split');
    const args = ['split', path, folder, '--max-shard-size', '1KB'];
    const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
    expect(existsSync(folder)).toBe(false);
    const done = JSON.parse(await printed([...args, '--json']));
    expect(done).toEqual({ ...plan, dryRun: false, overflowed: {} });
    expect(readdirSync(folder).toSorted()).toEqual([...done.files, done.index].toSorted());
    expect((await call(['diff', path, folder])).code).toBe(0);
    const joined = join(dirname(path), 'joined.safetensors');
    await printed(['join', folder, '-o', joined]);
    expect((await call(['diff', path, joined])).code).toBe(0);
    expect((await call(['join', folder, '-o', path, '--copy-other-files'])).code).toBe(2);
  });

  it.each(['split', 'join', 'convert'])('%s renames', async (command) => {
    const path = writeTemporary([
      { name: 'model.0.w', dtype: 'U8', shape: [2] },
      { name: 'model.1.w', dtype: 'U8', shape: [3] },
      { name: 'head', dtype: 'U8', shape: [1] },
    ]);
    const target = join(dirname(path), command === 'split' ? 'parts' : 'renamed.safetensors');
    const rules = ['--rename', 'model.*.w=>layers.*.weight', '--rename', '*=>lm_*'];
    await printed([command, path, ...toTarget(command, target), '--exclude', '*.1.*', ...rules]);
    expect(await names(target)).toEqual(['layers.0.weight', 'lm_head']);
    const clash = await call([command, path, ...toTarget(command, target), '--rename', '*=>same']);
    expect([clash.code, clash.stderr]).toEqual([1, expect.stringContaining('same')]);
    const wrong = await call([command, path, ...toTarget(command, target), '--rename', 'a']);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('PATTERN=>NEW')]);
  });

  it('select and cast, and copy other files', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    writeBelow(folder, 'config.json', '{}');
    const target = temporaryPath('joined');
    const joining = [
      'join',
      folder,
      '-o',
      target,
      '--filter',
      'b.*',
      '--copy-other-files',
      '--json',
    ];
    const planned = JSON.parse(await printed([...joining, '--dry-run']));
    expect(planned.copied).toEqual(['config.json']);
    expect(JSON.parse(await printed(joining))).toEqual({
      ...planned,
      dryRun: false,
      overflowed: {},
    });
    expect(readdirSync(target).toSorted()).toEqual(['config.json', 'model.safetensors']);
    expect(await names(target)).toEqual(['b.bias', 'b.weight']);
    const path = writeTemporary(LAYERED);
    const args = ['split', path, temporaryPath('cast'), '--dtype', 'F32', '--json'];
    const plan = JSON.parse(await printed([...args, '--dry-run']));
    expect(JSON.parse(await printed(args))).toEqual({ ...plan, dryRun: false, overflowed: {} });
    expect(plan.castCount).toBe(7);
  });

  it.each(['bf16', 'Bfloat16', 'torch.bfloat16', 'BF16'])(
    'cast to %s, in files of 20M',
    async (dtype) => {
      const path = writeTemporary(LAYERED);
      const args = ['split', path, temporaryPath('cast'), '--dtype', dtype, '--json'];
      const { castCount } = JSON.parse(await printed([...args, '--max-shard-size', '20M']));
      expect(castCount).toBe(2);
    },
  );
});

describe('convert SOURCE -', () => {
  it('writes one file to the standard output, and its report to the other one', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const target = temporaryPath('one.safetensors');
    await printed(['convert', folder, target, '--dtype', 'F32']);
    const { code, stdout, stderr, bytes } = await call(['convert', folder, '-', '--dtype', 'F32']);
    expect([code, stdout]).toEqual([0, '']);
    expect(Buffer.compare(bytes as Buffer, readFileSync(target))).toBe(0);
    expect(stderr).toMatch(/^-: 1 file, .* of tensors\n/);
    const dry = await call(['convert', folder, '-', '--dry-run', '--json'], { columns: 80 });
    expect([dry.code, dry.stderr, dry.bytes]).toEqual([0, '', undefined]);
    expect(JSON.parse(dry.stdout)).toMatchObject({ target: '-', files: ['-'], overflowed: null });
  });

  it('refuses a terminal, options of folders, and wrong sources', async () => {
    const path = writeTemporary(LAYERED);
    const onTerminal = await call(['convert', path, '-'], { columns: 80 });
    expect([onTerminal.code, onTerminal.bytes]).toEqual([2, undefined]);
    expect(onTerminal.stderr).toContain('found a terminal');
    for (const option of ['--max-shard-size=1KB', '--copy-other-files']) {
      const { code, stderr } = await call(['convert', path, '-', option]);
      expect([code, stderr]).toEqual([2, expect.stringContaining('is one file')]);
    }
    const none = await call(['convert', path, '-', '--filter', 'nothing']);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('no name matches')]);
  });
});

it.each(['join', 'convert', 'split'])('%s makes the folders it needs', async (command) => {
  const above = temporaryPath('new');
  const name = command === 'split' ? 'parts' : 'model.safetensors';
  const path = writeTemporary(LAYERED);
  await printed([command, path, ...toTarget(command, join(above, 'folder', name))]);
  expect((await call(['diff', path, join(above, 'folder', name)])).code).toBe(0);
  // A call that fails leaves none.
  const failed = toTarget(command, join(above, 'other', 'folder', name));
  const failing = [command, path, ...failed, '--dtype', 'F8_E4M3'];
  const ending = new AbortController();
  const calling = call(failing, undefined, ending.signal);
  ending.abort();
  expect((await calling).code).toBe(1);
  expect(readdirSync(above)).toEqual(['folder']);
});

it.each(['split', 'convert'])('%s takes a number alone as bytes', async (command) => {
  const path = writeTemporary(LAYERED);
  const files = async (size: string): Promise<unknown> => {
    const options = ['--max-shard-size', size, '--dry-run', '--json'];
    return JSON.parse(await printed([command, path, 'target', ...options])).files;
  };
  expect(await files('600')).toEqual(await files('600B'));
  const target = temporaryPath('parts');
  await printed([command, path, target, '--max-shard-size', '600']);
  expect(readdirSync(target)).toEqual(expect.arrayContaining((await files('600B')) as string[]));
  for (const options of [[], ['--dry-run']]) {
    const { code, stderr } = await call([
      command,
      path,
      target,
      '--max-shard-size',
      '600X',
      ...options,
    ]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^safetensors-mmap: --max-shard-size must be .*, but is "600X"/);
  }
});

describe('a file without tensors', () => {
  it.each([
    ['split', 'folder'],
    ['join', 'folder'],
    ['join', 'file.safetensors'],
    ['convert', 'file.safetensors'],
    ['convert', 'folder'],
  ])('is written by %s to a %s, as it said', async (command, name) => {
    const target = temporaryPath(name);
    const args = [command, writeTemporary([]), ...toTarget(command, target), '--json'];
    const plan = JSON.parse(await printed([...args, '--dry-run']));
    expect(plan).toMatchObject({ byteLength: 0, files: [expect.stringMatching(/\.safetensors$/)] });
    expect(JSON.parse(await printed(args))).toEqual({ ...plan, dryRun: false, overflowed: {} });
    expect(await names(target)).toEqual([]);
  });
});

it.each(['split', 'join', 'convert'])(
  '%s refuses a filter that leaves nothing',
  async (command) => {
    const nothing = ['--filter', 'x*', '--filter', 'y*'];
    for (const options of [[], ['--dry-run']]) {
      const target = temporaryPath('target');
      const args = [
        command,
        writeTemporary(LAYERED),
        ...toTarget(command, target),
        ...nothing,
        ...options,
      ];
      const { code, stdout, stderr } = await call(args);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toBe('safetensors-mmap: no name matches --filter x* --filter y*\n');
      expect(stderr).not.toContain('ERR_');
      expect(existsSync(target)).toBe(false);
    }
  },
);

it.each(['split', 'join', 'convert'])('%s says that everything is excluded', async (command) => {
  const choice = ['--filter', 'model*', '--exclude', '*'];
  const target = toTarget(command, temporaryPath('target'));
  const args = [command, writeTemporary(LAYERED), ...target, ...choice];
  const { code, stderr } = await call(args);
  expect(code).toBe(1);
  expect(stderr).toBe('safetensors-mmap: --filter model* --exclude * leaves no tensor\n');
});

describe('a signal', () => {
  it('ends a command that writes, which leaves nothing behind', async () => {
    const path = writeTemporary(LAYERED);
    const folder = temporaryPath('split');
    const ending = new AbortController();
    const calling = call(
      ['split', path, folder, '--max-shard-size', '1KB'],
      undefined,
      ending.signal,
    );
    ending.abort();
    expect(await calling).toEqual({ code: 1, stdout: '', stderr: '' });
    expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
  });
});

describe('a target below a file', () => {
  it.each([
    ['split', 'out'],
    ['join', 'out'],
    ['join', 'out.safetensors'],
    ['convert', 'out.safetensors'],
  ])('is said to be one: %s to %s', async (command, name) => {
    const source = writeTemporary(LAYERED);
    const file = writeTemporary(LAYERED);
    for (const options of [[], ['--dry-run']]) {
      const { code, stderr } = await call([
        command,
        source,
        ...toTarget(command, join(file, name)),
        ...options,
      ]);
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /^safetensors-mmap: E\w+: .*; expected a folder there, found a file\n$/,
      );
    }
  });
});

describe('convert', () => {
  it('makes safetensors of a PyTorch checkpoint', async () => {
    const target = temporaryPath('converted.safetensors');
    const source = join(TORCH, 'zip-lightning.ckpt');
    const plan = JSON.parse(await printed(['convert', source, target, '--dry-run', '--json']));
    expect(existsSync(target)).toBe(false);
    expect(plan).toMatchObject({ dryRun: true, files: ['converted.safetensors'] });
    const done = JSON.parse(await printed(['convert', source, target, '--json']));
    expect(done).toEqual({ ...plan, dryRun: false, overflowed: {} });
    expect(await names(target)).toEqual(['b', 'w']);
    const rooted = await call(['convert', source, `${target}2.safetensors`, '--root', 'nowhere']);
    expect(rooted.code).toBe(1);
  });

  it('says where the state dict was, and which names are one tensor', async () => {
    const convert = (name: string, ...options: string[]): Promise<string> =>
      printed([
        'convert',
        join(TORCH, name),
        temporaryPath('out.safetensors'),
        '--force',
        ...options,
      ]);
    expect(await convert('zip-lightning.ckpt')).toMatch(/^root: state_dict$/m);
    expect(await convert('zip-tied.pt')).toMatch(
      /^written once: embed\.weight, as lm_head\.weight$/m,
    );
    const { dropped } = JSON.parse(await convert('zip-tied.pt', '--json'));
    expect(dropped).toEqual({ 'embed.weight': 'lm_head.weight' });
  });

  it('plans with the same choices', async () => {
    const target = temporaryPath('planned.safetensors');
    const plan = async (source: string, ...options: string[]): Promise<unknown> =>
      JSON.parse(
        await printed(['convert', join(TORCH, source), target, '--dry-run', '--json', ...options]),
      );
    const ema = await plan('zip-two-roots.pth', '--root', 'ema');
    expect(ema).toMatchObject({ dryRun: true, files: ['planned.safetensors'] });
    await plan('zip-namespace.pt', '--unknown-globals', 'placeholder');
  });

  it('plans tied tensors as they are written: once', async () => {
    const tensor = torchTensor('0', [160]);
    const state = dict([unicode('embed.weight'), tensor], [unicode('lm_head.weight'), tensor]);
    const source = legacyFile(state, { 0: 160 });
    const args = ['convert', source, temporaryPath('tied'), '--max-shard-size', '1kB', '--json'];
    const plan = JSON.parse(await printed([...args, '--dry-run']));
    expect(plan).toMatchObject({ files: ['model.safetensors'], index: null, byteLength: 640 });
    expect(plan.dropped).toEqual({ 'lm_head.weight': 'embed.weight' });
    expect(JSON.parse(await printed(args))).toEqual({ ...plan, dryRun: false, overflowed: {} });
  });

  it('takes what matches any --filter and no --exclude, and says how to leave out what it cannot hold', async () => {
    const plain = torchTensor('0', [2]);
    const complex = plain.replace('_v2', '_v3').replace(/tR$/, 'ctorch\ncomplex32\ntR');
    const tensors = { 'a.w': plain, 'b.w': torchTensor('1', [2]), 'b.x': complex, 'c.x': complex };
    const entries = Object.entries(tensors).map(([name, value]) => [unicode(name), value] as const);
    const path = legacyFile(dict(...entries), { 0: 2, 1: 2 });
    const convert = (...options: string[]): Promise<Called> =>
      call(['convert', path, temporaryPath('out.safetensors'), '--force', ...options]);
    const advice = /; leave such tensors out: --exclude GLOB.*\n$/;
    expect((await convert()).stderr).toMatch(advice);
    expect((await convert('--filter', '*.w', '--filter', 'c.*')).stderr).toMatch(advice);
    const target = temporaryPath('out.safetensors');
    const args = ['convert', path, target, '--filter', 'a.*', '--filter', 'b.*'];
    const plan = await printed([...args, '--exclude', '*.x', '--dry-run']);
    expect(plan).toContain('\nwould leave out 2 tensors: b.x, c.x\n');
    const json = JSON.parse(await printed([...args, '--exclude', '*.x', '--dry-run', '--json']));
    expect(json.excluded).toEqual(['b.x', 'c.x']);
    expect(await printed([...args, '--exclude', '*.x'])).not.toContain('leave');
    expect(await names(target)).toEqual(['a.w', 'b.w']);
    const left = temporaryPath('out.safetensors');
    await printed(['convert', path, left, '--force', '--exclude', '*.x', '--exclude', 'a.*']);
    expect(await names(left)).toEqual(['b.w']);
  });

  it('refuses what would run code, and leaves nothing', async () => {
    const target = temporaryPath('evil.safetensors');
    const { code, stderr } = await call(['convert', join(TORCH, 'evil-os-system.pt'), target]);
    expect(code).toBe(1);
    expect(stderr).toContain('SAFETENSORS_FORBIDDEN_GLOBAL');
    expect(existsSync(target)).toBe(false);
  });

  it('is wrong use with a dtype that there is not', async () => {
    for (const options of [
      ['--dtype', 'I8'],
      ['--unknown-globals', 'run'],
    ]) {
      const { code, stderr } = await call(['convert', 'x', 'y', ...options]);
      expect(code).toBe(2);
      expect(stderr).toContain(`${options[0]} takes`);
    }
  });
});

describe('scan', () => {
  it.each([
    ['zip-state-dict.pt', 0, 'safe'],
    ['evil-os-system.pt', 1, 'suspicious'],
    ['zip-truncated.pt', 1, 'malformed'],
    ['np-f4.npy', 0, 'no-pickle'],
    ['zip-namespace.pt', 1, 'needs-code'],
  ])('of %s has the exit code %i and the verdict %s', async (name, code, verdict) => {
    const path = join(TORCH, name);
    const called = await call(['scan', path, '--json']);
    expect(called.code).toBe(code);
    expect(JSON.parse(called.stdout)).toMatchObject({ source: path, verdict });
  });
});

it('--dtype leaves scales of weights that are in another shard', async () => {
  const folder = join(root, 'test/fixtures/quantized/fp8-block-bf16-scales-other-shard');
  const args = ['convert', join(folder, 'model-00002-of-00002.safetensors')];
  const target = temporaryPath('shard.safetensors');
  const done = JSON.parse(await printed([...args, target, '--dtype', 'F16', '--json']));
  expect(done.notCast).toContainEqual(expect.stringMatching(/\.weight_scale_inv$/));
  const { tensors } = JSON.parse(await printed(['inspect', target, '--json']));
  const scales = tensors.filter(({ name }: { name: string }) => name.endsWith('_scale_inv'));
  expect(scales.map(({ dtype }: { dtype: string }) => dtype)).not.toContain('F16');
});

describe('--dequantize', () => {
  const source = join(root, 'test/fixtures/quantized/bnb-nf4-nested');

  it.each(['convert', 'split', 'join'])(
    'of %s writes plain weights and config',
    async (command) => {
      const target = temporaryPath('plain');
      const choice = ['--dequantize', 'F16', '--copy-other-files'];
      const args = [command, source, ...toTarget(command, target), ...choice, '--force'];
      const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
      const done = JSON.parse(await printed([...args, '--json']));
      expect(done).toMatchObject({ ...plan, dryRun: false, overflowed: {} });
      expect(plan).toMatchObject({ castCount: 0, dequantizedCount: 2, notCast: [], excluded: [] });
      for (const options of [['--dry-run'], []]) {
        expect(await printed([...args, ...options])).toMatch(/^2 tensors dequantized$/m);
      }
      const { tensors } = JSON.parse(await printed(['inspect', target, '--json']));
      const dtypes = tensors.map(({ name, dtype }: { name: string; dtype: string }) => [
        name,
        dtype,
      ]);
      expect(dtypes).toContainEqual(['model.layers.0.mlp.up_proj.weight', 'F16']);
      const config = JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'));
      expect(config.quantization_config).toBe(undefined);
    },
  );

  it('takes dtypes of weights, and is for safetensors', async () => {
    expect(await call(['convert', source, 'x', '--dequantize', 'F8_E4M3'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--dequantize takes BF16, F16, F32'),
    });
    const torch = join(TORCH, 'zip-state-dict.pt');
    expect(await call(['convert', torch, temporaryPath('x'), '--dequantize', 'F16'])).toMatchObject(
      {
        code: 2,
        stderr: expect.stringContaining('--dequantize must be left out for a torch file'),
      },
    );
  });

  it('names what cannot be dequantized', async () => {
    const bad = join(root, 'test/fixtures/quantized/bad-missing-scale');
    const called = await call(['convert', bad, temporaryPath('x'), '--dequantize', 'BF16']);
    expect(called.code).toBe(1);
    expect(called.stderr).toMatch(
      /"model\.layers\.0\.mlp\.down_proj\.weight": F8_E4M3 codes without a scale/,
    );
  });

  it('names integers that are no codes, and the option that leaves them out', async () => {
    const path = temporaryPath('tokens.safetensors');
    const data = { dtype: 'F32', shape: [1], data: Float32Array.of(2) } as const;
    writeTensors(path, {
      'm.weight': { dtype: 'F8_E4M3', shape: [2, 2], data: new Uint8Array(4) },
      'm.weight_scale': data,
      tokens: { dtype: 'I32', shape: [4], data: new Int32Array(4) },
      tokens_scale: data,
    });
    const target = temporaryPath('plain.safetensors');
    const args = ['convert', path, target, '--dequantize', 'BF16'];
    const failed = await call(args);
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('tensor "tokens"')]);
    expect(failed.stderr).toContain('leave such tensors out: --exclude GLOB');
    await printed([...args, '--exclude', 'tokens*']);
    expect(await names(target)).toEqual(['m.weight']);
  });

  it.each(['model.safetensors', '.'])('warns of configurations at the target: %s', async (name) => {
    const target = temporaryPath('plain');
    writeBelow(target, 'config.json', '{"quantization_config":{"quant_method":"fp8"}}');
    writeBelow(target, 'hf_quant_config.json', '{}');
    const bare = temporaryPath('bare.safetensors');
    cpSync(join(source, 'model.safetensors'), bare);
    const args = ['convert', bare, join(target, name), '--dequantize', 'BF16'];
    const text = 'warning: config.json lists quantization_config, but the tensors are BF16';
    const plan = await printed([...args, '--dry-run']);
    const done = await printed(args);
    for (const one of [plan, done]) {
      expect(one).toContain(text);
      // A folder loses configurations about quantization alone.
      expect(one.includes('hf_quant_config.json lists')).toBe(name !== '.');
    }
    expect(existsSync(join(target, 'hf_quant_config.json'))).toBe(name !== '.');
  });
});

describe('--dtype of floats of 8 bits without scales', () => {
  it.each(['convert', 'split', 'join'])('%s fails when it casts nothing', async (command) => {
    const source = temporaryPath('f8.safetensors');
    const data = new Uint8Array(4);
    const small = { dtype: 'F8_E4M3', shape: [4], data } as const;
    writeTensors(source, { a: small, b: small });
    const target = temporaryPath('cast');
    const args = [command, source, ...toTarget(command, target), '--dtype'];
    const { code, stderr } = await call([...args, 'BF16']);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(
        'nothing was cast: 2 tensors in floats of 8 bits or less stay unchanged',
      ),
    ]);
    expect(existsSync(target)).toBe(false);
    expect((await call([...args, 'F8_E4M3'])).code).toBe(0);
  });
});

describe('--dtype of a quantized model', () => {
  const source = join(root, 'test/fixtures/quantized/bnb-nf4-nested');
  const fp8 = join(root, 'test/fixtures/quantized/fp8-per-tensor-scalar');

  it.each(['convert', 'split', 'join'])('%s fails when it casts nothing', async (command) => {
    const target = temporaryPath('cast');
    const cast = [command, fp8, ...toTarget(command, target), '--force', '--dtype'];
    const message = 'nothing was cast: 2 weights are FP8-quantized; use `--dequantize BF16`';
    for (const more of [[], ['--dry-run'], ['--json']]) {
      const called = await call([...cast, 'BF16', ...more]);
      expect(called.code).toBe(1);
      expect(called.stdout + called.stderr).toContain(message);
      expect(existsSync(target)).toBe(false);
    }
    const filtered = ['--filter', '*.0.self_attn.q_proj.*'];
    const one = await call([...cast, 'BF16', ...filtered]);
    expect(one.stderr).toContain('1 weight is FP8-quantized');
    // Norms of BF16 are cast, or not quantized and as they should be.
    const norm = [...cast, 'BF16', '--filter', '*norm*'];
    expect((await call(norm)).code).toBe(0);
    expect((await call([...cast, 'F16'])).code).toBe(0);
  });

  it.each(['convert', 'split', 'join'])('%s leaves code books, and says so', async (command) => {
    const target = toTarget(command, temporaryPath('cast'));
    const args = [command, source, ...target, '--dtype', 'F16', '--force'];
    const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
    const done = JSON.parse(await printed([...args, '--json']));
    expect(done).toMatchObject({ ...plan, dryRun: false, overflowed: {} });
    expect(plan.castCount).toBe(3);
    expect(plan.notCast).toHaveLength(6);
    expect(plan.notCast).toContain('model.layers.0.mlp.up_proj.weight.quant_map');
    for (const options of [['--dry-run'], []]) {
      expect(await printed([...args, ...options])).toMatch(
        /^6 tensors not cast, as parts of quantized weights: .*up_proj\.weight\.nested_absmax/m,
      );
    }
  });
});
