/** `computeNumOfParamsByDtypeSingleFile`: parameters of a header that `parseSafetensorsMetadata` returned. */

import { argumentTypeError, requireString } from '../../errors/arguments.js';
import { quoteName } from '../../errors/errors.js';
import { type CountedHeader, parametersByDtype } from '../../file/hub/parameter-count.js';
import { quantizationOfSection } from '../../file/hub/quantization.js';
import type { Dtype } from '../../header/dtype.js';
import { runSync } from '../../work/work.js';
import { recordOf, type SafetensorsFileHeader, type SafetensorsTensorInfo } from './result.js';

/**
 * Counts the parameters of one header by dtype, as `parseSafetensorsMetadata` does with `computeParametersCount`.
 *
 * @param header a header as in its result
 * @param quantConfig `quantization_config` of `config.json`, by which packed values are counted
 * @param expertDtype `expert_dtype` of `config.json`
 * @returns an object without prototype; dtypes whose tensors all count 0 are left out
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for arguments of another type, and for a header whose entries are no tensors
 *
 * @example
 * ```ts
 * const { sharded, ...rest } = await parseSafetensorsMetadata({ source: 'model.safetensors' });
 * if ('header' in rest) console.log({ ...computeNumOfParamsByDtypeSingleFile(rest.header) }); // → { F32: 4, BF16: 32 }
 * ```
 */
export function computeNumOfParamsByDtypeSingleFile(
  header: SafetensorsFileHeader,
  quantConfig?: object | undefined,
  expertDtype?: string | undefined,
): Partial<Record<Dtype, number>> {
  requireObject('header', header);
  if (quantConfig !== undefined) requireObject('quantConfig', quantConfig);
  if (expertDtype !== undefined) requireString('expertDtype', expertDtype);
  const shards = [{ name: '', header: new RecordedHeader(header) }];
  const quantization =
    quantConfig === undefined ? null : quantizationOfSection(quantConfig, expertDtype);
  return recordOf(runSync(parametersByDtype(shards, null, quantization)));
}

function requireObject(name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return;
  throw argumentTypeError(name, 'an object', value);
}

function requireTensor(name: string, value: unknown): SafetensorsTensorInfo {
  const { dtype, shape } = Object(value) as Partial<SafetensorsTensorInfo>;
  const isShape = Array.isArray(shape) && shape.every((size) => typeof size === 'number');
  if (typeof dtype === 'string' && isShape) return value as SafetensorsTensorInfo;
  throw argumentTypeError(`header[${quoteName(name)}]`, 'an object with dtype and shape', value);
}

/** The tensors of a header that is an object. */
class RecordedHeader implements CountedHeader {
  readonly size: number;
  readonly json: { readonly length: number };
  readonly #names: readonly string[];
  readonly #entries: readonly SafetensorsTensorInfo[];
  readonly #byName: ReadonlyMap<string, number>;

  constructor(header: SafetensorsFileHeader) {
    const tensors = Object.entries(header).filter(([name]) => name !== '__metadata__');
    this.#names = tensors.map(([name]) => name);
    this.#entries = tensors.map(([name, tensor]) => requireTensor(name, tensor));
    this.#byName = new Map(this.#names.map((name, entry) => [name, entry]));
    this.size = tensors.length;
    this.json = { length: this.#names.reduce((sum, { length }) => sum + length, 0) };
  }

  find(name: string): number {
    return this.#byName.get(name) ?? -1;
  }

  name(entry: number): string {
    return this.#names[entry] as string;
  }

  dtype(entry: number): Dtype {
    return (this.#entries[entry] as SafetensorsTensorInfo).dtype;
  }

  shape(entry: number): readonly number[] {
    return (this.#entries[entry] as SafetensorsTensorInfo).shape;
  }
}
