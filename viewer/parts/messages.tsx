/** Failures, and how far long work is. */

import { formatBytes } from './format.js';
import { wrapped } from './name.js';

/** Prefix of served files' URLs, omitted from messages. */
const SERVED = new RegExp(`${location.origin}/source/\\d+/`, 'g');

/** An error of the library, and what to do about it. */
export function Failure({
  error,
}: {
  error: { message: string; code?: string | null; advice?: string | null };
}) {
  const { message, code, advice } = error;
  return (
    <div class="message failure" role="alert">
      <p>{wrapped(message.replaceAll(SERVED, ''))}</p>
      {advice && <p>{advice}</p>}
      {code && <p class="code">{code}</p>}
    </div>
  );
}

/** A bar for work of a known length, with a way to stop it. */
export function Working({
  label,
  progress,
  stop,
}: {
  label: string;
  progress: { done: number; total: number } | null;
  stop: () => void;
}) {
  return (
    <div class="row" role="status">
      <span>{label}</span>
      {progress !== null && (
        <>
          <progress aria-label={label} value={progress.done} max={progress.total} />
          <span class="muted">
            {formatBytes(progress.done)} of {formatBytes(progress.total)}
          </span>
        </>
      )}
      <button type="button" onClick={stop}>
        Stop
      </button>
    </div>
  );
}
