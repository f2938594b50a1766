/** What to do about errors whose messages name a cause that the browser hides, or that only people can change. */

const HUB = 'https://huggingface.co';

const CORS =
  'Browsers tell pages nothing about a request that failed. Either the server was not reached, or it does not allow ' +
  'this page to read: it must answer with "Access-Control-Allow-Origin: *", and to ranges also with ' +
  '"Access-Control-Expose-Headers: Content-Range, ETag, Content-Length" and "Access-Control-Allow-Headers: Range". ' +
  'Or download the file, and drop it here.';

const TOKEN =
  'The repository is private, gated, or not there. Accept its terms on the Hub if it has some, and open it with a ' +
  'token that may read it. The token stays in the memory of this page.';

const LOGIN =
  'The server wants to know who asks, and this page tells that to the Hub alone. Download the file, and drop it here.';

/** Codes of errors that a token may mend. */
const OF_TOKENS = /_(?:UNAUTHORIZED|FORBIDDEN|GATED_REPOSITORY|REPOSITORY_NOT_FOUND)$/;

/** An error as the library throws it. */
interface Facts {
  readonly code?: unknown;
  readonly status?: unknown;
  readonly message?: unknown;
  readonly url?: unknown;
}

/** Whether a token of the Hub may help. No other server gets one. */
export function needsToken(error: unknown): boolean {
  const { code, url } = Object(error) as Facts;
  return OF_TOKENS.test(String(code)) && isOfHub(url);
}

function isOfHub(url: unknown): boolean {
  return typeof url === 'string' && URL.canParse(url) && new URL(url).origin === HUB;
}

/** A sentence for people; null when the message says all. */
export function adviceFor(error: unknown): string | null {
  const { code, status, message, url } = Object(error) as Facts;
  if (status === 401 || status === 403 || code === 'SAFETENSORS_UNAUTHORIZED') {
    return isOfHub(url) ? TOKEN : LOGIN;
  }
  if (code === 'SAFETENSORS_NETWORK' || /failed to fetch|networkerror/i.test(String(message)))
    return CORS;
  return null;
}
