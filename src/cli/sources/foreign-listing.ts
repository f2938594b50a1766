/** Lists files of torch and NumPy. */

import { basename } from 'node:path';
import { type Checkpoint, DTYPES, type ForeignFormatError } from '../../index.js';
import {
  countByDtype,
  elementsOf,
  type LeftOutTensor,
  type ListedTensor,
  type Listing,
} from './listing.js';

/** Lists an open file of another format, or the shards of one. */
export function listForeign(file: Checkpoint, format: 'torch' | 'numpy'): Listing {
  const { path } = file;
  const name = basename(path);
  const tensors = file.offsetKeys().map((tensor): ListedTensor => {
    const { dtype, shape } = file.info(tensor);
    const byteLength = Math.ceil((elementsOf(shape) * DTYPES[dtype].bits) / 8);
    return { name: tensor, dtype, shape, byteLength, offset: null, file: name };
  });
  const dtypes = countByDtype(tensors);
  const parameters = [...dtypes.values()].reduce((sum, counts) => sum + counts.parameters, 0);
  return {
    ...{ format, path, tensors, dtypes, parameters },
    files: [{ name, byteLength: file.byteLength(), tensors: tensors.length, parameters }],
    ...{ totalParameters: null, quantization: null, metadata: null, passedOver: [] },
    leftOut: file.problems.map(leftOutTensor),
  };
}

/** The reason is the message without the file and the tensor, which stand before it. */
function leftOutTensor({ message, tensor = '' }: ForeignFormatError): LeftOutTensor {
  const begin = message.indexOf(': expected ');
  return { name: tensor, reason: begin === -1 ? message : message.slice(begin + 2) };
}
