/** Weights of E2M1, two values a byte: NVFP4, MXFP4, DeepSeek-V4's experts, and the layout of gpt-oss. */

import type { Dtype } from '../../header/dtype.js';
import type { CheckpointTensors } from './checkpoint-tensors.js';
import type { Configuration } from './configuration.js';
import { gridOf, hasGrid, matricesOf } from './groups.js';
import {
  type LogicalPlan,
  namesOf,
  type RowLayout,
  rowLayout,
  type StoredTensor,
} from './logical-plan.js';
import { memberOf, moduleOf, requireConfigured } from './scaled.js';
import { formatShape, invalid } from './unsupported.js';

/** Bytes that share a scale in MXFP4. */
const MX_GROUP_BYTES = 16;

/** What {@link planE2M1} needs to know of a scheme. */
interface E2M1Scheme {
  readonly name: string;
  readonly scheme: string;
  readonly codes: StoredTensor;
  readonly scale: StoredTensor;
  readonly scaleDtype: Dtype;
  readonly groupLength: number;
  readonly global: RowLayout['global'];
}

/** Plans a weight whose rows are E2M1 with a scale for every few columns. */
function planE2M1({
  name,
  scheme,
  codes,
  scale,
  scaleDtype,
  groupLength,
  global,
}: E2M1Scheme): LogicalPlan {
  const packed = matricesOf(codes);
  const of = { ...packed, columns: packed.columns * 2 };
  const shape = [...codes.shape.slice(0, -1), of.columns];
  const grid = gridOf(of, [1, groupLength]);
  if (of.columns % groupLength !== 0 || !hasGrid(scale.shape, grid)) {
    const needed = [...codes.shape.slice(0, -1), of.columns / groupLength];
    throw invalid(
      name,
      `${JSON.stringify(scale.name)} has shape ${formatShape(scale.shape)}, expected ${formatShape(needed)} for ` +
        `${formatShape(codes.shape)} bytes of codes`,
    );
  }
  if (global?.tensor.shape.some((dimension) => dimension !== 1)) {
    throw invalid(
      name,
      `expected ${JSON.stringify(global.tensor.name)} to be one number, found shape ${formatShape(global.tensor.shape)}`,
    );
  }
  return {
    name,
    shape,
    scheme,
    bits: 4,
    block: [1, groupLength],
    storedAs: namesOf({ weight: codes, scale, globalScale: global?.tensor }),
    layout: rowLayout({
      codes,
      packing: { kind: 'e2m1', first: 'low' },
      grid,
      scale: { tensor: scale, dtype: scaleDtype },
      global,
    }),
  };
}

/** Plans `weight_packed` of U8 of compressed-tensors; `name` is the logical name. */
export function planPackedE2M1(
  name: string,
  codes: StoredTensor,
  tensors: CheckpointTensors,
  configuration: Configuration,
): LogicalPlan {
  requireConfigured(name, tensors, configuration);
  const scale = tensors.need(`${name}_scale`, name);
  const global = tensors.find(`${name}_global_scale`);
  if (scale.dtype === 'F8_E4M3') {
    const tensor = global ?? tensors.need(`${name}_global_scale`, name);
    if (tensor.dtype !== 'F32')
      throw invalid(
        name,
        `expected ${JSON.stringify(tensor.name)} to be F32, found ${tensor.dtype}`,
      );
    return planE2M1({
      name,
      scheme: 'nvfp4',
      codes,
      scale,
      scaleDtype: 'F8_E4M3',
      groupLength: 16,
      global: { tensor, divides: true },
    });
  }
  const isExponents = scale.dtype === 'U8' || scale.dtype === 'F8_E8M0';
  if (!isExponents || global !== undefined) {
    throw invalid(name, `scales of ${scale.dtype} are neither those of nvfp4 nor of mxfp4`);
  }
  const groups = { scaleDtype: 'F8_E8M0', groupLength: 32, global: null } as const;
  return planE2M1({ name, scheme: 'mxfp4', codes, scale, ...groups });
}

/** Plans `weight` of U8 with `weight_scale` and `weight_scale_2` of modelopt. */
export function planModeloptE2M1(weight: StoredTensor, tensors: CheckpointTensors): LogicalPlan {
  const { name } = weight;
  const scale = tensors.need(`${name}_scale`, name);
  const global = tensors.need(`${name}_scale_2`, name);
  if (scale.dtype !== 'F8_E4M3' || global.dtype !== 'F32') {
    throw invalid(
      name,
      `expected ${JSON.stringify(scale.name)} of F8_E4M3 and ${JSON.stringify(global.name)} of F32, found ` +
        `${scale.dtype} and ${global.dtype}`,
    );
  }
  return planE2M1({
    name,
    scheme: 'nvfp4',
    codes: weight,
    scale,
    scaleDtype: 'F8_E4M3',
    groupLength: 16,
    global: { tensor: global, divides: false },
  });
}

/** Plans an I8 weight with exponents for every 16 bytes, an expert of DeepSeek-V4; undefined for any other. */
export function planFourBitExpert(
  weight: StoredTensor,
  tensors: CheckpointTensors,
): LogicalPlan | undefined {
  const { name, shape } = weight;
  const scale = tensors.find(memberOf(moduleOf(name), 'scale'));
  const columns = shape.at(-1) ?? 0;
  if (scale?.dtype !== 'F8_E8M0' || scale.shape.at(-1) !== columns / MX_GROUP_BYTES)
    return undefined;
  const groups = { scaleDtype: 'F8_E8M0', groupLength: 32, global: null } as const;
  return planE2M1({ name, scheme: 'mxfp4', codes: weight, scale, ...groups });
}

/** Plans `_blocks` and `_scales` of gpt-oss, or `.blocks` and `.scales` of OpenAI's own files. */
export function planBlocks(codes: StoredTensor, tensors: CheckpointTensors): LogicalPlan {
  const isExchanged = codes.name.endsWith('_blocks');
  const name = codes.name.slice(0, -'_blocks'.length);
  const scales = tensors.need(`${name}${isExchanged ? '_' : '.'}scales`, name);
  const { shape } = codes;
  const [matrices = 0, rows = 0, groups = 0] = shape;
  const isBlocks = shape.length === 4 && shape[3] === MX_GROUP_BYTES && codes.dtype === 'U8';
  const fits =
    scales.dtype === 'U8' && formatShape(scales.shape) === formatShape([matrices, rows, groups]);
  if (!isBlocks || !fits) {
    throw invalid(
      name,
      `expected blocks of U8 of shape [E, O, G, 16] and scales of U8 of shape [E, O, G], found ${codes.dtype} ` +
        `${formatShape(shape)} and ${scales.dtype} ${formatShape(scales.shape)}`,
    );
  }
  const columns = groups * 32;
  const facts = {
    name,
    scheme: 'mxfp4',
    bits: 4,
    storedAs: { weight: codes.name, scale: scales.name },
  };
  if (isExchanged) {
    const layout = { kind: 'exchanged', codes, scales } as const;
    return { ...facts, shape: [matrices, columns, rows], block: [32, 1], layout };
  }
  const of = { matrices, rows, columns };
  return {
    ...facts,
    shape: [matrices, rows, columns],
    block: [1, 32],
    layout: rowLayout({
      codes,
      packing: { kind: 'e2m1', first: 'low' },
      grid: gridOf(of, [1, 32]),
      scale: { tensor: scales, dtype: 'F8_E8M0' },
    }),
  };
}
