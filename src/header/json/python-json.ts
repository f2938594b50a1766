/** JSON as Python writes it: configurations contain Infinity and NaN, and editors add a byte order mark. */

/** Strings, or numbers that only Python knows. */
const PYTHON_NUMBERS = /"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g;

/** Returns the text with other numbers for those that only Python knows. A byte order mark stays. */
export function replacePythonNumbers(
  json: Uint8Array,
  replacementOf: (number: string) => string,
): string {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(json);
  return text.replace(PYTHON_NUMBERS, (match) =>
    match.startsWith('"') ? match : replacementOf(match),
  );
}

/**
 * Parses JSON without its byte order mark. Numbers that only Python knows become strings, which no field takes for a
 * number.
 *
 * @throws SyntaxError
 */
export function parsePythonJson(json: Uint8Array): unknown {
  const text = replacePythonNumbers(json, (number) => JSON.stringify(number));
  return JSON.parse(text.replace(/^\ufeff/, ''));
}
