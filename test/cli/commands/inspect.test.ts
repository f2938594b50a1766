import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { unicode } from '../../foreign/pickle/pickle-bytes.js';
import { dict, legacyFile, tensor } from '../../foreign/torch/legacy-file.js';
import { openTorch, saveCheckpoint } from '../../support/api.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { call, golden, printed } from '../call.js';
import { HOSTILE_ENTRIES, HOSTILE_METADATA, HOSTILE_NAMES, UNSAFE_OUTPUT } from '../hostile.js';
import { LAYERED } from '../models.js';

function writeLayered(): string {
  return writeTemporary(LAYERED, { metadata: { format: 'pt', note: 'a line\nand another' } });
}

/** The output, with the folder of the test as DIR. */
async function shown(path: string, ...rest: Parameters<typeof printed>): Promise<string> {
  return (await printed(...rest)).replaceAll(dirname(path), 'DIR');
}

describe('inspect', () => {
  it.each([
    ['inspect-80', [], { columns: 80 }],
    ['inspect-120', [], { columns: 120 }],
    ['inspect-pipe', [], undefined],
    ['inspect-colors', [], { columns: 80, hasColors: true }],
    ['inspect-tree-80', ['--tree'], { columns: 80 }],
    ['inspect-tree-50', ['--tree'], { columns: 50 }],
    ['inspect-filter', ['--filter', '*.mlp.*', '--sort', 'name'], { columns: 80 }],
    ['inspect-size', ['--sort=size'], { columns: 80 }],
    ['inspect-json', ['--json'], undefined],
    ['inspect-tree-json', ['--tree', '--json'], { columns: 80, hasColors: true }],
  ] as const)('prints what %s has', async (name, options, terminal) => {
    const path = writeLayered();
    const text = await shown(path, ['inspect', path, ...options], terminal);
    await expect(text).toMatchFileSnapshot(golden(name));
  });

  it('says when no name matches --filter, and is no', async () => {
    const path = writeLayered();
    for (const options of [[], ['--tree']]) {
      const args = ['inspect', path, '--filter', 'nothing*', ...options];
      const { code, stdout, stderr } = await call(args);
      expect([code, stderr]).toEqual([1, '']);
      expect(stdout).toMatch(/\n\nno name matches --filter nothing\*\n$/);
      const json = await call([...args, '--json']);
      expect(json.code).toBe(1);
      expect(JSON.parse(json.stdout)).toMatchObject(
        options.length > 0 ? { tree: [] } : { tensors: [] },
      );
    }
    expect((await call(['inspect', path, '--filter', '*'])).code).toBe(0);
    expect((await call(['inspect', writeTemporary([])])).code).toBe(0);
  });

  it('begins with the tree, not with a line for each of 163 files', async () => {
    const names = Array.from({ length: 163 }, (_, i) => `layers.${i}.weight`);
    const data = new Uint8Array(4);
    const tensors = names.map((name) => [name, { dtype: 'U8', shape: [4], data }] as const);
    const folder = temporaryPath('shards');
    await saveCheckpoint(folder, new Map(tensors), { maxShardSize: 4, durable: false });
    const lines = (await printed(['inspect', folder, '--tree'])).split('\n');
    expect(lines.length).toBeLessThan(15);
    expect(lines.join('\n')).toContain('163 files');
    expect(lines.join('\n')).not.toContain('model-00002');
    const { files } = JSON.parse(await printed(['inspect', folder, '--tree', '--json']));
    expect(files).toHaveLength(163);
  });

  it.each([
    [200, [], false],
    [201, [], true],
    [201, ['--filter', 'layers.1*'], false],
    [201, ['--all'], false],
    [201, ['--sort', 'name'], false],
    [201, ['--tree'], true],
  ] as const)('shows %i tensors with %j as a tree: %s', async (count, options, isTree) => {
    const names = Array.from({ length: count }, (_, i) => `layers.${i}.weight`);
    const path = writeTemporary(names.map((name) => ({ name, dtype: 'U8', shape: [4] })));
    const text = await printed(['inspect', path, ...options]);
    expect(text).toMatch(new RegExp(`^tensors +${count}$`, 'm'));
    expect(text.includes(`layers.0-${count - 1}`)).toBe(isTree);
    expect(/^layers\.1\.weight /m.test(text)).toBe(!isTree);
    const hint = `--all lists the ${count} tensors one by one\n`;
    expect(text.endsWith(hint)).toBe(isTree && options.length === 0);
    const json = JSON.parse(await printed(['inspect', path, '--json']));
    expect(json.tensors).toHaveLength(count);
    expect(json.tree).toBeUndefined();
  });

  it('shows each model of a pipeline as a tree, and takes either the tree or the list', async () => {
    const { code, stderr } = await call(['inspect', 'x', '--all', '--tree']);
    expect(code).toBe(2);
    expect(stderr).toContain('--all lists tensors, and cannot be combined with --tree');
    const folder = temporaryPath('pipeline');
    for (const [name, count] of [
      ['unet', 201],
      ['vae', 2],
    ] as const) {
      mkdirSync(join(folder, name), { recursive: true });
      const entries = Array.from({ length: count }, (_, i) => {
        return { name: `${name}.${i}.weight`, dtype: 'U8', shape: [4] } as const;
      });
      writeFileSync(join(folder, name, 'diffusion_pytorch_model.safetensors'), fileBytes(entries));
    }
    const index = { unet: ['diffusers', 'U'], vae: ['diffusers', 'V'] };
    writeFileSync(join(folder, 'model_index.json'), JSON.stringify(index));
    const text = await printed(['inspect', folder]);
    expect(text).toContain('unet.0-200');
    expect(text).toMatch(/^vae\.1\.weight /m);
    expect(await printed(['inspect', folder, '--all'])).toMatch(/^unet\.199\.weight /m);
  });

  it('lists the files of a PyTorch checkpoint in several, and where tensors are there', async () => {
    const folder = temporaryPath('torch');
    mkdirSync(folder);
    const files = { '1.bin': ['l1', [3]], '2.bin': ['l2', [2]] } as const;
    for (const [name, [key, shape]] of Object.entries(files)) {
      const pickle = dict([unicode(key), tensor('0', shape)]);
      cpSync(legacyFile(pickle, { 0: shape[0] }), join(folder, name));
    }
    const index = join(folder, 'pytorch_model.bin.index.json');
    writeFileSync(index, JSON.stringify({ weight_map: { l1: '1.bin', l2: '2.bin' } }));
    const result = JSON.parse(await printed(['inspect', index, '--json']));
    expect(result.files).toMatchObject([
      { name: '1.bin', tensors: 1, parameters: 3 },
      { name: '2.bin', tensors: 1, parameters: 2 },
    ]);
    for (const { file, offset, byteLength } of result.tensors) {
      const bytes = readFileSync(join(folder, file)).subarray(offset, offset + byteLength);
      expect([...new Float32Array(Uint8Array.from(bytes).buffer)]).toEqual(
        [0, 1, 2].slice(0, byteLength / 4),
      );
    }
    expect(result.byteLength).toBe(result.files[0].byteLength + result.files[1].byteLength);
  });

  it('says which tensors of a file of torch safetensors cannot hold, and why', async () => {
    const complex = tensor('0', [2]).replace('_v2', '_v3').replace(/tR$/, 'ctorch\ncomplex32\ntR');
    const path = legacyFile(
      dict(
        [unicode('w'), tensor('0', [2])],
        [unicode('x\u001b'), complex],
        [unicode('y'), complex],
      ),
      { 0: 2 },
    );
    using opened = await openTorch(path);
    expect(inspect(opened)).toMatch(/^Checkpoint \{.*problems: 2\b/s);
    const reason = 'expected a dtype that safetensors has, found torch.complex32';
    const text = await printed(['inspect', path], { columns: 120 });
    expect(text).toMatch(/tensors +1\n/);
    expect(text).toContain(`\n2 tensors that safetensors cannot hold\n  x\\x1b  ${reason}\n`);
    const json = JSON.parse(await printed(['inspect', path, '--json']));
    expect(json).toMatchObject({
      tensorCount: 1,
      unsupported: [
        { name: 'x\u001b', reason },
        { name: 'y', reason },
      ],
    });
    const filtered = await printed(['inspect', path, '--filter', 'y', '--json']);
    expect(JSON.parse(filtered)).toMatchObject({
      tensors: [],
      unsupported: [{ name: 'y', reason }],
    });
    expect(await printed(['inspect', path, '--filter', 'w'])).not.toContain('cannot hold');
    expect(await printed(['show', path, 'w'])).toContain('[0. 1.]');
    expect((await call(['show', path, 'y'])).stderr).toContain(reason);
    expect((await call(['scan', path])).stdout).toContain('safe');
    const target = join(dirname(path), `${Math.random()}.safetensors`);
    expect((await call(['convert', path, target])).stderr).toContain(reason);
    expect((await call(['convert', path, target, '--filter', 'y'])).stderr).toContain(reason);
    expect((await call(['convert', path, target, '--filter', 'w'])).stderr).toBe('');
    expect((await call(['diff', path, target])).stdout).toContain('y');
    expect((await call(['diff', path, path])).stderr).toContain(reason);
  });

  it('takes several --filter, and lists the files that have what they name', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const [first = '', second = ''] = Object.keys(TWO_SHARDS.shards);
    const inspected = (...globs: string[]): Promise<string> =>
      printed(['inspect', folder, ...globs.flatMap((glob) => ['--filter', glob])]);
    const one = await inspected('b.w*');
    expect(one).not.toContain(first);
    expect(one).toMatch(new RegExp(`\\n +2 +${second} `));
    expect(one).toMatch(/\nb\.weight .* 2\n/);
    const both = await inspected('b.w*', 'a.w*');
    for (const name of [first, second, 'a.weight', 'b.weight']) expect(both).toContain(name);
    expect(both).not.toMatch(/\nembed/);
  });

  it('has no colours with --no-color', async () => {
    const path = writeLayered();
    const plain = await printed(['inspect', path], { columns: 80 });
    const terminal = { columns: 80, hasColors: true };
    expect(await printed(['inspect', path, '--no-color'], terminal)).toBe(plain);
    expect(await printed(['inspect', path], terminal)).not.toBe(plain);
  });

  it('lists the files of a checkpoint, and what is beside it', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    writeFileSync(
      join(folder, 'model.safetensors'),
      fileBytes([{ name: 'x', dtype: 'U8', shape: [] }]),
    );
    const text = await shown(folder, ['inspect', folder], { columns: 80 });
    await expect(text).toMatchFileSnapshot(golden('inspect-shards'));
    const index = join(folder, 'model.safetensors.index.json');
    const result = JSON.parse(await printed(['inspect', index, '--json']));
    expect(result).toMatchObject({
      format: 'safetensors',
      tensorCount: 4,
      parameters: 28,
      files: [{ tensors: 2 }, { tensors: 2 }],
    });
    expect(result.tensors[2]).toEqual({
      name: 'b.weight',
      dtype: 'U16',
      shape: [2, 3],
      byteLength: 12,
      offset: result.files[1].byteLength - 16,
      file: 'model-00002-of-00002.safetensors',
    });
  });

  it('counts packed parameters by config.json', async () => {
    const folder = temporaryPath('quantized');
    mkdirSync(folder);
    const tensors = [{ name: 'w.weight', dtype: 'U8', shape: [4, 8] }] as const;
    writeBelow(folder, 'model.safetensors', fileBytes(tensors));
    const config = { quantization_config: { quant_method: 'bitsandbytes', load_in_4bit: true } };
    writeBelow(folder, 'config.json', JSON.stringify(config));
    const result = JSON.parse(await printed(['inspect', folder, '--json']));
    expect(result).toMatchObject({ parameters: 64, quantization: 'bitsandbytes' });
    expect(await printed(['inspect', folder])).toContain('quantization  bitsandbytes\n');
  });

  it('lists the models of a pipeline', async () => {
    const folder = temporaryPath('pipeline');
    const bytes = fileBytes([{ name: 'w', dtype: 'F16', shape: [2, 2] }]);
    writeBelow(folder, 'model_index.json', '{}');
    writeBelow(folder, 'unet/diffusion_pytorch_model.safetensors', bytes);
    writeBelow(folder, 'text_encoder/model.fp16.safetensors', bytes);
    writeBelow(folder, 'scheduler/scheduler_config.json', '{}');
    const text = await shown(folder, ['inspect', folder], { columns: 80 });
    await expect(text).toMatchFileSnapshot(golden('inspect-pipeline'));
    const { components } = JSON.parse(await printed(['inspect', folder, '--json']));
    expect(Object.keys(components)).toEqual(['text_encoder', 'unet']);
  });

  it('names the folders of a pipeline that are missing', async () => {
    const folder = temporaryPath('pipeline-without-vae');
    const index = {
      _class_name: 'StableDiffusionPipeline',
      unet: ['diffusers', 'UNet2DConditionModel'],
      vae: ['diffusers', 'AutoencoderKL'],
      safety_checker: [null, null],
    };
    writeBelow(folder, 'model_index.json', JSON.stringify(index));
    const bytes = fileBytes([{ name: 'w', dtype: 'F16', shape: [2, 2] }]);
    writeBelow(folder, 'unet/diffusion_pytorch_model.safetensors', bytes);
    expect(JSON.parse(await printed(['inspect', folder, '--json'])).missing).toEqual(['vae']);
    expect(await printed(['inspect', folder])).toContain(
      'warning: model_index.json names the folder vae, which is missing',
    );
  });

  it('lists the model of a variant where the usual file leads nowhere', async () => {
    const folder = temporaryPath('half-a-pipeline');
    const bytes = fileBytes([{ name: 'w', dtype: 'F16', shape: [2, 2] }]);
    writeBelow(folder, 'model_index.json', '{}');
    writeBelow(folder, 'unet/diffusion_pytorch_model.safetensors', bytes);
    writeBelow(folder, 'text_encoder/model.fp16.safetensors', bytes);
    symlinkSync('nowhere', join(folder, 'text_encoder', 'model.safetensors'));
    const { components } = JSON.parse(await printed(['inspect', folder, '--json']));
    expect(Object.keys(components)).toEqual(['text_encoder', 'unet']);
  });

  it.each([
    ['torch', 'zip-state-dict.pt', 7],
    ['torch', 'legacy-state-dict.pt', 7],
    ['numpy', 'np-f4.npy', 1],
    ['numpy', 'np-savez.npz', 12],
  ])('lists files of %s: %s', async (format, name, count) => {
    const path = join(root, 'test/fixtures/torch', name);
    const result = JSON.parse(await printed(['inspect', path, '--json']));
    expect(result.format).toBe(format);
    expect(result.tensorCount).toBe(count);
    expect(result.tensors.length).toBe(count);
  });

  it('lists the state dict of a file of torch that --root names', async () => {
    const path = join(root, 'test/fixtures/torch/zip-two-roots.pth');
    const ambiguous = await call(['inspect', path]);
    expect(ambiguous.code).toBe(1);
    expect(ambiguous.stderr).toContain('SAFETENSORS_AMBIGUOUS_ROOT');
    for (const key of ['model', 'ema', '["ema"]']) {
      const { tensors } = JSON.parse(await printed(['inspect', path, '--root', key, '--json']));
      expect(tensors.length).toBe(1);
    }
    const broken = await call(['inspect', path, '--root', '["ema"']);
    expect(broken).toMatchObject({ code: 2, stderr: expect.stringContaining('a JSON array') });
    const wrong = await call(['inspect', path, '--unknown-globals', 'all']);
    expect(wrong).toMatchObject({ code: 2, stdout: '' });
  });

  it('says what a file is that it does not list', async () => {
    const path = temporaryPath('model.h5');
    writeFileSync(path, '\x89HDF\r\n\x1a\n'.padEnd(600), 'latin1');
    const { code, stdout, stderr } = await call(['inspect', path]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^safetensors-mmap: SAFETENSORS_\w+: .* HDF5 file .*\n$/);
  });

  it('shows hostile names and metadata harmlessly', async () => {
    const path = writeTemporary(HOSTILE_ENTRIES, HOSTILE_METADATA);
    for (const options of [[], ['--tree'], ['--json'], ['--json', '--tree']]) {
      for (const terminal of [undefined, { columns: 80 }]) {
        const text = await printed(['inspect', path, ...options], terminal);
        expect(UNSAFE_OUTPUT.exec(text)).toBeNull();
      }
    }
    const text = await printed(['inspect', path], { columns: 80 });
    expect(text.length).toBeLessThan(20_000);
    expect(text).toContain('clear\\x1b[2J\\x1b[H');
    const result = JSON.parse(await printed(['inspect', path, '--json']));
    expect(result.tensors.map(({ name }: { name: string }) => name)).toEqual(HOSTILE_NAMES);
    const metadata = new Map(Object.entries(result.metadata));
    for (const name of HOSTILE_NAMES) expect(metadata.get(name)).toBe(`value of ${name}`);
  });

  it('refuses an order that there is not', async () => {
    const { code, stderr } = await call(['inspect', 'x', '--sort', 'dtype']);
    expect(code).toBe(2);
    expect(stderr).toContain('--sort takes offset, name, size');
  });
});

describe('inspect of an adapter', () => {
  const shape = [2, 4];
  const factors = ['A', 'B'].map((part) => {
    const name = `base_model.model.layers.0.q_proj.lora_${part}.weight`;
    return { name, dtype: 'F32', shape: part === 'A' ? shape : [4, 2] } as const;
  });

  it('shows kind, rank, scale, target modules and base', async () => {
    const path = writeTemporary(factors);
    const config = { peft_type: 'LORA', r: 2, lora_alpha: 3, target_modules: ['q_proj'] };
    writeBelow(
      dirname(path),
      'adapter_config.json',
      JSON.stringify({ ...config, base_model_name_or_path: 'org/base' }),
    );
    const text = await printed(['inspect', path]);
    expect(text).toContain(
      'adapter     lora, 1 module\nrank        2\nscale       1.5 (alpha 3)\ntargets     q_proj\nbase model  org/base\n',
    );
    expect(JSON.parse(await printed(['inspect', path, '--json']))).toMatchObject({
      kind: 'adapter',
      adapter: {
        kinds: ['lora'],
        modules: 1,
        ranks: [2],
        alphas: [3],
        scales: [1.5],
        withoutScale: 0,
        targetModules: ['q_proj'],
        baseModel: 'org/base',
      },
    });
  });

  it('shows that the scale is unknown without a configuration', async () => {
    const text = await printed(['inspect', writeTemporary(factors)]);
    expect(text).toContain(
      'scale       unknown for 1 module: no adapter_config.json, or alpha in a remote file\n',
    );
  });

  it('shows the scale that files without alpha are merged with', async () => {
    const named = factors.map((tensor, i) => ({
      ...tensor,
      name: `lora_unet_x.lora_${i === 0 ? 'down' : 'up'}.weight`,
    }));
    const text = await printed(['inspect', writeTemporary(named)]);
    expect(text).toContain('scale       1 (no alpha)\n');
  });

  it('warns of an adapter that cannot be merged', async () => {
    const path = writeTemporary(factors);
    writeBelow(dirname(path), 'adapter_config.json', '{"peft_type":"OFT"}');
    expect(await printed(['inspect', path])).toMatch(/warning: .*peft_type "OFT" cannot be merged/);
  });
});
