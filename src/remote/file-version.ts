/** Compares the version of a file in each answer with that of the first. */

/** The version in the head of an answer. */
export interface FileVersion {
  /** Length of the whole file in bytes. */
  readonly total: number;
  /** Commit that the URL names. */
  readonly commit: string | undefined;
  /** `X-Linked-ETag`: the Hub's own name of the contents, for large files their SHA-256. */
  readonly linkedTag: string | undefined;
  /** `ETag` with its quotes; weak ones begin with `W/`. */
  readonly tag: string | undefined;
  /** `Last-Modified`. */
  readonly modified: string | undefined;
  /** The host that sent `tag` and `modified`. */
  readonly origin: string;
}

/** Whether an ETag promises that the bytes are the same. */
export function isStrongTag(tag: string | undefined): tag is string {
  return tag !== undefined && /^"[^"]*"$/.test(tag);
}

/** The facts of two versions that must agree: name, before and now. */
function factsOf(first: FileVersion, next: FileVersion): [string, unknown, unknown][] {
  const compared: [string, unknown, unknown][] = [['length', first.total, next.total]];
  // Browsers hide it from pages, and other hosts don't send it.
  if (first.linkedTag && next.linkedTag) {
    compared.push(['X-Linked-ETag', first.linkedTag, next.linkedTag]);
  }
  // A commit never changes. The hosts of a content network may give its files separate ETags.
  if (first.commit === undefined || first.origin === next.origin) {
    compared.push(['ETag', first.tag, next.tag]);
    const isPinned = first.commit !== undefined || isStrongTag(first.tag);
    if (!isPinned) compared.push(['Last-Modified', first.modified, next.modified]);
  }
  return compared;
}

/** The fact that tells another version from the first; null for the same version. */
export function versionChange(first: FileVersion, next: FileVersion): string | null {
  const change = factsOf(first, next).find(([, before, after]) => before !== after);
  if (change === undefined) return null;
  const [name, before, after] = change.map((value) => value ?? 'none');
  return `expected the version of the first answer, ${name} ${before}, found ${after}; open it again`;
}
