/** Servers of Next.js with a route that opens a file, built by the recipe of docs/bundlers.md. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join, relative } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import {
  type App,
  expectMapped,
  expectRead,
  MODEL,
  type Output,
  TENSOR,
} from '../support/deployed-app.js';
import { textOf } from '../support/source-tree.js';
import { TOOLS } from './setup.js';
import { makeApp, programOf, pruneAll, pruneOthers } from './tools.js';

const ROUTE = `
import { safeOpen } from 'safetensors-mmap';

export const dynamic = 'force-dynamic';

export function GET() {
  safeOpen(process.env.MODEL).close();
  const file = safeOpen(process.env.MODEL);
  const { dtype, shape, bytes } = file.getTensor(process.env.TENSOR);
  const seen = { storage: file.storage, dtype, shape, hex: Buffer.from(bytes).toString('hex') };
  file.close();
  return Response.json(seen);
}
`;

const LAYOUT = `
export default function Layout({ children }) {
  return <html lang="en"><body>{children}</body></html>;
}
`;

/** The page's line of the configuration. */
const EXTERNAL = "serverExternalPackages: ['safetensors-mmap']";

type Bundler = '--turbopack' | '--webpack';

/** Builds a server; `settings` are of next.config.mjs. */
function build(flag: Bundler, settings: readonly string[] = [], app = makeApp()): App {
  const workspace = JSON.stringify(TOOLS);
  const roots = [`outputFileTracingRoot: ${workspace}`, `turbopack: { root: ${workspace} }`];
  app.write('next.config.mjs', `export default { ${[...roots, ...settings].join(', ')} };`);
  app.write('app/tensor/route.js', ROUTE);
  app.write('app/layout.js', LAYOUT);
  app.build(`NEXT_TELEMETRY_DISABLED=1 npx next build ${flag}`);
  return app;
}

/** Builds with `output: 'standalone'`, and asks the server of that. */
async function askStandalone(
  flag: Bundler,
  settings: readonly string[] = [],
  project?: App,
): Promise<Output> {
  const app = build(flag, [...settings, "output: 'standalone'"], project);
  const inside = relative(TOOLS, app.folder);
  const shipped = app.ship('.next/standalone');
  return ask([join(shipped, '.next/standalone', inside, 'server.js')], shipped);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts a server, asks its route once it listens, and stops it. */
async function ask(args: readonly string[], cwd: string): Promise<Output> {
  const port = String(await freePort());
  const env = { PORT: port, HOSTNAME: '127.0.0.1', MODEL, TENSOR, NODE_ENV: 'production' } as const;
  const child = spawn(programOf('node'), args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const stderr = text(child.stderr);
  const answer = async (): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${port}/tensor`);
    return response.text();
  };
  let stdout: string | undefined;
  for (let i = 0; i < 300 && stdout === undefined && child.exitCode === null; i++) {
    await setTimeout(100);
    stdout = await answer().catch(() => undefined);
  }
  child.kill('SIGKILL');
  return { stdout: stdout ?? '', stderr: await stderr };
}

it('Turbopack ships the addon with the build, which maps', async () => {
  const app = build('--turbopack');
  app.build('rm -r node_modules');
  const next = join(TOOLS, 'node_modules/next/dist/bin/next');
  expectMapped(await ask([next, 'start', '--hostname', '127.0.0.1'], app.folder));
});

it('Turbopack ships the addon with the standalone output, which maps', async () => {
  expectMapped(await askStandalone('--turbopack'));
});

it('Turbopack builds from a package without the addons of other platforms, and maps', async () => {
  const app = makeApp();
  pruneOthers(app);
  expectMapped(await askStandalone('--turbopack', [], app));
});

it('Turbopack builds from a package without any addon, warns once and reads', async () => {
  const app = makeApp();
  pruneAll(app);
  const output = await askStandalone('--turbopack', [], app);
  expectRead(output, /found no addon for linux-x64 at /);
});

it('webpack warns once and reads', async () => {
  expectRead(await askStandalone('--webpack'), /found no addon for linux-x64 at /);
});

it.each(['--turbopack', '--webpack'] as const)(
  '%s maps in the standalone output when the package stays in node_modules',
  async (flag) => {
    expect(textOf('docs/bundlers.md')).toContain(`\`${EXTERNAL}\``);
    expectMapped(await askStandalone(flag, [EXTERNAL]));
  },
);
