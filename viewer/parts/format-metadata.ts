/** Metadata as people read them: groups of keys, and values of trainers' programs made readable. */

/** A group of keys and values, without the prefix of the group. */
interface MetadataGroup {
  readonly title: string;
  readonly entries: readonly (readonly [key: string, value: string])[];
}

const GROUPS = [
  { title: 'ModelSpec', prefix: 'modelspec.' },
  { title: 'Training', prefix: 'ss_' },
] as const;

/** Longest text that is parsed as JSON to be shown. */
const MAX_JSON_LENGTH = 2_000_000;

const MAX_TAGS = 50;

/** Groups keys by their prefixes; the others come last. The thumbnail is an image, no text. */
export function metadataGroups(metadata: readonly (readonly [string, string])[]): MetadataGroup[] {
  const shown = metadata.filter(([key]) => key !== 'modelspec.thumbnail');
  const named = GROUPS.map(({ title, prefix }) => ({
    title,
    entries: shown
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, value]) => [key.slice(prefix.length), readable(key, value)] as const),
  }));
  const others = shown
    .filter(([key]) => !GROUPS.some(({ prefix }) => key.startsWith(prefix)))
    .map(([key, value]) => [key, readable(key, value)] as const);
  return [...named, { title: 'Metadata', entries: others }].filter(
    ({ entries }) => entries.length > 0,
  );
}

function parsed(value: string): unknown {
  if (!/^\s*[[{]/.test(value) || value.length > MAX_JSON_LENGTH) return undefined;
  try {
    return JSON.parse(value);
  } catch {
    // It only begins like JSON.
    return undefined;
  }
}

/** A value for people: dates of seconds since 1970, tags by their number, JSON with its structure. */
export function readable(key: string, value: string): string {
  if (/_at$/.test(key) && /^\d{9,11}(?:\.\d+)?$/.test(value)) {
    return `${new Date(Number(value) * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  }
  const found = parsed(value);
  if (found === undefined) return value;
  return (key === 'ss_tag_frequency' ? tagText(found) : null) ?? JSON.stringify(found, null, 1);
}

/** The most frequent tags of all data; null when the value has another form. */
function tagText(found: unknown): string | null {
  const sums = new Map<string, number>();
  for (const tags of Object.values(found as object)) {
    for (const [tag, count] of Object.entries(Object(tags))) {
      if (typeof count !== 'number') return null;
      sums.set(tag, (sums.get(tag) ?? 0) + count);
    }
  }
  const sorted = [...sums].sort(([, a], [, b]) => b - a);
  const more = sorted.length - MAX_TAGS;
  const texts = sorted.slice(0, MAX_TAGS).map(([tag, count]) => `${tag} ${count}`);
  return more > 0 ? `${texts.join(', ')}, and ${more} more` : texts.join(', ');
}
