/** Settings for remote files in Node. */

import { hubSettings } from '../../file/cache/environment.js';
import type { RemoteSettings } from '../receiver.js';
import { SocketReceiver } from './receiver.js';

/** Those of the environment, and sockets that read long ranges into their place. */
export function remoteSettings(): RemoteSettings {
  return { ...hubSettings(), makeReceiver: () => new SocketReceiver() };
}
