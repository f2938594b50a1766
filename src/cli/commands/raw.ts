/** The option of commands that dequantize weights by themselves. */

import type { CommandOptions } from './command.js';

export const RAW: CommandOptions = {
  raw: {
    type: 'boolean',
    help: 'quantized weights as they are stored: codes, scales, zero points',
  },
};
