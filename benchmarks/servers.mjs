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
  // As root, its workers must see the temporary folder, too.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  const values = { files, folder, user, hub, network, farHub, farNetwork, proxiedNetwork };
  const template = await readFile(join(import.meta.dirname, 'nginx.conf'), 'utf8');
  const path = join(folder, 'nginx.conf');
  await writeFile(
    path,
    template.replaceAll(/\{(\w+)\}/g, (_, name) => values[name]),
  );
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
  const log = join(folder, 'requests.log');
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
    failure = error.message;
  });
  for (let poll = 0; poll < POLLS_PER_SECOND * START_SECONDS; poll++) {
    if (nginx.exitCode !== null) failure = `ended by ${nginx.exitCode}`;
    if (failure !== undefined) throw new NotMeasuredError(`nginx: ${failure}`);
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
