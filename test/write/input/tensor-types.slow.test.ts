/** The compiler's messages about tensors to write: their dtype decides which data they may have. */

import ts from 'typescript';
import { expect, test } from 'vitest';
import { root } from '../../support/source-tree.js';

const START = `
import { safeOpen, saveCheckpoint, saveFile, serialize, splitStateDictIntoShards } from './lib/index.js';
import type { Dtype, NewTensor, NewTensorOf, Tensor, TensorBytes, TensorInput } from './lib/index.js';
const file = safeOpen('model.safetensors');
const [floats, doubles] = [new Float32Array(2), new Float64Array(2)];
const [shape, F32] = [[2], 'F32' as const];
`;

/** Lines that compile. */
const RIGHT = `
await saveFile('x', { a: { dtype: 'F32', shape, data: floats }, b: file.getTensor('b') });
await saveFile('x', { a: { dtype: 'BF16', shape, data: new Uint16Array(2) }, b: { dtype: 'F16', shape, data: Buffer.alloc(4) } });
await saveFile('x', { a: { dtype: 'U8', shape, data: new Uint8ClampedArray(2) }, b: { dtype: 'C64', shape, data: new SharedArrayBuffer(16) } });
await saveFile('x', { a: { dtype: 'F32', shape, data: async function* () { yield new Uint8Array(8); } } });
await saveFile('x', file);
await saveFile('x', new Map([['a', { dtype: F32, shape, data: floats }]]));
await saveFile('x', new Map<string, TensorInput>([['a', { dtype: 'F32', shape, data: floats }], ['b', file.getTensor('b')]]));
await saveCheckpoint('x', [['a', { dtype: 'F32', shape, data: floats }], ['b', { dtype: 'I8', shape, data: new Int8Array(2) }]], { dryRun: true });
serialize({} as Record<string, NewTensor<Dtype, never>>);
export const copied = (dtype: Dtype, data: TensorBytes): Uint8Array => serialize({ a: { dtype, shape, data } });
export const again = ({ name, dtype, data }: Tensor): Uint8Array => serialize({ [name]: { dtype, shape, data } });
export function* pairs(): Generator<[string, TensorInput]> { for (const pair of file) yield pair; }
await saveFile('x', pairs());
export const bits: Uint16Array = (file.getTensor('a') as Tensor<'BF16'>).data;
export const one: Tensor<'F32'> = file.getTensor('a').expectDtype('F32');
export function sum(tensor: Tensor<'F32' | 'I64'>): number | bigint { return tensor.dtype === 'I64' ? tensor.data.reduce((a, b) => a + b, 0n) : tensor.data.reduce((a, b) => a + b, 0); }
`;

/** Lines that do not compile, and the messages. */
const WRONG: readonly (readonly [line: string, message: RegExp])[] = [
  ...['saveFile', 'serialize', 'saveCheckpoint'].map((name) => {
    const path = name === 'serialize' ? '' : "'x', ";
    const line = `${name}(${path}{ a: { dtype: 'F32', shape, data: doubles } });`;
    const message =
      /^Type 'Float64Array<ArrayBuffer>' is not assignable to type '.*TensorBytes<"F32">'/;
    return [line, message] as const;
  }),
  [
    "saveFile('x', [['a', { dtype: 'F32', shape, data: doubles }]]);",
    /Float64Array<ArrayBuffer>; }\]' is not assignable/,
  ],
  [
    "saveFile('x', new Map([['a', { dtype: F32, shape, data: doubles }]]));",
    /data: Float64Array<ArrayBuffer>; }>' is not assignable to parameter of type 'FetchableTensors \| NamedTensors<"F32"/,
  ],
  [
    "const wide = { dtype: 'F32', shape, data: floats }; saveFile('x', { a: wide });",
    /Types of property 'dtype' are incompatible.\n\s*Type 'string' is not assignable to type 'Dtype'\.$/,
  ],
  ...[
    'const a: NewTensor = WRONG;',
    "const a: NewTensor<'F32'> = WRONG;",
    'const a: TensorInput = WRONG;',
    "new Map<string, NewTensor>().set('a', WRONG);",
    "new Map<string, TensorInput>().set('a', WRONG);",
    'const a: Record<string, NewTensor> = { a: WRONG };',
    'splitStateDictIntoShards<NewTensor>({ a: WRONG });',
  ].map((line) => {
    const wrong = "{ dtype: 'F32', shape, data: doubles }";
    return [
      `{ ${line.replace('WRONG', wrong)} }`,
      /Float64Array<ArrayBuffer>' is not assignable/,
    ] as const;
  }),
  [
    "{ const wide = new Map([['a', { dtype: 'F32', shape, data: floats }]]); saveFile('x', wide); }",
    /Type 'string' is not assignable to type 'Dtype'\.$/,
  ],
  [
    "serialize({ a: { dtype: 'F32', shape, data: () => new Uint8Array(8) } });",
    /is not assignable to type .*TensorBytes<"F32">'/,
  ],
  [
    "export const other: Tensor<'F32'> = file.getTensor('a').expectDtype('BF16');",
    /'"BF16"' is not assignable/,
  ],
];

const NAME = `${root}tensor-types.ts`;
const text = `${START}${RIGHT}\n// WRONG\n${WRONG.map(([line]) => line).join('\n')}\n`;

function diagnostics(): { readonly line: number; readonly message: string }[] {
  const options: ts.CompilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.esnext.d.ts'],
    types: ['node'],
    skipLibCheck: true,
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === NAME || fileExists(path);
  host.getSourceFile = (path, ...more) =>
    path === NAME
      ? ts.createSourceFile(path, text, ts.ScriptTarget.ES2022)
      : getSourceFile(path, ...more);
  const program = ts.createProgram([NAME], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => ({
    line: file?.getLineAndCharacterOfPosition(start).line ?? -1,
    message: ts.flattenDiagnosticMessageText(messageText, '\n'),
  }));
}

test('data is checked by its dtype, and messages are readable', () => {
  const first = text.split('\n').indexOf('// WRONG') + 1;
  const found = diagnostics();
  expect(found.filter(({ line }) => line < first)).toEqual([]);
  for (const [i, [line, message]] of WRONG.entries()) {
    const messages = found.filter((one) => one.line === first + i).map((one) => one.message);
    expect(messages, line).toEqual([expect.stringMatching(message)]);
    // Of two kinds of arrays the compiler goes on about their methods.
    const [own = ''] = messages[0]?.split(/\n.*findLast/) ?? [];
    expect(own.split('\n').length, line).toBeLessThan(10);
  }
  expect(found.length).toBe(WRONG.length);
});
