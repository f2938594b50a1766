import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import {
  FileChangedError,
  FileClosedError,
  FormatError,
  InvalidTensorError,
  QuantizationError,
  quoteName,
  RemoteError,
  SafetensorsError,
  TensorNotFoundError,
} from '../../src/errors/errors.js';
import { SelectionError } from '../../src/write/selection/selection-error.js';
import { textOf } from '../support/source-tree.js';
import { parse, walk } from '../support/syntax.js';

/** Texts of a union type, by default of codes, without those of the unions it includes. */
function codesOf(typeName: string, path = 'src/errors/errors.ts'): string[] {
  const codes: string[] = [];
  walk(parse(path), (node) => {
    if (!ts.isTypeAliasDeclaration(node) || node.name.text !== typeName) return;
    walk(node.type, (part) => {
      if (ts.isLiteralTypeNode(part) && ts.isStringLiteral(part.literal)) {
        codes.push(part.literal.text);
      }
    });
  });
  return codes;
}

/** The sections of the page: a code as heading, its classes with the cause, then the remedy. */
const sections = [
  ...textOf('docs/errors.md').matchAll(
    /^### (\w+)\n\n((?:`\w+`(?:, )?)+): [\s\S]+?\n\*\*Fix:\*\* \S/gm,
  ),
].map(([, code = '', classes = '']) => ({
  code,
  classes: classes.match(/\w+/g) ?? [],
}));

/** Classes that carry exactly one code. */
const OWN_CLASS = [
  new TensorNotFoundError('x', []),
  new FileClosedError(),
  new FileChangedError('shorter'),
  new SelectionError([]),
];

describe('docs/errors.md', () => {
  it('has one heading for every code, and no code that does not exist', () => {
    const codes = [
      'FormatErrorCode',
      'InvalidTensorErrorCode',
      'RemoteErrorCode',
      'QuantizationErrorCode',
      'ErrorCode',
    ].map((name) => codesOf(name));
    expect(codes.map((list) => list.length > 0)).toEqual([true, true, true, true, true]);
    expect(sections.map(({ code }) => code).toSorted()).toEqual(
      [...new Set(codes.flat())].toSorted(),
    );
    const onThePage = textOf('docs/errors.md').match(/SAFETENSORS_\w+/g);
    expect(new Set(onThePage)).toEqual(new Set(codes.flat()));
  });

  it('has every foundFormat, and none that does not exist', () => {
    const [, table = ''] =
      /\n\| `foundFormat` \| format (.+?)\n\n/s.exec(textOf('docs/errors.md')) ?? [];
    const cells = [...table.matchAll(/^\| (`[^|]+) \|/gm)].map(([, cell = '']) => cell);
    const found = cells.flatMap((cell) => cell.match(/(?<=`)[\w-]+(?=`)/g) ?? []);
    expect(found.sort()).toEqual(codesOf('FoundFormat', 'src/errors/found-format.ts').sort());
    expect(found).toContain('gguf');
  });

  it('names the classes of each', () => {
    const expected = new Set([
      ...codesOf('FormatErrorCode').map((code) => `${code} ${FormatError.name}`),
      ...codesOf('InvalidTensorErrorCode').map((code) => `${code} ${InvalidTensorError.name}`),
      ...codesOf('RemoteErrorCode').map((code) => `${code} ${RemoteError.name}`),
      ...codesOf('QuantizationErrorCode').map((code) => `${code} ${QuantizationError.name}`),
      ...codesOf('ErrorCode').map((code) => {
        const own = OWN_CLASS.find((error) => error.code === code);
        return `${code} ${own?.name ?? SafetensorsError.name}`;
      }),
    ]);
    const named = sections.flatMap(({ code, classes }) => classes.map((name) => `${code} ${name}`));
    expect(new Set(named)).toEqual(expected);
  });
});

describe('quoteName', () => {
  it('escapes as JSON does', () => {
    expect(quoteName('a\n"b"')).toBe('"a\\n\\"b\\""');
    expect(quoteName('')).toBe('""');
    expect(quoteName('\u0000')).toBe('"\\u0000"');
  });

  it('shows 120 characters and says how many there are', () => {
    expect(quoteName('x'.repeat(120))).toBe(`"${'x'.repeat(120)}"`);
    expect(quoteName('x'.repeat(121))).toBe(`"${'x'.repeat(120)}"… (121 characters)`);
  });

  it('stays bounded for a hostile name, whatever it is made of', () => {
    for (const character of ['x', '\u0000', '\ud800', '😀']) {
      expect(quoteName(character.repeat(1_000_000)).length).toBeLessThan(1000);
    }
  });
});

describe('messages', () => {
  it('begin with the file and the tensor', () => {
    const error = new FormatError('SAFETENSORS_INVALID_OFFSET', 'begins at 8, expected 0', {
      path: 'a/model.safetensors',
      tensor: 'wte.weight',
    });
    expect(error.message).toBe('a/model.safetensors: tensor "wte.weight": begins at 8, expected 0');
    expect(error.path).toBe('a/model.safetensors');
    expect(error.tensor).toBe('wte.weight');
  });

  it('leave out what is not known', () => {
    const error = new SafetensorsError('SAFETENSORS_NOT_A_REGULAR_FILE', 'is a directory');
    expect(error.message).toBe('is a directory');
    expect(Object.keys(error)).toEqual(['code']);
    expect('cause' in error).toBe(false);
    const file = new FileClosedError({ path: 'm.safetensors' });
    expect(file.message).toBe('m.safetensors: the file is closed');
  });

  it('cut long tensor names, which the property keeps', () => {
    const tensor = 'n'.repeat(1_000_000);
    const error = new SafetensorsError('SAFETENSORS_SLICE_OUT_OF_RANGE', 'too far', { tensor });
    expect(error.message.length).toBeLessThan(300);
    expect(error.message).toContain('(1000000 characters)');
    expect(error.tensor).toBe(tensor);
  });

  it('keep the cause, also when that is no error', () => {
    const cause = new Error('EIO');
    const message = 'file is shorter';
    expect(new FileChangedError(message, { cause }).cause).toBe(cause);
    expect(new FileChangedError(message, { cause: null }).cause).toBe(null);
  });

  it('of a missing tensor list near names', () => {
    const error = new TensorNotFoundError('weigth', ['weight', 'wei"ght'], { path: 'm' });
    expect(error.message).toBe(
      'm: tensor "weigth": no such tensor; did you mean "weight", "wei\\"ght"?',
    );
    expect(new TensorNotFoundError('a', []).message).toBe('tensor "a": no such tensor');
    for (const path of ['f/model-00002-of-00163.safetensors', 'https://h/m-2-of-163.bin?sig=x']) {
      expect(new TensorNotFoundError('a', [], { path }).message).toBe(
        `${path}: tensor "a": no such tensor in file 2 of 163 of a checkpoint; its folder or index has all tensors`,
      );
    }
    for (const path of ['model-00001-of-00001.safetensors', 'a-2-of-3.d/model.safetensors']) {
      expect(new TensorNotFoundError('a', [], { path }).message).toMatch(/: no such tensor$/);
    }
    expect(new TensorNotFoundError('a', [], { tensor: 'b' }).tensor).toBe('a');
  });
});

describe('classes', () => {
  const errors = [
    ...OWN_CLASS,
    new SafetensorsError('SAFETENSORS_TENSOR_TOO_LARGE', 'm'),
    new FormatError('SAFETENSORS_DUPLICATE_KEY', 'm'),
    new InvalidTensorError('SAFETENSORS_INVALID_TENSOR_VIEW', 'm'),
    new SafetensorsError('SAFETENSORS_TOO_MANY_INDICES', 'm'),
  ];

  it.each(errors.map((error) => [error.name, error] as const))('%s', (name, error) => {
    expect(error).toBeInstanceOf(SafetensorsError);
    expect(error).toBeInstanceOf(Error);
    expect(error.constructor.name).toBe(name);
    expect(error.stack).toContain(name);
    expect(String(error)).toBe(`${name}: ${error.message}`);
    expect(error.code).toMatch(/^SAFETENSORS_[A-Z0-9_]+$/);
  });
});

describe('what an error tells beside its message', () => {
  it('is on it where it is known, and else no property of it', () => {
    const code = 'SAFETENSORS_BAD_RESPONSE';
    const bare = new RemoteError(code, 'no');
    for (const key of ['path', 'tensor', 'foundFormat', 'cause', 'status', 'url']) {
      expect(Object.hasOwn(bare, key), key).toBe(false);
    }
    const context = { path: 'a', tensor: 'b', cause: bare, status: 404, url: 'https://host/a' };
    expect(new RemoteError(code, 'no', context)).toMatchObject({ code, ...context });
    const foreign = new SafetensorsError(code, 'no', { foundFormat: 'zip' });
    expect(foreign.foundFormat).toBe('zip');
  });
});
