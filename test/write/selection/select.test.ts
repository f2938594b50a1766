import { describe, expect, it, vi } from 'vitest';
import { TensorNotFoundError } from '../../../src/errors/errors.js';
import type { Dtype } from '../../../src/header/dtype.js';
import { runSync } from '../../../src/work/work.js';
import {
  readSelection,
  type SelectableInfo,
  type SelectionOptions,
  selectsAll,
} from '../../../src/write/selection/options.js';
import { Selection, selectionSource } from '../../../src/write/selection/select.js';
import { SelectionError } from '../../../src/write/selection/selection-error.js';

type Options = SelectionOptions<SelectableInfo>;

const tensors = [
  ['model.embed', 'F32'],
  ['model.ids', 'I64'],
  ['model.norm', 'BF16'],
  ['model.packed', 'F8_E4M3'],
  ['model.mask', 'BOOL'],
].map(([name, dtype]) => ({
  name: name as string,
  info: { dtype: dtype as Dtype, shape: [2] },
}));

const aliases = new Map([['lm_head', 'model.embed']]);

const names = new Set(tensors.map(({ name }) => name));
const source = selectionSource(names, aliases, 'model.bin');

function selectionOf(options: Options): Selection<SelectableInfo> {
  return new Selection(readSelection(options), source);
}

/** Old name, new name and cast of each selected tensor. */
function select(options: Options): string[] {
  return runSync(selectionOf(options).of(tensors)).map(({ tensor, name, cast }) =>
    [tensor.name, name, cast === null ? '' : `${cast.from}-${cast.to}`].join(' ').trim(),
  );
}

function errorOf(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

describe('the options', () => {
  it('take all as it is by default', () => {
    expect(select({})).toEqual(tensors.map(({ name }) => `${name} ${name}`));
    expect([
      selectsAll({}),
      selectsAll({ names: undefined }),
      selectsAll({ dtype: 'F16' }),
    ]).toEqual([true, true, false]);
  });

  it('names: a list, in the order of the source, aliases too; or a function', () => {
    expect(select({ names: new Set(['model.ids', 'lm_head']) })).toEqual([
      'model.embed model.embed',
      'model.ids model.ids',
    ]);
    const names = vi.fn((_name: string, { dtype }: SelectableInfo) => dtype === 'BOOL');
    expect(select({ names })).toEqual(['model.mask model.mask']);
    expect(names).toHaveBeenCalledTimes(5);
  });

  it('rename: a function, a Map or an object', () => {
    const rename = (name: string): string => name.replace(/^model\./, '');
    expect(select({ rename, names: ['model.ids'] })).toEqual(['model.ids ids']);
    const renames = { 'model.ids': 'position', 'model.norm': 'model.ids' };
    const expected = ['model.ids position', 'model.norm model.ids'];
    const names = ['model.norm', 'model.ids'];
    expect(select({ rename: renames, names })).toEqual(expected);
    expect(select({ rename: new Map(Object.entries(renames)), names })).toEqual(expected);
  });

  it('are read once', () => {
    const once = <Item>(item: Item): Iterator<Item> & Iterable<Item> => [item][Symbol.iterator]();
    const rename = once(['model.ids', 'b'] as const);
    expect(select({ names: once('model.ids'), rename })).toEqual(['model.ids b']);
  });

  it('dtype: casts floating-point tensors, and no other', () => {
    expect(select({ dtype: 'BF16' })).toEqual([
      'model.embed model.embed F32-BF16',
      'model.ids model.ids',
      'model.norm model.norm',
      'model.packed model.packed',
      'model.mask model.mask',
    ]);
  });
});

describe('functions', () => {
  it('leave out, rename and cast in one call', () => {
    const dtypeOf = vi.fn((_name: string, { dtype, shape }: SelectableInfo) => {
      expect(shape).toEqual([2]);
      if (dtype === 'F32') return 'F8_E4M3';
      return dtype === 'BF16' ? dtype : undefined;
    });
    const options: Options = {
      names: (name) => name !== 'model.mask' && name !== 'model.packed',
      rename: (name) => (name === 'model.embed' ? 'embed' : name),
      dtype: dtypeOf,
    };
    expect(select(options)).toEqual([
      'model.embed embed F32-F8_E4M3',
      'model.ids model.ids',
      'model.norm model.norm',
    ]);
    expect(dtypeOf).toHaveBeenCalledTimes(3);
  });

  it.each([
    ['bfloat16', /the result of dtype for "model.embed" must be 'BF16', but is "bfloat16"/],
    ['F17', /must be one of BOOL, /],
    [null, /must be one of .*, but is null/],
    [false, /must be one of .*, but is false/],
    [Promise.resolve('F16'), /must be one of .*, but is an instance of Promise/],
  ])('dtype does not return %o', (result, message) => {
    const call = (): unknown => select({ dtype: () => result as never });
    expect(call).toThrow(TypeError);
    expect(call).toThrow(message);
  });
});

describe('problems', () => {
  it('are thrown alone as they are', () => {
    const missing = errorOf(() => select({ names: ['model.embde'] }));
    expect(missing).toBeInstanceOf(TensorNotFoundError);
    expect(missing).toMatchObject({ message: expect.stringMatching(/did you mean "model.embed"/) });

    const renamed = errorOf(() => select({ rename: { 'model.id': 'a' } }));
    expect(renamed).toMatchObject({ code: 'SAFETENSORS_TENSOR_NOT_FOUND', tensor: 'model.id' });

    const cast = errorOf(() =>
      select({ dtype: (name) => (name === 'model.ids' ? 'F16' : undefined) }),
    );
    expect(cast).toMatchObject({
      code: 'SAFETENSORS_DTYPE_MISMATCH',
      path: 'model.bin',
      tensor: 'model.ids',
      message: expect.stringMatching(
        /I64 cannot be cast to F16; F32, F64, F16, BF16 can be cast to F32/,
      ),
    });

    const same = errorOf(() => select({ rename: { 'model.ids': 'model.norm' } }));
    expect(same).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'model.norm',
      message: expect.stringMatching(/the new name of "model.ids" and "model.norm"/),
    });

    const name = errorOf(() => select({ rename: { 'model.ids': '__metadata__' } }));
    expect(name).toMatchObject({ code: 'SAFETENSORS_INVALID_TENSOR_VIEW', tensor: 'model.ids' });
  });

  it('are thrown together', () => {
    const impossible = errorOf(() => select({ dtype: () => 'F16' })) as SelectionError;
    expect(impossible).toBeInstanceOf(SelectionError);
    expect(impossible.errors.map(({ tensor }) => tensor)).toEqual([
      'model.ids',
      'model.packed',
      'model.mask',
    ]);

    const error = errorOf(() =>
      select({
        names: (name) => name !== 'model.mask',
        rename: {
          'model.embde': 'a',
          'model.ids': 'b',
          'model.norm': 'b',
          'model.packed': '\ud800',
        },
      }),
    );
    expect(error).toBeInstanceOf(SelectionError);
    const { errors, message, code, path } = error as SelectionError;
    expect([code, path]).toEqual(['SAFETENSORS_INVALID_SELECTION', 'model.bin']);
    expect(errors.map((problem) => problem.tensor)).toEqual(['model.embde', 'b', 'model.packed']);
    expect(message.split('\n')).toHaveLength(4);
    expect(message).toMatch(/the selection has 3 problems:\n- model.bin: tensor "model.embde": no/);
  });

  it('are shown up to a number', () => {
    const missing = Array.from({ length: 30 }, (_, i) => `x${i}`);
    const { errors, message } = errorOf(() => select({ names: missing })) as SelectionError;
    expect(errors).toHaveLength(30);
    expect(message).toMatch(/\n- and 10 more$/);
  });
});

it.each([
  [{ names: [] }, 'names must be a choice of at least one tensor, but is an array of 0 items'],
  [{ names: () => false }, 'names left out every tensor'],
])('rejects a selection of no tensors: %o', (options, message) => {
  const error = errorOf(() => select(options));
  expect(error).toBeInstanceOf(RangeError);
  expect(error).toMatchObject({ code: 'ERR_OUT_OF_RANGE', message });
});

it('of a source without tensors nothing is selected, whatever is asked of all', () => {
  const empty = (options: Options): unknown =>
    runSync(
      new Selection(readSelection(options), selectionSource(new Set(), null, 'model.bin')).of([]),
    );
  for (const options of [{}, { dtype: 'F16' }, { names: () => false }] as const) {
    expect(empty(options)).toEqual([]);
  }
  expect(() => empty({ names: [] })).toThrow(RangeError);
  expect(() => empty({ names: ['a'] })).toThrow(TensorNotFoundError);
});

it('tensors that cannot be taken are a problem when they are not left out', () => {
  const problem = new TensorNotFoundError('odd', [], {});
  const tensors = [{ name: 'a', info: { dtype: 'F32', shape: [1] } }] as const;
  const odd = [{ name: 'odd', info: { dtype: null, shape: [] }, problem }];
  const source = selectionSource(new Set(['a', 'odd']), null, 'model.bin');
  const chosen = (options: SelectionOptions<SelectableInfo>): string[] =>
    runSync(new Selection(options, source).of(tensors, odd)).map(({ name }) => name);
  expect(() => chosen({})).toThrow(problem);
  expect(() => chosen({ names: ['a', 'odd'] })).toThrow(problem);
  expect(() => chosen({ names: ['odd', 'none'] })).toThrow(SelectionError);
  const nothing = new Selection({ names: () => false }, source).of([], odd);
  expect(() => runSync(nothing)).toThrow(RangeError);
  expect(chosen({ names: ['a'] })).toEqual(['a']);
  expect(chosen({ names: (_, { dtype }) => dtype !== null })).toEqual(['a']);
  const others: Options = {
    names: (name) => name !== 'odd',
    rename: () => 'b',
    dtype: () => 'F16',
  };
  expect(chosen(others)).toEqual(['b']);
});

describe('unusable options', () => {
  it.each([
    [{ names: 'a' }, /names must be an iterable of strings, such as \["a"\]/],
    [{ names: 5 }, /names/],
    [{ rename: 'a' }, /rename must be a Map, an iterable of .* or a plain object/],
    [{ rename: { a: 1 } }, /a new name of rename must be a string/],
    [{ dtype: 'bfloat16' }, /dtype must be 'BF16', but is "bfloat16"/],
    [{ dtype: 'I8' }, /dtype must be one of F32, F16, BF16, F8_E4M3, F8_E5M2/],
  ])('are rejected: %o', (options, message) => {
    expect(() => readSelection(options as never)).toThrow(TypeError);
    expect(() => readSelection(options as never)).toThrow(message);
  });

  it.each([
    ['a promise', Promise.resolve(false), 'an instance of Promise'],
    ['nothing', undefined, 'undefined'],
  ])('names does not return %s', (_, result, shown) => {
    const choose = (): unknown => select({ names: () => result as never });
    expect(choose).toThrow(TypeError);
    expect(choose).toThrow(
      `the result of names for "model.embed" must be a boolean, but is ${shown}`,
    );
  });

  it('have functions whose results are checked', () => {
    expect(() => select({ rename: () => 1 as never })).toThrow(
      /the result of rename for "model.embed" must be a string/,
    );
  });
});

describe('metadata', () => {
  const metadata = new Map([
    ['format', 'pt'],
    ['lm_head', 'model.embed'],
    ['model.ids', 'model.norm'],
    ['note', 'model.other'],
  ]);

  function metadataOf(options: Options): [string, string][] {
    const selection = selectionOf(options);
    return [...(runSync(selection.metadataOf(runSync(selection.of(tensors))))(metadata) ?? [])];
  }

  it('names the new names of tensors that have aliases', () => {
    expect(metadataOf({})).toEqual([...metadata]);
    expect(metadataOf({ rename: (name) => `x.${name}` })).toEqual([
      ['format', 'pt'],
      ['x.lm_head', 'x.model.embed'],
      ['model.ids', 'model.norm'],
      ['note', 'model.other'],
    ]);
    const renamed = metadataOf({ rename: { 'model.embed': 'e', lm_head: 'head' } });
    expect(renamed[1]).toEqual(['head', 'e']);
  });

  it('loses an alias with its tensor, and to a tensor of that name', () => {
    expect(metadataOf({ names: ['model.ids'] }).map(([key]) => key)).toEqual([
      'format',
      'model.ids',
      'note',
    ]);
    const rename = { 'model.norm': 'lm_head' };
    expect(metadataOf({ rename }).map(([key]) => key)).toEqual(['format', 'model.ids', 'note']);
    expect(runSync(selectionOf({}).metadataOf([]))(null)).toBeNull();
  });
});
