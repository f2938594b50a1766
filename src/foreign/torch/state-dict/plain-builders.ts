/** Builds the results of allowed calls that make no tensor: dicts, sets, bytes, devices. */

import {
  PickleByteArray,
  PickleBytes,
  PickleFloat,
  PickleGlobal,
  PickleList,
  PickleMap,
  PickleSet,
  type PickleTuple,
  type PickleValue,
} from '../../pickle/values.js';
import { ComplexNumber, TorchDevice, TorchSize } from './values.js';

/** The builders by global; they return undefined for arguments that torch never writes. */
export function plainValue(name: string, args: PickleTuple): PickleValue | undefined {
  switch (name) {
    case 'OrderedDict':
      return orderedDict(args);
    case 'Counter':
      return counter(args);
    case 'set':
      return setOf(args);
    case 'Size':
      return size(args);
    case 'complex':
      return complex(args);
    case 'device':
      return device(args);
    case '_get_layout':
      return layout(args);
    case 'bytearray':
      return byteArray(args);
    case 'encode': {
      const bytes = latin1(args);
      return bytes && new PickleBytes(bytes);
    }
    default:
      return undefined;
  }
}

function orderedDict([pairs, ...others]: PickleTuple): PickleMap | undefined {
  const map = new PickleMap('OrderedDict');
  if (pairs === undefined) return map;
  if (!(pairs instanceof PickleList) || others.length > 0) return undefined;
  for (const pair of pairs.items) {
    const items = pair instanceof PickleList ? pair.items : pair;
    if (!Array.isArray(items) || items.length !== 2 || !map.set(items[0], items[1])) {
      return undefined;
    }
  }
  return map;
}

function counter([counts, ...others]: PickleTuple): PickleMap | undefined {
  const map = new PickleMap('Counter');
  if (counts === undefined) return map;
  if (!(counts instanceof PickleMap) || others.length > 0) return undefined;
  for (const [key, count] of counts) map.set(key, count);
  return map;
}

function setOf([items, ...others]: PickleTuple): PickleSet | undefined {
  const set = new PickleSet();
  if (items === undefined) return set;
  if (!(items instanceof PickleList) || others.length > 0) return undefined;
  return items.items.every((item) => set.add(item)) ? set : undefined;
}

function size([sizes, ...others]: PickleTuple): TorchSize | undefined {
  if (!Array.isArray(sizes) || others.length > 0) return undefined;
  const isSize = sizes.every((one) => typeof one === 'number' || typeof one === 'bigint');
  return isSize ? TorchSize.from(sizes) : undefined;
}

/** A device type with or without a number, in torch's spelling. */
const DEVICE = /^([a-z_]{1,32})(?::(0|[1-9]\d{0,2}))?$/;

/** Largest number of a device: torch reads the next one as -128. */
const LAST_DEVICE = 127;

function device([text, index, ...others]: PickleTuple): TorchDevice | undefined {
  const [, type, own] = typeof text === 'string' ? (DEVICE.exec(text) ?? []) : [];
  if (type === undefined || others.length > 0) return undefined;
  if (index === undefined && own === undefined) return new TorchDevice(type, undefined);
  if (index !== undefined && (typeof index !== 'number' || own !== undefined)) return undefined;
  const number = index ?? Number(own);
  return number >= 0 && number <= LAST_DEVICE ? new TorchDevice(type, number) : undefined;
}

/** The device types of torch 2.13. */
const LAYOUTS: ReadonlySet<PickleValue> = new Set(
  [
    'strided',
    'sparse_coo',
    'sparse_csr',
    'sparse_csc',
    'sparse_bsr',
    'sparse_bsc',
    '_mkldnn',
    'jagged',
  ].map((name) => `torch.${name}`),
);

function layout([name, ...others]: PickleTuple): PickleGlobal | undefined {
  if (typeof name !== 'string' || !LAYOUTS.has(name) || others.length > 0) return undefined;
  return new PickleGlobal('torch', name.slice('torch.'.length));
}

function complex(args: PickleTuple): ComplexNumber | undefined {
  const [real, imag] = args.map((part) => (part instanceof PickleFloat ? part.value : part));
  const isComplex = args.length === 2 && typeof real === 'number' && typeof imag === 'number';
  return isComplex ? new ComplexNumber(real, imag) : undefined;
}

/** Bytes, which protocol 2 stores as a text with a character per byte. Refuses other codecs. */
function latin1([text, codec, ...others]: PickleTuple): Uint8Array<ArrayBuffer> | undefined {
  if (typeof text !== 'string' || others.length > 0) return undefined;
  if (codec !== 'latin1' && codec !== 'latin-1') return undefined;
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 255) return undefined;
    bytes[i] = code;
  }
  return bytes;
}

function byteArray(args: PickleTuple): PickleByteArray | undefined {
  const [first] = args;
  if (args.length === 0) return new PickleByteArray(new Uint8Array(0));
  const isCopy = args.length === 1 && first instanceof PickleBytes;
  const bytes = isCopy ? first.bytes.slice() : latin1(args);
  return bytes && new PickleByteArray(bytes);
}
