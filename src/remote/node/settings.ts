/** Settings for remote files in Node. */

import { hubSettings } from '../../file/cache/environment.js';
import type { RemoteSettings } from '../receiver.js';
import { openCached } from './cached-repository.js';
import { SocketReceiver } from './receiver.js';

/** Those of the environment, the Hub cache, and sockets that read long ranges into their place. */
export function remoteSettings(): RemoteSettings {
  return { ...hubSettings(), makeReceiver: () => new SocketReceiver(), openCached };
}
