/** Which dict of a checkpoint is the state dict, and the state dicts of whole modules. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { unicode } from '../pickle/pickle-bytes.js';
import { dict, legacyFile, tensor } from './legacy-file.js';
import { refusal } from './rejection.js';

const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const PLACEHOLDER = { unknownGlobals: 'placeholder' } as const;
const TENSOR = tensor('0', [2]);
const WEIGHTS = dict([unicode('w'), TENSOR]);

function fileOf(entries: readonly (readonly [key: string, opcodes: string])[]): string {
  return legacyFile(dict(...entries.map(([key, value]) => [unicode(key), value] as const)), {
    0: 2,
  });
}

/** A module with tensors and modules by their names; an empty list of parts has no tensors. */
interface Parts {
  readonly parameters?: readonly string[];
  readonly buffers?: readonly string[];
  readonly passing?: readonly string[];
  readonly modules?: Readonly<Record<string, Parts>>;
}

function moduleOf({ parameters = [], buffers = [], passing = [], modules = {} }: Parts): string {
  const entries = (names: readonly string[]): string =>
    dict(...names.map((name) => [unicode(name), TENSOR] as const));
  const inner = Object.entries(modules).map(
    ([name, parts]) => [unicode(name), moduleOf(parts)] as const,
  );
  const names = `cbuiltins\nset\n](${passing.map(unicode).join('')}e\x85R`;
  const state = dict(
    [unicode('training'), '\x88'],
    [unicode('_parameters'), entries(parameters)],
    [unicode('_buffers'), entries([...buffers, ...passing])],
    [unicode('_non_persistent_buffers_set'), names],
    [unicode('_modules'), dict(...inner)],
    [unicode('grid'), TENSOR],
  );
  return `cmodels.common\nModel\n)\x81${state}b`;
}

function namesOf({ parameters = [], buffers = [], modules = {} }: Parts, prefix = ''): string[] {
  const inner = Object.entries(modules).flatMap(([name, parts]) =>
    namesOf(parts, `${prefix}${name}.`),
  );
  return [...[...parameters, ...buffers].map((name) => prefix + name), ...inner];
}

const modelKey = fc.constantFrom(
  ...[
    'state_dict',
    'model',
    'module',
    'ema',
    'model_state_dict',
    'params_ema',
    'net',
    'model_ema',
    'state_dict_ema',
  ],
);
const trainingKey = fc.constantFrom(
  ...[
    'rng_state',
    'cuda_rng_state',
    'torch_rng',
    'random_states',
    'optimizer',
    'optimizer_states',
    'optim',
    'lr_schedulers',
  ],
  ...['opt_param_scheduler', 'scaler', 'amp', 'callbacks', 'optimizer_state_dict', 'g_optim'],
);
/** Something with a tensor at any depth: a tensor, a list, a dict, an object of an unknown class. */
const holder = fc.constantFrom(
  ...[TENSOR, `](${TENSOR}e`, WEIGHTS, `](${WEIGHTS}e`, dict([unicode('a'), WEIGHTS])],
);

describe('the state dict of a training checkpoint', () => {
  it('is under the key of the model, whatever else is in it and however deep', () => {
    const others = fc.uniqueArray(fc.tuple(trainingKey, holder), {
      selector: ([key]) => key,
      maxLength: 4,
    });
    const rest = fc.uniqueArray(fc.tuple(fc.constantFrom('best_score', 'ids', 'token'), holder), {
      selector: ([key]) => key,
      maxLength: 2,
    });
    const model = fc.constantFrom(
      WEIGHTS,
      dict([unicode('language_model'), dict([unicode('w'), TENSOR])]),
    );
    fc.assert(
      fc.property(
        modelKey,
        model,
        others,
        rest,
        fc.boolean(),
        (key, weights, training, more, isFirst) => {
          const beside = [...training, ...more];
          const own = [key, weights] as const;
          using checkpoint = openTorchCheckpoint(
            fileOf(isFirst ? [own, ...beside] : [...beside, own]),
          );
          expect(checkpoint.root?.[0]).toBe(key);
          expect(checkpoint.keys().every((name) => name.endsWith('w'))).toBe(true);
          expect(checkpoint.keys()).toHaveLength(1);
        },
      ),
      { seed, numRuns: 40 },
    );
  });

  it('is never a state of the training', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(trainingKey, { minLength: 1, maxLength: 3 }),
        holder,
        (keys, value) => {
          const { code } = refusal(fileOf(keys.map((key) => [key, value])));
          expect(code).toBe('SAFETENSORS_AMBIGUOUS_ROOT');
        },
      ),
      { seed, numRuns: 20 },
    );
    using other = openTorchCheckpoint(
      fileOf([
        ['optimizer', WEIGHTS],
        ['weights_of_it', WEIGHTS],
      ]),
    );
    expect(other.root).toEqual(['weights_of_it']);
  });

  it('is chosen by the caller if several are left', () => {
    for (const keys of [
      ['model', 'ema'],
      ['a', 'b'],
      ['state_dict', 'params_ema'],
    ]) {
      const { code, message } = refusal(fileOf(keys.map((key) => [key, WEIGHTS])));
      expect(code).toBe('SAFETENSORS_AMBIGUOUS_ROOT');
      expect(message).toContain(`["${keys[0]}"] (1 tensor), ["${keys[1]}"] (1 tensor)`);
    }
    const mixed = fileOf([
      ['ids', TENSOR],
      ['rng', TENSOR],
      ['a', WEIGHTS],
    ]);
    expect(refusal(mixed).code).toBe('SAFETENSORS_AMBIGUOUS_ROOT');
  });

  it('is not the token of an embedding', () => {
    const path = fileOf([
      ['string_to_token', dict([unicode('*'), TENSOR])],
      ['string_to_param', moduleOf({ parameters: ['*'] })],
    ]);
    using checkpoint = openTorchCheckpoint(path, PLACEHOLDER);
    expect([checkpoint.root, checkpoint.keys(), checkpoint.problems]).toEqual([
      ['string_to_param'],
      ['*'],
      [],
    ]);
  });

  it('counts objects that are not built, whose tensors are problems', () => {
    const object = `cargparse\nNamespace\n)\x81${WEIGHTS}b`;
    using checkpoint = openTorchCheckpoint(
      fileOf([
        ['rng_state', WEIGHTS],
        ['model', object],
      ]),
      PLACEHOLDER,
    );
    expect([checkpoint.root, checkpoint.keys()]).toEqual([['model'], []]);
    expect(checkpoint.problems.map(({ tensor }) => tensor)).toEqual(['w']);
  });
});

describe('a whole module', () => {
  const name = fc.constantFrom('weight', 'bias', 'running_mean', 'a', 'b');
  const names = fc.uniqueArray(name, { maxLength: 2 });
  const { module } = fc.letrec<{ module: Parts }>((tie) => ({
    module: fc.record({
      parameters: names,
      buffers: fc.uniqueArray(fc.constantFrom('mean', 'var'), { maxLength: 2 }),
      passing: fc.uniqueArray(fc.constantFrom('mask', 'ids'), { maxLength: 1 }),
      modules: fc.oneof(
        { maxDepth: 3, withCrossShrink: true },
        fc.constant({}),
        fc.dictionary(fc.constantFrom('conv', 'model', 'optim', 'layers0'), tie('module'), {
          maxKeys: 2,
          noNullPrototype: true,
        }),
      ),
    }),
  }));

  it('has the names of state_dict()', () => {
    fc.assert(
      fc.property(module, fc.option(modelKey), (parts, key) => {
        const expected = namesOf(parts);
        fc.pre(expected.length > 0);
        const path =
          key === null
            ? legacyFile(moduleOf(parts), { 0: 2 })
            : fileOf([
                [key, moduleOf(parts)],
                ['optimizer', WEIGHTS],
              ]);
        using checkpoint = openTorchCheckpoint(path, PLACEHOLDER);
        expect(checkpoint.root).toEqual(key === null ? [] : [key]);
        expect([...checkpoint.keys()].sort()).toEqual(expected.sort());
        expect(checkpoint.problems).toEqual([]);
      }),
      { seed, numRuns: 40 },
    );
  });

  it('lists a module under each of its names, and none within itself', () => {
    const shared = `${moduleOf({ parameters: ['w'] })}q\x07`;
    const state = (modules: string): string =>
      dict(
        [unicode('_parameters'), '}'],
        [unicode('_buffers'), '}'],
        [unicode('_modules'), modules],
      );
    const both = dict([unicode('a'), shared], [unicode('b'), 'h\x07']);
    using twice = openTorchCheckpoint(
      legacyFile(`cm\nM\n)\x81${state(both)}b`, { 0: 2 }),
      PLACEHOLDER,
    );
    expect(twice.keys()).toEqual(['a.w', 'b.w']);
    const itself = dict([unicode('x'), 'h\x09'], [unicode('y'), moduleOf({ parameters: ['w'] })]);
    using cyclic = openTorchCheckpoint(
      legacyFile(`cm\nM\n)\x81q\x09${state(itself)}b`, { 0: 2 }),
      PLACEHOLDER,
    );
    expect(cyclic.keys()).toEqual(['y.w']);
  });

  it('of the stream before torch 1.6 has a persistent id for its class', () => {
    const id = `(${unicode('module')}cmodels.common\nModel\n${unicode('model.py')}${unicode('class Model')}tQ`;
    const object = moduleOf({ parameters: ['w'] }).replace('cmodels.common\nModel\n', id);
    using checkpoint = openTorchCheckpoint(legacyFile(object, { 0: 2 }), PLACEHOLDER);
    expect(checkpoint.keys()).toEqual(['w']);
  });

  it('is found by its names as a root', () => {
    const path = fileOf([['model', moduleOf({ modules: { head: { parameters: ['w'] } } })]]);
    using checkpoint = openTorchCheckpoint(path, { ...PLACEHOLDER, root: 'model.head' });
    expect(checkpoint.keys()).toEqual(['w']);
  });
});

it('reads the entries of a ModelOutput, whose arguments and attributes repeat them', () => {
  const held = `${TENSOR}q\x05`;
  const object = `ctransformers.modeling_outputs\nBaseModelOutput\nN\x85R(${unicode('hidden')}${held}u}${unicode('hidden')}h\x05sb`;
  using checkpoint = openTorchCheckpoint(legacyFile(object, { 0: 2 }), PLACEHOLDER);
  expect([checkpoint.keys(), checkpoint.problems]).toEqual([['hidden'], []]);
});
