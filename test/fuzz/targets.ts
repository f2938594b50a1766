/** All targets. */
import type { Target } from './target.js';
import { commandLine } from './targets/arguments.js';
import { casts } from './targets/casts.js';
import { distributed } from './targets/distributed.js';
import { gguf } from './targets/gguf.js';
import { header } from './targets/header.js';
import { index } from './targets/index.js';
import { lies } from './targets/lies.js';
import { npy } from './targets/npy.js';
import { quantized } from './targets/quantized.js';
import { scan } from './targets/scan.js';
import { slices } from './targets/slices.js';
import { torch } from './targets/torch.js';
import { values } from './targets/values.js';
import { zip } from './targets/zip.js';

export const TARGETS: readonly Target[] = [
  header,
  index,
  torch,
  scan,
  zip,
  npy,
  gguf,
  distributed,
  slices,
  casts,
  lies,
  values,
  quantized,
  commandLine,
];
