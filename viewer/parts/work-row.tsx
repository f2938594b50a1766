/** How far work on a whole model is, what its numbers are of, and the ways to begin and stop it. */

import type { Work } from './background.js';
import { formatBytes } from './format.js';
import { Working } from './messages.js';

/** The row above the numbers. `label` says what goes on, `verb` is what buttons say. */
export function WorkRow({
  work: { result, isRunning, isWhole, isComplete, progress },
  label,
  verb,
  exact = 'Of all values.',
  bytes,
  begin,
  stop,
}: {
  work: Work<'layers'> | Work<'differ'>;
  label: string;
  verb: { readonly sample: string; readonly all: string };
  /** Shown when all values have been read. */
  exact?: string;
  bytes: { readonly sample: number; readonly all: number };
  begin: (whole: boolean) => void;
  stop: () => void;
}) {
  if (isRunning) {
    return (
      <div class="row">
        <Working label={label} progress={progress} stop={stop} />
      </div>
    );
  }
  const isExact = isComplete && (isWhole || bytes.sample === bytes.all);
  const extent = !isComplete
    ? 'Not finished: of some tensors only.'
    : isExact
      ? exact
      : `Sample: ${formatBytes(bytes.sample)} of ${formatBytes(bytes.all)}.`;
  return (
    <div class="row">
      {result !== null && <span class={isExact ? 'muted' : 'sampled'}>{extent}</span>}
      {!isComplete && (
        <button type="button" class="main" onClick={() => begin(false)}>
          {verb.sample} {formatBytes(bytes.sample)}
        </button>
      )}
      {!isExact && (
        <button type="button" onClick={() => begin(true)}>
          {verb.all} {formatBytes(bytes.all)}
        </button>
      )}
    </div>
  );
}
