/**
 * Errors for a missing file. The place that throws one knows; callers that then try another file ask
 * here, and not by codes, which are for users.
 */

/** Where a file is missing: at its source, or offline in the Hub cache, which may lack files that the Hub has. */
type Absence = 'source' | 'cache';

const ABSENCES = new WeakMap<object, Absence>();

/** Records that an error reports a missing file, and returns it. */
export function reportsAbsence<E extends Error>(error: E, where: Absence): E {
  ABSENCES.set(error, where);
  return error;
}

/** Returns where the file is missing that an error reports; undefined for other errors. */
export function absenceIn(error: unknown): Absence | undefined {
  return ABSENCES.get(Object(error));
}
