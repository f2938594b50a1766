/** All targets. */
import type { Target } from './target.js';
import { header } from './targets/header.js';
import { npy } from './targets/npy.js';
import { scan } from './targets/scan.js';
import { torch } from './targets/torch.js';
import { zip } from './targets/zip.js';

export const TARGETS: readonly Target[] = [header, torch, scan, zip, npy];
