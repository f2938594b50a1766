/** `convert` of sources without a path: bytes, descriptors, Blobs and readers. */

import { argumentRangeError } from '../errors/arguments.js';
import { isUint8Array } from '../errors/brand-checks.js';
import type { DryRun } from '../write/checkpoint/plan.js';
import {
  type ConversionOptions,
  type ConversionPlan,
  type ConvertedCheckpoint,
  convertOpened,
} from '../write/convert/convert.js';
import { openedSource } from '../write/convert/opened-source.js';
import { open, requireDescriptor } from './open.js';
import { isRequested } from './sources/requested.js';
import type { Source } from './sources/sources.js';

/** As the public `convert`. */
export async function convert(
  source: Source,
  target: string | URL,
  options: ConversionOptions & DryRun = {},
): Promise<ConvertedCheckpoint | ConversionPlan> {
  if (!isRequested(source) && !isUint8Array(source)) requireDescriptor(source);
  const { root, unknownGlobals, voidDtype, limits, variant, copyOtherFiles } = options;
  if (copyOtherFiles === true) {
    const expected = 'left out or false for a source without a folder, whose files are not listed';
    throw argumentRangeError('copyOtherFiles', expected, copyOtherFiles);
  }
  return await convertOpened(
    async (opening) => {
      const { signal, verify } = opening;
      const opened = await open(source, {
        ...{ root, unknownGlobals, voidDtype, limits, variant, signal },
        // Requested tensors are compared unless this is false; other ones while they are written.
        ...(isRequested(source) && !verify ? { verify } : {}),
      });
      return await openedSource(opened, opening);
    },
    target,
    options,
  );
}
