/** Checks names of entries: whether they are safe, and which of them readers confuse. */

/** Longest name in bytes: no system has longer paths. */
const MAX_ENTRY_NAME_BYTE_LENGTH = 4096;

// C0, DEL and C1.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are looked for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/;

// A mark at the start belongs to the name.
const nameDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes a name as UTF-8, whatever the header specifies. Info-ZIP does not mark names of Linux, and
 * torch looks for the bytes.
 *
 * @returns the name, or its fault
 */
export function decodeName(
  bytes: Uint8Array,
): { readonly name: string } | { readonly problem: string } {
  if (bytes.length > MAX_ENTRY_NAME_BYTE_LENGTH) {
    return {
      problem: `expected at most ${MAX_ENTRY_NAME_BYTE_LENGTH} bytes, found ${bytes.length}`,
    };
  }
  let name: string;
  try {
    name = nameDecoder.decode(bytes);
  } catch {
    return { problem: 'it is not UTF-8' };
  }
  const problem = entryNameProblem(name);
  return problem === undefined ? { name } : { problem };
}

/** Returns the fault of a name as a relative path; undefined without a fault. */
function entryNameProblem(name: string): string | undefined {
  if (name === '') return 'it is empty';
  if (CONTROL_CHARACTER.test(name)) return 'it has a control character';
  if (name.includes('\\')) return 'it has a backslash';
  if (name[1] === ':' && /^[A-Za-z]/.test(name)) return 'it has a drive';
  if (name.startsWith('/')) return 'it is absolute';
  const parts = isFolderName(name) ? `/${name}` : `/${name}/`;
  if (parts.includes('//')) return 'one of its parts is empty';
  if (parts.includes('/./') || parts.includes('/../')) return 'it has a . or .. part';
  return undefined;
}

/** Whether an entry of this name is a folder. */
export function isFolderName(name: string): boolean {
  return name.endsWith('/');
}

/** Returns equal texts for names that some readers, torch among them, treat as equal. */
export function foldCase(name: string): string {
  return name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}
