/** One grammar: `parseSlice`, `tensor.slice`, `show --slice` and the viewer accept and reject the same texts. */
import { describe, expect, it } from 'vitest';
import { partIndices, shownPart } from '../../viewer/selection.js';
import { type Called, call } from '../cli/call.js';
import { parse, parseSlice, type SafetensorsError } from '../support/api.js';
import { fileBytes, writeTemporary } from '../support/make-file.js';

const bytes = Uint8Array.from({ length: 24 }, (_, i) => i);
const entries = [{ name: 'w', dtype: 'U8', shape: [4, 6], bytes }] as const;

const VALID: readonly (readonly [text: string, shape: readonly number[]])[] = [
  ['', [4, 6]],
  [' \t', [4, 6]],
  [':', [4, 6]],
  ['...', [4, 6]],
  ['0', [6]],
  ['-1', [6]],
  ['-4,-6', []],
  ['+3, 005', []],
  ['1,', [6]],
  ['1:3', [2, 6]],
  ['1:3, ::2', [2, 3]],
  ['::-1, 5:0:-2', [4, 3]],
  [' 1 : 3 : 1 , \t: ', [2, 6]],
  ['::', [4, 6]],
  ['..., -1', [4]],
  ['2, ...', [6]],
  ['0, ..., 1', []],
  ['-99:99, 99:', [4, 0]],
  ['3:1', [0, 6]],
  ['-9::-1', [0, 6]],
  ['99999999999999999999:', [0, 6]],
];

const SYNTAX = /^slice must be in numpy's notation, such as '0:10, ::2, \.\.\., -1', but is "/;

const INVALID: readonly (readonly [text: string, code: string, message: RegExp])[] = [
  // The viewer once accepted these three.
  ['[0, 1]', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['…', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['..., ...', 'ERR_OUT_OF_RANGE', /^index\[1\] must be no second '\.\.\.', but is /],
  ['0:\u00a02', 'ERR_OUT_OF_RANGE', SYNTAX],
  [',', 'ERR_OUT_OF_RANGE', SYNTAX],
  [',1', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['1,,2', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['a', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['1.5', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['1e0', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['0x1', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['None', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['(1)', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['1 2', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['- 1', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['1:2:3:4', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['..', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['...:1', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['1;2', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['١', 'ERR_OUT_OF_RANGE', SYNTAX],
  ['::0', 'ERR_OUT_OF_RANGE', /^step of index\[0\] must be different from 0, but is 0$/],
  ['4', 'SAFETENSORS_SLICE_OUT_OF_RANGE', /^index\[0\] is 4, out of range for dimension 0 of size/],
  ['..., -7', 'SAFETENSORS_SLICE_OUT_OF_RANGE', /^index\[1\] is -7, out of range for dimension 1/],
  ['0, 0, 0', 'SAFETENSORS_TOO_MANY_INDICES', /^3 indices for a tensor of 2 dimensions$/],
  ['0, 0, ..., 0', 'SAFETENSORS_TOO_MANY_INDICES', /^3 indices for a tensor of 2 dimensions$/],
];

function failureOf(action: () => unknown): SafetensorsError {
  try {
    action();
  } catch (error) {
    return error as SafetensorsError;
  }
  throw new Error('it was accepted');
}

/** A message without its path and tensor, and with the name of the option in the library. */
function messageIn(message: string): string {
  return message.replace(/^(?:\S+: )?tensor "w": /, '').replace(/^--slice /, 'slice ');
}

const tensor = parse(fileBytes(entries)).getTensor('w');

function show(text: string): Promise<Called> {
  return call(['show', writeTemporary(entries), 'w', `--slice=${text}`, '--json']);
}

describe('a slice as text', () => {
  it.each(VALID)('%j is accepted', async (text, shape) => {
    const axes = parseSlice(text, tensor.shape);
    expect(axes.filter(({ kept }) => kept).map(({ count }) => count)).toEqual(shape);
    const slice = tensor.slice(text);
    expect(slice.shape).toEqual(shape);
    const shown = shownPart(text, tensor.shape);
    expect(shown).toEqual({ axes, problem: null });
    const part = tensor.slice(...partIndices(shown.axes));
    expect([part.shape, part.bytes]).toEqual([shape, slice.bytes]);
    const { code, stdout, stderr } = await show(text);
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toMatchObject({ shape });
  });

  it.each(INVALID)('%j is rejected', async (text, code, message) => {
    const error = failureOf(() => parseSlice(text, tensor.shape));
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
    const ofSlice = failureOf(() => tensor.slice(text));
    expect([ofSlice.name, ofSlice.code]).toEqual([error.name, code]);
    expect(messageIn(ofSlice.message)).toBe(error.message);
    const { axes, problem } = shownPart(text, tensor.shape);
    expect(problem).toEqual(error);
    expect(axes).toEqual(parseSlice('', tensor.shape));
    const { code: exit, stderr } = await show(text);
    expect(exit).toBe(code === 'ERR_OUT_OF_RANGE' ? 2 : 1);
    const ofShow = JSON.parse(stderr);
    expect([ofShow.code, messageIn(ofShow.message)]).toEqual([code, error.message]);
  });
});
