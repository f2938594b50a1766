/** The error for a pickle that names forbidden globals. */

import { FormatError, quoteName } from '../../errors/errors.js';
import type { PickleHost } from './host.js';
import type { NamedGlobal } from './known-values.js';
import { formatPlace, type PickleContext } from './limits.js';

/** Most globals that a message lists. */
const MAX_SHOWN_GLOBALS = 20;

/** Lists every forbidden global of the pickle: people want to see all of them at once. */
export function forbiddenGlobals(
  globals: readonly NamedGlobal[],
  host: PickleHost,
  context: PickleContext,
): FormatError {
  const found = globals.filter(({ module, name }) => host.global(module, name) === undefined);
  const shown = found
    .slice(0, MAX_SHOWN_GLOBALS)
    .map(
      ({ module, name, position }) =>
        `${quoteName(`${module}.${name}`)} (${formatPlace(position, context)})`,
    );
  if (found.length > shown.length) shown.push(`${found.length - shown.length} more`);
  const remedy = host.advice?.(found);
  return new FormatError(
    'SAFETENSORS_FORBIDDEN_GLOBAL',
    `the pickle names classes or functions that are not on torch's list of harmless ones: ${shown.join(', ')}; nothing was run` +
      (remedy === undefined ? '' : `; ${remedy.text}`),
    { ...context, advice: remedy?.advice },
  );
}
