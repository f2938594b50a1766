// Where node-gyp finds the headers of the running Node.

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';

/**
 * Environment for node-gyp: the headers that lie next to the running Node when there are any, so that none are fetched.
 */
export function headerEnvironment() {
  const nodeDir = dirname(dirname(process.execPath));
  if (!existsSync(join(nodeDir, 'include', 'node', 'node_api.h'))) return {};
  return { npm_package_config_node_gyp_nodedir: nodeDir };
}
