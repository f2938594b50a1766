import { describe, expect, it, test } from 'vitest';
import {
  argumentRangeError,
  argumentTypeError,
  requireBoolean,
  requireFunction,
  requireInteger,
  requireNames,
  requireOptions,
  requirePathFirst,
  requireSignal,
  requireString,
} from '../../src/errors/arguments.js';

test('a member of an option is looked for beside it, and named with it', () => {
  const names = { limits: { maxDepth: true }, storage: true } as const;
  const call = (options: object, label?: string) => () =>
    label === undefined
      ? requireOptions(options, names)
      : requireOptions(options, names.limits, label);
  expect(call({ maxDepth: 1 })).toThrow('unknown option "maxDepth"; it is limits.maxDepth');
  expect(call({ maxDept: 1 }, 'limits')).toThrow(
    'unknown option "limits.maxDept"; did you mean limits.maxDepth?',
  );
  expect(call({ other: 1 }, 'limits')).toThrow('; the options are limits.maxDepth');
  expect(call([], 'limits')).toThrow('limits must be an object with maxDepth, but is');
});

describe('argument errors', () => {
  it('name the argument, what was expected and what came', () => {
    const type = argumentTypeError('path', 'a string', 12n);
    expect(type).toBeInstanceOf(TypeError);
    expect(type).toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
      message: 'path must be a string, but is 12n',
    });
    const range = argumentRangeError('step', 'a number other than 0', 0);
    expect(range).toBeInstanceOf(RangeError);
    expect(range).toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
      message: 'step must be a number other than 0, but is 0',
    });
  });

  it.each([
    ['text', '"text"'],
    [undefined, 'undefined'],
    [null, 'null'],
    [Symbol('s'), 'Symbol(s)'],
    [new Map(), 'an instance of Map'],
    [Object.create(null), 'an instance of Object'],
    [{ constructor: { name: Symbol('s') } }, 'an instance of Object'],
    [(function* () {})(), 'an instance of Object'],
    [() => 1, 'a function'],
    [Number.NaN, 'NaN'],
    ['x'.repeat(500), `"${'x'.repeat(120)}"… (500 characters)`],
  ])('describe the value, case %#', (value, text) => {
    expect(argumentTypeError('a', 'b', value).message).toBe(`a must be b, but is ${text}`);
  });
});

describe('checks of arguments', () => {
  it.each([
    [
      'options',
      () => requireOptions({}, {}),
      () => requireOptions(null, {}),
      'an object, but is null',
    ],
    [
      'options',
      () => requireOptions(Object.create(null), {}),
      () => requireOptions('mmap', {}),
      'an object, but is "mmap"',
    ],
    [
      'names',
      () => requireNames(['a']),
      () => requireNames('a'),
      'an iterable of strings, such as ["a"], but is "a"',
    ],
    [
      'names',
      () => requireNames(new Set()),
      () => requireNames({}),
      'an iterable of strings, but is an instance of Object',
    ],
    ['a', () => requireString('a', ''), () => requireString('a', 1), 'a string, but is 1'],
    ['a', () => requireBoolean('a', false), () => requireBoolean('a', 0), 'a boolean, but is 0'],
    [
      'a',
      () => requireFunction('a', Map),
      () => requireFunction('a', undefined),
      'a function, but is undefined',
    ],
    [
      'signal',
      () => requireSignal(AbortSignal.abort()),
      () => requireSignal(null),
      'an AbortSignal, but is null',
    ],
    [
      'signal',
      () => requireSignal(undefined),
      () => requireSignal(new AbortController()),
      'an AbortSignal, but is an instance of AbortController',
    ],
    [
      'a',
      () => requireInteger('a', 2, 2, 4),
      () => requireInteger('a', '2', 2, 4),
      'a number, but is "2"',
    ],
  ])('throw a TypeError, case %#', (name, passes, fails, expected) => {
    passes();
    expect(fails).toThrow(TypeError);
    expect(fails).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG_TYPE',
        message: `${name} must be ${expected}`,
      }),
    );
  });

  it('throw a RangeError for integers outside of a range', () => {
    requireInteger('a', 4, 2, 4);
    for (const value of [1, 5, 2.5, Number.NaN]) {
      const check = (): void => requireInteger('a', value, 2, 4);
      expect(check).toThrow(RangeError);
      expect(check).toThrow(
        expect.objectContaining({
          code: 'ERR_OUT_OF_RANGE',
          message: `a must be an integer from 2 to 4, but is ${value}`,
        }),
      );
    }
  });
});

describe('calls as in Python', () => {
  it('say that the path comes first', () => {
    const call = 'saveFile(path, tensors)';
    for (const path of ['a', new URL('file:///a')]) {
      expect(() => requirePathFirst({}, path, call)).toThrow(
        expect.objectContaining({
          code: 'ERR_INVALID_ARG_TYPE',
          message:
            'path must be a path, but is an instance of Object; the path comes first: saveFile(path, tensors)',
        }),
      );
      requirePathFirst(path, {}, call);
      requirePathFirst(path, 'not tensors', call);
      requirePathFirst(new Uint8Array(1), path, call);
    }
    requirePathFirst({}, {}, call);
  });

  it.each(['pt', 'np', 'cpu', 'cuda:1'])('leave out %s', (value) => {
    expect(() => requireOptions(value, { storage: true })).toThrow(
      `options must be an object, but is "${value}"; leave out the framework and the device of Python`,
    );
  });

  it.each(['framework', 'device'])('leave out the option %s', (name) => {
    expect(() => requireOptions({ [name]: 'pt' }, { storage: true })).toThrow(
      `unknown option "${name}"; leave it out: tensors have typed arrays`,
    );
  });

  it.each([
    ['allow_patterns', 'it is files here'],
    ['allowPatterns', 'it is files here'],
    ['ignore_patterns', 'it is ignore here'],
    ['local_dir', 'pass the folder as the target'],
    ['cache_dir', "pass 'cache' as the target; HF_HUB_CACHE says where the cache is"],
  ])("name what does the work of the Hub's option %s", (name, advice) => {
    expect(() => requireOptions({ [name]: 'x' }, { files: true, ignore: true })).toThrow(
      `unknown option "${name}"; ${advice}`,
    );
    expect(() => requireOptions({ [name]: 'x' }, { storage: true })).toThrow(/are storage$/);
  });

  it('give metadata as an option', () => {
    expect(() => requireOptions({ format: 'pt' }, { metadata: true })).toThrow(
      'unknown option "format"; the options are metadata; if it is metadata, write { metadata: { "format": … } }',
    );
    expect(() => requireOptions({ format: 'pt' }, { storage: true })).toThrow(/are storage$/);
    expect(() => requireOptions({ format: 1 }, { metadata: true })).toThrow(/are metadata$/);
    expect(() => requireOptions({ meta_data: 'pt' }, { metadata: true })).toThrow('did you mean');
  });
});
