/** What to do about errors whose messages name a cause that the browser hides, or that only people can change. */

const CORS =
  'Browsers tell pages nothing about a request that failed. Either the server was not reached, or it does not allow ' +
  'this page to read: it must answer with "Access-Control-Allow-Origin: *", and to ranges also with ' +
  '"Access-Control-Expose-Headers: Content-Range, ETag, Content-Length" and "Access-Control-Allow-Headers: Range". ' +
  'Or download the file, and drop it here.';

const TOKEN =
  'The repository is private, gated, or not there. Accept its terms on the Hub if it has some, and open it with a ' +
  'token that may read it. The token stays in the memory of this page.';

/** A sentence for people; null when the message says all. */
export function adviceFor(error: unknown): string | null {
  const { code, status, message } = Object(error) as {
    code?: unknown;
    status?: unknown;
    message?: unknown;
  };
  if (status === 401 || status === 403 || code === 'SAFETENSORS_UNAUTHORIZED') return TOKEN;
  if (code === 'SAFETENSORS_NETWORK' || /failed to fetch|networkerror/i.test(String(message)))
    return CORS;
  return null;
}
