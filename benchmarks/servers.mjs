/**
 * nginx as a Hub with its content network, over files of this machine, and once more behind a proxy that adds
 * latency. All on 127.0.0.1.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, truncate, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NotMeasuredError, startChild } from './processes.mjs';

/** So many times a second it is asked whether it takes connections, for so long. */
const POLLS_PER_SECOND = 20;
const START_SECONDS = 10;

/** Any: nothing here asks for another one. */
const COMMIT = '1'.repeat(40);

/**
 * Starts all. Repositories are the folders `org/name` below `files`. Gives the places `near` and `far`: repositories
 * as `HUB/org/name`, files as they are at `NETWORK/path`; and `takeRequests`, which counts those to the hubs and
 * those to the networks since its last call. A NotMeasuredError says that there is no nginx.
 */
export async function startServers(files, folder, latency, signal) {
  const [hub, network, farHub, farNetwork] = await freePorts(4);
  const script = join(import.meta.dirname, 'children/delay.mjs');
  const args = [script, ...[latency, farHub, farNetwork].map(String)];
  const proxy = await startChild({ file: process.execPath, args }, signal);
  const [proxiedHub, proxiedNetwork] = proxy.line();
  const log = join(folder, 'requests.log');
  const config = [
    ...configHead(folder, log),
    hubServer(hub, network, files),
    networkServer(network, files),
    hubServer(farHub, proxiedNetwork, files),
    networkServer(farNetwork, files),
    '}',
  ];
  const path = join(folder, 'nginx.conf');
  await writeFile(path, config.join('\n'));
  const options = ['-c', path, '-p', folder, '-e', join(folder, 'nginx.error')];
  const nginx = spawn('nginx', options, { stdio: 'ignore', signal });
  const end = async () => {
    await proxy.end();
    if (nginx.exitCode !== null || nginx.pid === undefined) return;
    const ended = once(nginx, 'exit');
    nginx.kill();
    await ended;
  };
  try {
    await connectable(hub, nginx);
  } catch (error) {
    await end();
    throw error;
  }
  const takeRequests = async () => {
    const ports = (await readFile(log, 'utf8')).split('\n').map(Number);
    await truncate(log);
    const count = (...asked) => ports.filter((port) => asked.includes(port)).length;
    return { hub: count(hub, farHub), network: count(network, farNetwork) };
  };
  const at = (port) => `http://127.0.0.1:${port}`;
  const far = { hub: at(proxiedHub), network: at(proxiedNetwork) };
  return { near: { hub: at(hub), network: at(network) }, far, takeRequests, end };
}

/** Everything that nginx writes lies in the folder. */
function configHead(folder, log) {
  const inFolder = (name) => JSON.stringify(join(folder, name));
  return [
    `daemon off; pid ${inFolder('nginx.pid')};`,
    // Its workers must see the temporary folder.
    process.getuid?.() === 0 ? 'user root;' : '',
    'events { worker_connections 1024; }',
    'http {',
    `log_format port '$server_port'; access_log ${JSON.stringify(log)} port;`,
    ...['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${inFolder(name)};`,
    ),
    'sendfile on; tcp_nopush on; keepalive_requests 100000;',
  ];
}

/** Weights are redirected to the network, other files are sent; HEAD is answered for both. */
function hubServer(port, network, files) {
  const headers = `add_header X-Repo-Commit ${COMMIT} always; etag on;`;
  return `server {
    listen 127.0.0.1:${port}; root ${JSON.stringify(files)}; ${headers}
    location ~ ^/([^/]+/[^/]+)/(?:resolve|raw)/[^/]+/(.*\\.safetensors)$ {
      if (!-f $document_root/$1/$2) { return 404; }
      return 302 http://127.0.0.1:${network}/$1/$2;
    }
    location ~ ^/([^/]+/[^/]+)/(?:resolve|raw)/[^/]+/(.*)$ { try_files /$1/$2 =404; }
    location / { return 404; }
    error_page 404 @missing;
    location @missing { ${headers} add_header X-Error-Code EntryNotFound always; return 404; }
  }`;
}

const networkServer = (port, files) =>
  `server { listen 127.0.0.1:${port}; root ${JSON.stringify(files)}; }`;

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

/** Waits until nginx takes connections. */
async function connectable(port, nginx) {
  let failure;
  nginx.on('error', (error) => {
    failure = error;
  });
  for (let poll = 0; poll < POLLS_PER_SECOND * START_SECONDS; poll++) {
    if (failure !== undefined) throw new NotMeasuredError(`nginx: ${failure.message}`);
    if (nginx.exitCode !== null) throw new NotMeasuredError(`nginx ended by ${nginx.exitCode}`);
    const socket = connect(port, '127.0.0.1');
    try {
      await once(socket, 'connect');
      return;
    } catch {
      await sleep(1000 / POLLS_PER_SECOND);
    } finally {
      socket.destroy();
    }
  }
  throw new NotMeasuredError('nginx takes no connections');
}
