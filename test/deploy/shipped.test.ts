/** Programs that are shipped with copied files, or as one executable, by the recipes of docs/bundlers.md. */
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'vitest';
import {
  expectMapped,
  expectRead,
  firstLines,
  recipe,
  runShipped,
} from '../support/deployed-app.js';
import { textOf } from '../support/source-tree.js';
import { makeApp, programOf } from './tools.js';

describe('a file tracer', () => {
  it.each(['app.mjs', 'app.cjs'])('lists what %s needs to map', (program) => {
    const app = makeApp();
    app.write(
      'trace.mjs',
      `import { cpSync } from 'node:fs';
       import { nodeFileTrace } from '@vercel/nft';
       const { fileList } = await nodeFileTrace(['${program}']);
       for (const file of fileList) cpSync(file, 'traced/' + file);`,
    );
    app.build('node trace.mjs');
    expectMapped(runShipped(programOf('node'), join(app.ship('traced'), 'traced', program)));
  });
});

describe('an image of Docker', () => {
  it.each(['app.mjs', 'app.cjs'])('has node_modules of `npm ci`, where %s maps', (program) => {
    const [, command = ''] = /^RUN (npm ci .*)$/m.exec(textOf('docs/servers.md')) ?? [];
    const app = makeApp();
    app.build(`rm -r node_modules\n${command}`);
    expectMapped(runShipped(programOf('node'), join(app.ship('node_modules', program), program)));
  });
});

describe('a single executable', () => {
  const here = 'dirname(process.execPath)';

  it.each([
    { by: 'Node', commands: recipe('Single executables') },
    { by: 'Bun', commands: recipe('Single executables', 1) },
  ])('of $by maps with the addon beside it, without it warns once and reads', ({ commands }) => {
    const app = makeApp(firstLines(here));
    app.build(commands);
    const executable = join(app.ship('dist'), 'dist/app');
    expectMapped(runShipped(executable));
    rmSync(join(dirname(executable), 'safetensors-mmap.node'));
    expectRead(runShipped(executable), /found no addon for linux-x64 at /);
  });
});
