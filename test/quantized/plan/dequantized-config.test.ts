/** `config.json` without its quantization, byte for byte as it was otherwise. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dequantizedConfig, parsedConfig } from '../../../src/quantized/plan/dequantized-config.js';

const encoder = new TextEncoder();

function plain(text: string, dtype: string | null = null): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(
    dequantizedConfig(encoder.encode(text), dtype, 'config.json'),
  );
}

describe('sections', () => {
  it.each([
    ['{"a": 1, "quantization_config": {"b": [1, {}]}, "c": 2}', '{"a": 1, "c": 2}'],
    ['{"quantization_config": {}, "c": 2}', '{"c": 2}'],
    ['{"a": 1,\n "quantization": {},\n "compression_config": {}\n}', '{"a": 1\n}'],
    ['{"quantization": {}, "quantization_config": {}}', '{}'],
    ['{"quantization": {}, "a": 1, "quantization_config": {}}', '{"a": 1}'],
    ['{"expert_dtype": "fp4", "a": 1}', '{"a": 1}'],
    ['{"text_config": {"quantization_config": {}, "b": 1.0}}', '{"text_config": {"b": 1.0}}'],
    [
      '{"a_config": {"text_config": {"x": 1, "quantization_config": null}}}',
      '{"a_config": {"text_config": {"x": 1}}}',
    ],
    // Elsewhere these names mean something else.
    ['{"task": {"quantization": "none"}}', '{"task": {"quantization": "none"}}'],
    ['{"quantiz\\u0061tion": 1, "a": 2}', '{"a": 2}'],
    [
      '{"ü": 1e-05, "limit": [0.0, Infinity, -Infinity, NaN], "quantization": 1}',
      '{"ü": 1e-05, "limit": [0.0, Infinity, -Infinity, NaN]}',
    ],
    [
      '{"text": "NaN \\" Infinity", "quantization": NaN, "big": 1000000000000000019884624838656}',
      '{"text": "NaN \\" Infinity", "big": 1000000000000000019884624838656}',
    ],
    ['{}', '{}'],
    ['\ufeff{"a": NaN, "quantization": 1}', '\ufeff{"a": NaN}'],
  ])('leaves %s as %s', (before, after) => {
    expect(plain(before)).toBe(after);
  });

  it('leave any other text as it is', () => {
    const other = fc
      .string()
      .filter((key) => !/quantization|compression_config|expert_dtype/.test(key));
    fc.assert(
      fc.property(
        fc.dictionary(other, fc.jsonValue()),
        fc.jsonValue(),
        fc.nat(),
        (members, section, at) => {
          const entries = Object.entries(members);
          const text = JSON.stringify(Object.fromEntries(entries), null, 1);
          expect(plain(text)).toBe(text);
          const some = [...entries];
          some.splice(at % (entries.length + 1), 0, ['quantization_config', section as never]);
          expect(JSON.parse(plain(JSON.stringify(Object.fromEntries(some), null, 2)))).toEqual(
            JSON.parse(text),
          );
        },
      ),
    );
  });
});

it('names the new dtype of the weights where it names one', () => {
  const before =
    '{"dtype": "bfloat16", "torch_dtype": null, "text_config": {"dtype": "bfloat16"}, ' +
    '"vision_config": {"torch_dtype": "float32"}}';
  expect(plain(before, 'float16')).toBe(
    '{"dtype": "float16", "torch_dtype": "float16", "text_config": {"dtype": "float16"}, ' +
      '"vision_config": {"torch_dtype": "float32"}}',
  );
  expect(plain('{"a": 1}', 'float16')).toBe('{"a": 1}');
});

it.each(['', '[]', '{"a": 1', '{"a": 1} x', '{"a": Inf}', '"text"'])('refuses %j', (text) => {
  expect(() => plain(text)).toThrow(
    expect.objectContaining({
      code: 'SAFETENSORS_QUANTIZATION_INVALID',
      path: 'config.json',
      message: expect.stringMatching(/^config.json: expected .* at configuration byte \d+, found /),
    }),
  );
});

describe('a byte order mark', () => {
  it('is no part of the parsed configuration', () => {
    const config = encoder.encode('\ufeff{"a": {"b": -Infinity}}');
    expect(parsedConfig(config, 'config.json')).toEqual({ a: { b: '-Infinity' } });
  });

  it('of UTF-16 is named', () => {
    const config = Buffer.from('\ufeff{"a": 1}', 'utf16le');
    expect(() => dequantizedConfig(config, null, 'config.json')).toThrow(
      'config.json: expected UTF-8, found the byte order mark of UTF-16 at configuration byte 0',
    );
  });
});
