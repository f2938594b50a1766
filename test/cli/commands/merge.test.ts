/** `merge` of models: what it copies, what it takes, and what it rejects. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { pathOf } from '../../merge/fixtures.js';
import { safeOpen, serialize } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { call, printed } from '../call.js';

const folder = pathOf('mk-ties-f32');
const models = ['base', 'a', 'b'].map((name) => join(folder, name));

it('merges models by a method: the first is the base', async () => {
  const target = temporaryPath('merged');
  const numbers = ['--weight', '0.5', '--weight', '0.3', '--density', '0.5', '--density', '0.9'];
  const args = [
    'merge',
    ...models,
    '--method',
    'ties',
    ...numbers,
    '--dtype',
    'bf16',
    '-o',
    target,
  ];
  const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
  expect(existsSync(target)).toBe(false);
  expect(plan).toMatchObject({ source: models, dryRun: true, warnings: [] });
  expect(plan.changes).toHaveLength(21);
  expect(await printed(args)).toContain('21 weights merged');
  const [base, merged] = [models[0] as string, target].map((path) => safeOpen(path));
  for (const { name, kind, relativeSize } of plan.changes) {
    const [before, after] = [base, merged].map((one) => one?.getTensor(name).toFloat32()) as [
      Float32Array,
      Float32Array,
    ];
    const change = after.map((value, i) => value - (before[i] as number));
    expect([kind, relativeSize]).toEqual([
      'ties',
      expect.closeTo(Math.hypot(...change) / Math.hypot(...before), 5),
    ]);
  }
  expect(readdirSync(target).sort()).toEqual(['config.json', 'model.safetensors']);
  expect(JSON.parse(readFileSync(join(target, 'config.json'), 'utf8')).torch_dtype).toBe(
    'bfloat16',
  );
  const { metadata } = safeOpen(target);
  const record = JSON.parse(metadata?.get('safetensors-mmap.merge') as string);
  expect(record).toMatchObject({
    method: 'ties',
    base: 0,
    models: [{ name: 'base' }, { name: 'a' }, { name: 'b' }],
  });
  expect((await call(args)).stderr).toContain('--force');
  await printed([...args, '--force']);
});

it('copies the other files of the base, and the tokenizer of another model', async () => {
  const recipes = temporaryPath('recipes');
  cpSync(pathOf('mk-tokenizer-union-base'), recipes, { recursive: true });
  writeFileSync(join(recipes, 'a/notes.txt'), 'a');
  writeFileSync(join(recipes, 'b/notes.txt'), 'b');
  const config = readFileSync(join(recipes, 'config.yml'), 'utf8');
  const merge = async (tokenizer: string): Promise<string> => {
    const target = temporaryPath(tokenizer.replaceAll(/\W/g, ''));
    writeFileSync(join(recipes, 'own.yml'), config.replace('tokenizer_source: union', tokenizer));
    await printed(['merge', join(recipes, 'own.yml'), '-o', target]);
    expect(readdirSync(target).sort()).toEqual([
      'config.json',
      'model.safetensors',
      'notes.txt',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    expect(readFileSync(join(target, 'notes.txt'), 'utf8')).toBe('a');
    return target;
  };
  const sizeOf = (target: string): number =>
    JSON.parse(readFileSync(join(target, 'config.json'), 'utf8')).vocab_size;
  const other = await merge('tokenizer_source: ./b');
  expect(readFileSync(join(other, 'tokenizer.json'))).toEqual(
    readFileSync(join(recipes, 'b/tokenizer.json')),
  );
  expect([sizeOf(other), safeOpen(other).info('lm_head.weight').shape]).toEqual([7, [7, 8]]);
  const union = await merge('tokenizer: {source: union}');
  expect(JSON.parse(readFileSync(join(union, 'tokenizer.json'), 'utf8')).added_tokens).toHaveLength(
    4,
  );
  expect([sizeOf(union), safeOpen(union).info('lm_head.weight').shape]).toEqual([8, [8, 8]]);
  // Other shapes have no difference.
  const recipe = ['merge', join(recipes, 'own.yml'), '-o', join(recipes, 'c')];
  const plan = JSON.parse(await printed([...recipe, '--dry-run', '--json']));
  const sizes = new Map(
    plan.changes.map(({ name, relativeSize }: { name: string; relativeSize: number | null }) => [
      name,
      relativeSize,
    ]),
  );
  expect(sizes.get('lm_head.weight')).toBeNull();
  expect(sizes.get('model.norm.weight')).toBeGreaterThan(0);
  expect(await printed([...recipe, '--dry-run'])).toMatch(/model\.norm\.weight +linear +\d.* %/);
  // Into the folder of the base: only what changes is written.
  await printed(['merge', join(recipes, 'own.yml'), '-o', join(recipes, 'a'), '--force']);
  expect(sizeOf(join(recipes, 'a'))).toBe(8);
});

it.each([
  [['x'], '--adapter or --method is missing'],
  [['a', 'b'], 'several models need --method'],
  [['a', '-t', '1'], '--t needs --method'],
  [['a', 'b', '--method', 'nuslerp'], '--method takes linear'],
  [['a', 'b', '--method', 'tis'], 'did you mean ties?'],
  [
    ['a', '--base', 'b', '--method', 'linear', '--weight', '1', '--weight', '2'],
    '--weight is given 2 times for 1 model',
  ],
  [['a', 'b', '--method', 'linear', '--weight', '1'], '--weight is given 1 time for 2 models'],
  [['a', 'b', 'c', '--method', 'ties', '--weight', '1'], '1 time for 2 models besides the base'],
  [['a', 'b', '--method', 'slerp', '-t', 'x'], '--t takes a number'],
  [['a', 'b', '--method', 'slerp'], '--method slerp needs -t'],
  [['a', 'b', '--method', 'linear'], '--method linear needs --weight'],
  [['a', 'b', '--method', 'weighted_sum'], '--method weighted_sum needs --alpha'],
  [['a', '--method', 'slerp', '-t', '1'], 'needs a model besides the base, which is the first'],
  [
    ['a', '--method', 'passthrough', '--seed', '1'],
    '--seed has no effect with --method passthrough',
  ],
  [['a', 'b', '--adapter', 'c'], 'one checkpoint'],
  [['a', '--adapter', 'c', '--weight', '1'], '--weight has no effect with --adapter'],
  [['a', '--adapter', 'c', '--dtype', 'F16'], '--dtype has no effect with --adapter'],
  [['a', '--adapter', 'c', '--base', 'b'], '--base has no effect with --adapter'],
  [['a.yml', '--component', 'te'], '--component needs --adapter'],
  [['a', 'b', '--method', 'linear', '--component', 'te'], '--component needs --adapter'],
])('%j is a usage error', async (args, message) => {
  const { code, stderr } = await call(['merge', ...args, '-o', 'target']);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});

it('names the flag of a rule', async () => {
  const target = temporaryPath('merged');
  mkdirSync(target);
  const { code, stderr } = await call([
    'merge',
    pathOf('mk-missing-error', 'config.yml'),
    '-o',
    target,
  ]);
  expect(code).toBe(1);
  expect(stderr).toContain('pass --unmatched skip');
  expect(readdirSync(target)).toEqual([]);
});

it('names the model whose values are not finite', async () => {
  const data = Float32Array.of(1, Number.NaN);
  const tune = temporaryPath('tune.safetensors');
  writeFileSync(tune, serialize({ x: { dtype: 'F32', shape: [2], data } }));
  const own = temporaryPath('base.safetensors');
  writeFileSync(own, serialize({ x: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) } }));
  const weights = ['--weight', '1', '--weight', '1'];
  const target = temporaryPath('merged');
  const { code, stderr } = await call([
    ...['merge', own, tune, '--method', 'linear'],
    ...[...weights, '-o', target],
  ]);
  expect([code, stderr.trim()]).toEqual([
    1,
    `safetensors-mmap: SAFETENSORS_NON_FINITE: ${tune}: tensor "x": model "tune.safetensors" contains NaN or an infinity; pass a version without such values; \`verify --values\` lists them`,
  ]);
});

it.each(['lora=x', 'lora=', 'lora=0,8'])('needs a number as the strength in %s', async (text) => {
  const target = temporaryPath('merged');
  const { code, stderr } = await call(['merge', base, '--adapter', text, '-o', target]);
  const found = JSON.stringify(text.slice(5));
  expect(code).toBe(2);
  expect(stderr).toContain(`--adapter ${text}: expected a number after =, found ${found}`);
});

it('takes an adapter whose name has the sign', async () => {
  const named = join(temporaryPath('adapters'), 'lora=x');
  cpSync(adapter, named, { recursive: true });
  const target = temporaryPath('merged');
  await printed(['merge', base, '--adapter', named, '-o', target]);
  expect(existsSync(target)).toBe(true);
});

it('names a recipe that does not exist, and the key of a model that does not', async () => {
  const recipe = temporaryPath('recipe.yml');
  const args = ['merge', recipe, '-o', temporaryPath('merged')];
  expect(await call(args)).toMatchObject({
    code: 1,
    stderr: `safetensors-mmap: ENOENT: no such file or directory, open '${recipe}'; the recipe was not found; check the path\n`,
  });
  const text = `merge_method: passthrough\nmodels: [{ model: lost }]`;
  writeFileSync(recipe, text);
  const { code, stderr } = await call(args);
  expect(code).toBe(1);
  expect(stderr).toContain(
    `lost'; listed as models[0].model in the recipe ${recipe}; check the path, which is relative to it\n`,
  );
});

const quantized = (): string => {
  const target = temporaryPath('quantized.safetensors');
  const data = new Uint8Array(4).fill(0x38);
  const scale = { dtype: 'F32', shape: [], data: Float32Array.of(1) } as const;
  const tensors = { 'x.weight': { dtype: 'F8_E4M3', shape: [2, 2], data } as const };
  writeFileSync(target, serialize({ ...tensors, 'x.weight_scale': scale }));
  return target;
};

const withoutConfig = (): string => {
  const target = temporaryPath('adapter');
  cpSync(pathOf('peft-linear-f32', 'adapter'), target, { recursive: true });
  rmSync(join(target, 'adapter_config.json'));
  return target;
};

const base = pathOf('peft-linear-f32', 'base');
const adapter = pathOf('peft-linear-f32', 'adapter');

it.each<[ending: string, args: () => string[]]>([
  [
    'dequantize it first: `convert --dequantize BF16` writes a dequantized copy',
    () => [quantized(), '--adapter', adapter],
  ],
  ['which has the scale; keep it next to the adapter', () => [base, '--adapter', withoutConfig()]],
  ['is listed twice; list it once', () => [base, '--adapter', adapter, '--adapter', adapter]],
  [
    'add up to 0; use others',
    () => [base, base, '--method', 'linear', '--weight', '1', '--weight', '-1'],
  ],
])('an error ends with advice for the command: %s', async (ending, args) => {
  const target = temporaryPath('merged');
  const { code, stderr } = await call(['merge', ...args(), '-o', target]);
  expect([code, stderr]).toEqual([1, expect.stringMatching(`${ending}\n$`)]);
  expect(existsSync(target)).toBe(false);
});
