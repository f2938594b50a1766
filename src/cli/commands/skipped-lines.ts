/** The lines about files and folders that a command skipped in a folder. */

import { formatInteger } from '../../inspect/format.js';
import type { Style } from '../output/style.js';
import { visible } from '../output/visible.js';
import type { SkippedPath } from '../sources/walk-folder.js';

/** Maximum number of shown lines; `--json` lists all. */
const SHOWN_LINES = 20;

/** Maximum length of a shown path, and of a reason. */
const SHOWN_LENGTH = 300;

export function skippedLines(skipped: readonly SkippedPath[], style: Style): string[] {
  const lines = skipped.slice(0, SHOWN_LINES).map(({ path, reason }) => {
    const shown = visible(reason, SHOWN_LENGTH);
    return style.warning(`skipped ${visible(path, SHOWN_LENGTH)}: ${shown}`);
  });
  const more = skipped.length - lines.length;
  return more === 0 ? lines : [...lines, `and ${formatInteger(more)} more, which --json lists`];
}
