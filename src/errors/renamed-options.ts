/** Options that had another name on earlier pages. */

/** New names by old ones. A dot leads into an option that is an object. */
const RENAMED_OPTIONS: ReadonlyMap<string, string> = new Map(
  [
    'maxEntries',
    'maxDirectoryByteLength',
    'maxInflatedByteLength',
    'maxTensorByteLength',
    'maxPickleByteLength',
    'maxOpcodes',
    'maxDepth',
    'maxPickleMemoryByteLength',
    'maxIndexByteLength',
  ].map((name) => [name, `limits.${name}`]),
);

/** Returns the new name of an option, if these options have it; else undefined. */
export function renamedOption(
  name: string,
  names: Readonly<Record<string, true>>,
): string | undefined {
  const renamed = RENAMED_OPTIONS.get(name);
  const [option = ''] = renamed?.split('.') ?? [];
  return Object.hasOwn(names, option) ? renamed : undefined;
}
