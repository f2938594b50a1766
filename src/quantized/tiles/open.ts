/** Opens a logical tensor for reading, by its layout. */

import type { Work } from '../../work/work.js';
import type { LogicalPlan } from '../plan/logical-plan.js';
import { openBlocks } from './blocks.js';
import { openFlat } from './bnb-4bit.js';
import { openColumns } from './gptq-awq.js';
import { openExchanged } from './mxfp4-transposed.js';
import type { Decoder, TensorReader } from './reading.js';
import { openRows } from './rows.js';

/** Reads the tensors next to the codes, such as scales; the codes are read by the decoder. */
export function* openDecoder(tensor: LogicalPlan, reader: TensorReader): Work<Decoder> {
  const { layout } = tensor;
  switch (layout.kind) {
    case 'rows':
      return yield* openRows(tensor, layout, reader);
    case 'flat':
      return yield* openFlat(tensor, layout, reader);
    case 'columns':
      return yield* openColumns(tensor, layout, reader);
    case 'blocks':
      return openBlocks(tensor, layout, reader);
    case 'exchanged':
      return yield* openExchanged(tensor, layout, reader);
  }
}
