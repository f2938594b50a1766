/** Weights of bitsandbytes in 4 bits: NF4 and FP4. A state, JSON in a separate tensor, has their shape and blocks. */

import { tensorByteLength } from '../../header/tensor-spec.js';
import { type CheckpointTensors, STATE_MARK } from './checkpoint-tensors.js';
import { countOf, type Fields, fieldsOf } from './configuration.js';
import { type FlatLayout, type LogicalPlan, namesOf, type StoredTensor } from './logical-plan.js';
import { formatShape, invalid, unsupported } from './unsupported.js';

/** Numbers of a code book of four bits, and of the bytes of nested scales. */
const MAP_LENGTH = 16;
const NESTED_MAP_LENGTH = 256;

/** Most dimensions of a shape in a state. */
const MAX_DIMENSIONS = 16;

/** Plans the weight of a state; `state` is the tensor with its JSON. */
export function planFourBits(state: StoredTensor, tensors: CheckpointTensors): LogicalPlan {
  const at = state.name.lastIndexOf(STATE_MARK);
  const name = state.name.slice(0, at);
  const kind = state.name.slice(at + STATE_MARK.length);
  if (kind !== 'nf4' && kind !== 'fp4')
    throw unsupported(name, `bitsandbytes' ${JSON.stringify(kind)} is not read`);
  const codes = tensors.need(name, name);
  const fields = readState(name, tensors.bytesOf(state, name));
  if (fields['quant_type'] !== kind) {
    throw invalid(
      name,
      `the state of bitsandbytes is named ${kind}, but has the type ${JSON.stringify(fields['quant_type'])}`,
    );
  }
  const shape = shapeOf(name, fields['shape']);
  const count = shape.reduce((product, dimension) => product * dimension, 1);
  const byteLength = tensorByteLength(codes);
  // Codes of another dtype, such as BF16, fill whole elements.
  const fits = byteLength >= Math.ceil(count / 2) && byteLength < Math.ceil(count / 2) + 8;
  if (!fits) {
    throw invalid(
      name,
      `the state has the shape ${formatShape(shape)}, which does not fit ${byteLength} bytes of codes`,
    );
  }
  const blockLength = countOf(fields['blocksize']);
  if (blockLength === undefined) throw invalid(name, 'the state has no positive blocksize');
  const blocks = Math.ceil(count / blockLength);
  const absmax = listOf(name, `${name}.absmax`, blocks, tensors);
  const map = listOf(name, `${name}.quant_map`, MAP_LENGTH, tensors);
  if (map.dtype !== 'F32')
    throw invalid(name, `expected ${JSON.stringify(map.name)} to be F32, found ${map.dtype}`);
  const nested = nestedOf(name, absmax, blocks, fields, tensors);
  const layout: FlatLayout = { kind: 'flat', codes, map, absmax, blockLength, nested };
  return {
    name,
    shape,
    scheme: `bitsandbytes-${kind}`,
    bits: 4,
    block: [blockLength],
    storedAs: namesOf({
      weight: codes,
      scale: absmax,
      codeBook: map,
      state,
      nestedScale: nested?.absmax,
      nestedCodeBook: nested?.map,
    }),
    layout,
  };
}

function readState(name: string, bytes: Uint8Array): Fields {
  try {
    return fieldsOf(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
  } catch (cause) {
    throw Object.assign(invalid(name, 'the state of bitsandbytes (quant_state) is not JSON'), {
      cause,
    });
  }
}

function shapeOf(name: string, given: unknown): number[] {
  const shape: unknown[] = Array.isArray(given) ? given : [];
  const isShape = shape.length > 0 && shape.length <= MAX_DIMENSIONS;
  if (isShape && shape.every((one) => Number.isSafeInteger(one) && (one as number) >= 0))
    return shape as number[];
  throw invalid(name, `the state has no shape, but ${JSON.stringify(given ?? null).slice(0, 100)}`);
}

function listOf(
  weight: string,
  name: string,
  length: number,
  tensors: CheckpointTensors,
): StoredTensor {
  const tensor = tensors.need(name, weight);
  const count = tensor.shape.reduce((product, dimension) => product * dimension, 1);
  if (count === length) return tensor;
  throw invalid(
    weight,
    `expected ${length} items of ${JSON.stringify(name)}, found shape ${formatShape(tensor.shape)}`,
  );
}

function nestedOf(
  name: string,
  absmax: StoredTensor,
  blocks: number,
  fields: Fields,
  tensors: CheckpointTensors,
): FlatLayout['nested'] {
  if (absmax.dtype !== 'U8') {
    if (absmax.dtype === 'F32') return null;
    throw invalid(
      name,
      `expected ${JSON.stringify(absmax.name)} to be F32 or U8, found ${absmax.dtype}`,
    );
  }
  const blockLength = countOf(fields['nested_blocksize']);
  const offset = fields['nested_offset'];
  if (blockLength === undefined || typeof offset !== 'number') {
    throw invalid(
      name,
      'the state has no nested_blocksize and nested_offset, which scales of U8 need',
    );
  }
  const map = listOf(name, `${name}.nested_quant_map`, NESTED_MAP_LENGTH, tensors);
  const nested = listOf(name, `${name}.nested_absmax`, Math.ceil(blocks / blockLength), tensors);
  for (const tensor of [map, nested]) {
    if (tensor.dtype !== 'F32')
      throw invalid(
        name,
        `expected ${JSON.stringify(tensor.name)} to be F32, found ${tensor.dtype}`,
      );
  }
  return { absmax: nested, map, blockLength, offset: Math.fround(offset) };
}
