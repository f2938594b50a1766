/** Texts of URLs for messages: queries sign requests, and what stands before the host is a password. */

/**
 * Removes query and fragment from a word of a text if it contains a URL. A single expression would take quadratic
 * time for a name of many `http://`.
 */
export function withoutQuery(word: string): string {
  const begin = word.indexOf('://');
  if (begin === -1) return word;
  const length = word.slice(begin).search(/[?#]/);
  return length === -1 ? word : word.slice(0, begin + length);
}

/** Removes names and passwords from all URLs of a text. */
export function withoutUsers(text: string): string {
  return text.replace(/(:\/\/)[^\s/?#]*@/g, '$1');
}
