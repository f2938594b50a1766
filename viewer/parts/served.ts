/** The sources of a server that this page came from: `safetensors-mmap serve`. */

/** A source, with the address to open it by. */
export interface ServedSource {
  readonly name: string;
  readonly byteLength: number;
  readonly url: string;
}

const INDEX = /\.safetensors\.index(?:\.[\w-]+)?\.json$/;

/** The token in the page's address; null on a page without a server of its own. */
export const serverToken: string | null = /^https?:$/.test(location.protocol)
  ? new URLSearchParams(location.search).get('token')
  : null;

/** Headers for requests to the server. */
export const serverHeaders: Readonly<Record<string, string>> =
  serverToken === null ? {} : { 'x-safetensors-token': serverToken };

interface Answer {
  readonly version: number;
  readonly sources: readonly {
    readonly name: string;
    readonly files: readonly {
      readonly name: string;
      readonly size: number;
      readonly path: string;
    }[];
  }[];
}

let known: Promise<ServedSource[]> | undefined;

/** The sources of the server, which do not change: asks it once, and again only after a failure. */
export function servedSources(): Promise<ServedSource[]> {
  known ??= fetchSources().catch((error) => {
    known = undefined;
    throw error;
  });
  return known;
}

async function fetchSources(): Promise<ServedSource[]> {
  const response = await fetch('sources.json', { headers: serverHeaders });
  if (!response.ok)
    throw new Error(`The server answered ${response.status} for its list of sources.`);
  const { version, sources } = (await response.json()) as Answer;
  if (version !== 1)
    throw new Error(`The server's list has version ${version}; this page knows 1.`);
  return sources.flatMap(({ name, files }) => {
    const main = files.find((file) => INDEX.test(file.name)) ?? files[0];
    if (main === undefined) return [];
    const byteLength = files.reduce((sum, { size }) => sum + size, 0);
    return [{ name, byteLength, url: new URL(main.path, location.href).href }];
  });
}
