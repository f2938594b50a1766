/** Reads the Hub's settings from environment variables and the token file, as its Python library does. */

import { channel } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { DEFAULT_ENDPOINT, type HubSettings } from '../hub/settings.js';
import { expand, hubHomeFolder } from './cache.js';
import { type Environment, isOn, offlineVariable } from './variables.js';

/** The name of the channel that announces remote requests. */
const REQUEST_CHANNEL = 'safetensors-mmap:request';

/** Removes line ends and spaces that copying leaves in a token. */
function cleanToken(text: string | undefined): string | undefined {
  return text?.replace(/[\r\n]/g, '').trim() || undefined;
}

/**
 * Settings by `HF_ENDPOINT`, `HF_HUB_OFFLINE` and `TRANSFORMERS_OFFLINE`. The token is that of `HF_TOKEN`,
 * of the older `HUGGING_FACE_HUB_TOKEN`, or of the file `HF_TOKEN_PATH`, by default `token` in `HF_HOME`;
 * no token with `HF_HUB_DISABLE_IMPLICIT_TOKEN`. Proxies are those of `HTTPS_PROXY` and its like.
 */
export function hubSettings(environment: Environment = process.env): HubSettings {
  const { HF_ENDPOINT } = environment;
  return {
    endpoint: HF_ENDPOINT?.trim() || DEFAULT_ENDPOINT,
    isOffline: offlineVariable(environment) !== undefined,
    readToken: () => readToken(environment),
    proxyFor: (url) => proxyFor(url, environment),
    requestChannel: channel(REQUEST_CHANNEL),
  };
}

/** Returns the name of the proxy variable that is set, unless `NO_PROXY` names the host. */
function proxyFor({ protocol, hostname }: URL, environment: Environment): string | undefined {
  const textOf = (name: string): string | undefined => environment[name]?.trim() || undefined;
  const named = `${protocol.slice(0, -1)}_proxy`;
  const names = [named, named.toUpperCase(), 'all_proxy', 'ALL_PROXY'];
  const without = (textOf('no_proxy') ?? textOf('NO_PROXY') ?? '').toLowerCase().split(/[\s,]+/);
  const isWithout = without.some((entry) => {
    const host = entry.replace(/:\d+$/, '').replace(/^\*?\./, '');
    return host === '*' || (host !== '' && `.${hostname}`.endsWith(`.${host}`));
  });
  return isWithout ? undefined : names.find((name) => textOf(name) !== undefined);
}

function readToken(environment: Environment): string | undefined {
  const { HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH } = environment;
  if (isOn(environment['HF_HUB_DISABLE_IMPLICIT_TOKEN'])) return undefined;
  const token = cleanToken(HF_TOKEN) ?? cleanToken(HUGGING_FACE_HUB_TOKEN);
  if (token !== undefined) return token;
  const path = HF_TOKEN_PATH
    ? expand(HF_TOKEN_PATH, environment)
    : join(hubHomeFolder(environment), 'token');
  try {
    return cleanToken(readFileSync(path, 'utf8'));
  } catch {
    // A missing or unreadable file means no token: the server asks for one when it needs it.
    return undefined;
  }
}
