import { describe, expect, it } from 'vitest';
import { parseCheckpointIndex } from '../../../src/file/shards/checkpoint-index.js';
import { parseHeader } from '../../../src/header/header.js';
import { headerRecord, indexRecord } from '../../../src/remote/metadata/result.js';
import { runSync } from '../../../src/work/work.js';

const encoder = new TextEncoder();

/** The header with this text, of a file with so many bytes of data. */
function header(text: string, dataByteLength: number) {
  const json = encoder.encode(text);
  return headerRecord(parseHeader(json, 8 + json.length + dataByteLength));
}

function index(value: object) {
  return runSync(indexRecord(parseCheckpointIndex(encoder.encode(JSON.stringify(value)))));
}

/** Every object in a value, itself included; arrays do not count. */
function objectsIn(value: unknown): object[] {
  if (typeof value !== 'object' || value === null) return [];
  const inner = Object.values(value).flatMap(objectsIn);
  return Array.isArray(value) ? inner : [value, ...inner];
}

describe('headerRecord', () => {
  const text =
    '{"b":{"dtype":"U8","shape":[2,1],"data_offsets":[1,3]},"__proto__":{"shape":[],"note":"x",' +
    '"dtype":"I8","data_offsets":[0,1]},"__metadata__":{"__proto__":"y","format":"pt"}}  ';

  it('has what the JSON has, in its order', () => {
    const record = header(text, 3);
    expect(JSON.stringify(record)).toBe(text.trim());
    expect(Object.getOwnPropertyDescriptor(record, '__proto__')?.value.dtype).toBe('I8');
  });

  it('has no prototypes', () => {
    const objects = objectsIn(header(text, 3));
    expect(objects).toHaveLength(4);
    expect(objects.map((object) => Object.getPrototypeOf(object))).toEqual(objects.map(() => null));
  });

  it('keeps metadata that are null', () => {
    expect(header('{"__metadata__":null}', 0)).toEqual({ __metadata__: null });
  });
});

describe('indexRecord', () => {
  it('has dtype, the values of the metadata that are no objects, and the weight map', () => {
    const record = index({
      dtype: 'bfloat16',
      metadata: { total_size: 12.5, a: 'x', yes: true, none: null, list: [1], object: {} },
      other: 1,
      weight_map: { b: 'x.safetensors', a: 'y.safetensors' },
    });
    expect(record).toEqual({
      dtype: 'bfloat16',
      metadata: { total_size: 12.5, a: 'x', yes: true, none: null },
      weight_map: { b: 'x.safetensors', a: 'y.safetensors' },
    });
    expect(objectsIn(record).map((object) => Object.getPrototypeOf(object))).toEqual([
      null,
      null,
      null,
    ]);
  });

  it.each([{}, { metadata: {} }, { metadata: { list: [] } }, { metadata: 'x', dtype: 16 }])(
    'of %j has only the weight map',
    (members) => {
      expect(Object.keys(index({ ...members, weight_map: {} }))).toEqual(['weight_map']);
    },
  );
});
