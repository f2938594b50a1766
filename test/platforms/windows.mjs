/** Differences on Windows: further checks of the smoke suite, in plain JavaScript for every runtime. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

/** libuv's flag for exclusive access to a file; Node passes it on, Bun does not. */
const EXCLUSIVE = 0x10000000;

const LENGTH = 300_000;

const tensors = (value) => ({
  t: { dtype: 'U8', shape: [LENGTH], data: new Uint8Array(LENGTH).fill(value) },
});

function codeOf(action) {
  try {
    action();
    return undefined;
  } catch (error) {
    return error.code;
  }
}

/** A file with one tensor, every byte of which is the value. */
async function make({ library, folder }, value = 1, name = 'model.safetensors') {
  const path = join(folder, name);
  await library.saveFile(path, tensors(value));
  return path;
}

function valueIn(library, path) {
  const file = library.safeOpen(path, { storage: 'read' });
  try {
    const { data } = file.getTensor('t');
    assert.equal(data.length, LENGTH);
    assert.ok(data.every((value) => value === data[0]));
    return data[0];
  } finally {
    file.close();
  }
}

/**
 * Starts a process of this runtime with the text of a module. `line()` is the next line that it prints,
 * `stop()` ends it.
 */
function runModule(folder, text) {
  const path = join(folder, 'child.mjs');
  writeFileSync(path, text);
  const flags = process.versions.bun === undefined ? [] : ['run'];
  const child = spawn(process.execPath, [...flags, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    line: async () => (await lines.next()).value,
    async stop() {
      child.kill();
      await ended;
    },
  };
}

const { Bun, gc } = globalThis;
const collectGarbage = Bun === undefined ? gc : () => Bun.gc(true);

async function collectAll() {
  for (let times = 0; times < 10; times++) {
    collectGarbage();
    await sleep(20);
  }
}

/** Drops the file; in a separate function, so that nothing of it is left on the stack. */
function firstOf(library, path, index) {
  return library.safeOpen(path).getTensor('t').data[index];
}

/** A worker that has 20 files open. */
const WORKER = `
  const { parentPort, workerData } = require('node:worker_threads');
  import(workerData.libraryUrl).then(({ safeOpen }) => {
    globalThis.kept = Array.from({ length: 20 }, () => safeOpen(workerData.path).getTensor('t').data);
    parentPort.postMessage('open');
    setInterval(() => {}, 1000);
  });`;

/** Handles of this process: by the program that the environment names, else by PowerShell. */
function handleCount() {
  const { HANDLE_COUNT_PROGRAM: program } = process.env;
  const [command, args] = program
    ? [program, [String(process.pid)]]
    : ['powershell', ['-NoProfile', '-Command', `(Get-Process -Id ${process.pid}).HandleCount`]];
  const { stdout } = spawnSync(command, args, { encoding: 'utf8' });
  const count = Number(stdout);
  assert.ok(count > 0, `the number of handles, found ${stdout}`);
  return count;
}

const CASES = [
  {
    name: 'a rename over a mapped target fails with a clear error, and the old file stays whole',
    async run(context) {
      const { library, folder } = context;
      const path = await make(context);
      const file = library.safeOpen(path);
      assert.equal(file.getTensor('t').data[7], 1);
      await assert.rejects(library.saveFile(path, tensors(2)), (error) => {
        assert.equal(error.code, 'SAFETENSORS_TARGET_IN_USE');
        assert.equal(error.path, path);
        assert.match(error.message, /detach: true/);
        return true;
      });
      assert.deepEqual(readdirSync(folder), ['model.safetensors']);
      assert.equal(valueIn(library, path), 1);
      assert.equal(file.getTensor('t').data[LENGTH - 1], 1);

      file.close({ detach: true });
      await library.saveFile(path, tensors(2));
      assert.equal(valueIn(library, path), 2);
    },
  },
  {
    name: 'others cannot cut a mapped file short',
    async run(context) {
      const path = await make(context);
      const file = context.library.safeOpen(path);
      const { data } = file.getTensor('t');
      assert.notEqual(
        codeOf(() => truncateSync(path, 1000)),
        undefined,
      );
      assert.equal(data[LENGTH - 1], 1);
      assert.equal(file.ok, true);
      file.close({ detach: true });
      truncateSync(path, 1000);
    },
  },
  {
    name: 'a mapped file is not deleted, or goes on to be read',
    async run(context) {
      const path = await make(context);
      const file = context.library.safeOpen(path);
      const code = codeOf(() => rmSync(path));
      assert.equal(existsSync(path), code !== undefined);
      assert.ok(file.getTensor('t').data.every((value) => value === 1));
      file.close({ detach: true });
      rmSync(path, { force: true });
      assert.equal(existsSync(path), false);
    },
  },
  {
    name: 'a mapped file can be renamed, and is still the same file',
    async run(context) {
      const { library, folder } = context;
      const path = await make(context);
      const file = library.safeOpen(path);
      renameSync(path, join(folder, 'moved.safetensors'));
      assert.equal(file.getTensor('t').data[5], 1);
      await library.saveFile(join(folder, 'copy.safetensors'), { t: file.getTensor('t') });
      assert.equal(valueIn(library, join(folder, 'copy.safetensors')), 1);
      file.close();
    },
  },
  {
    name: '200 opens and closes leave no handle',
    async run(context) {
      const { library } = context;
      const path = await make(context);
      const round = (index) => {
        const file = library.safeOpen(path);
        assert.equal(file.getTensor('t').data[index], 1);
        file.close({ detach: index % 2 === 0 });
      };
      round(0);
      round(1);
      const before = handleCount();
      for (let index = 0; index < 200; index++) round(index);
      const after = handleCount();
      assert.ok(after <= before + 5, `${before} handles before, ${after} after`);
      return `${before} handles before, ${after} after`;
    },
  },
  {
    name: '1 000 files that are dropped leave no handle and no mapping',
    async run(context) {
      const { library } = context;
      const path = await make(context);
      const before = handleCount();
      for (let index = 0; index < 1000; index++) {
        assert.equal(firstOf(library, path, index), 1);
        if (index % 100 === 0) await sleep(1);
      }
      await collectAll();
      const after = handleCount();
      assert.ok(after <= before + 5, `${before} handles before, ${after} after`);
      await library.saveFile(path, tensors(2));
      return `${before} handles before, ${after} after`;
    },
  },
  {
    name: 'workers that are terminated leave no handle and no mapping',
    async run(context) {
      const { library, libraryUrl } = context;
      const path = await make(context);
      const before = handleCount();
      for (let times = 0; times < 10; times++) {
        const worker = new Worker(WORKER, { eval: true, workerData: { libraryUrl, path } });
        await new Promise((resolve) => worker.once('message', resolve));
        await worker.terminate();
      }
      await collectAll();
      const after = handleCount();
      assert.ok(after <= before + 5, `${before} handles before, ${after} after`);
      await library.saveFile(path, tensors(2));
      return `${before} handles before, ${after} after`;
    },
  },
  {
    name: 'long paths, and names that are not ASCII',
    async run(context) {
      const { library, folder } = context;
      const name = `${'каталог-模型-🙂'.repeat(4)}`;
      const deep = join(folder, name, name, name, name, name, name);
      assert.ok(deep.length > 280);
      mkdirSync(deep, { recursive: true });
      const path = await make({ library, folder: deep }, 3, 'модель-é-模型.safetensors');
      assert.deepEqual(readdirSync(deep), ['модель-é-模型.safetensors']);
      const file = await library.safeOpenAsync(path);
      assert.equal(file.path, path);
      assert.equal(file.getTensor('t').data[5], 3);
      file.close({ detach: true });
      await library.saveFile(path, tensors(4));
      assert.equal(valueIn(library, path), 4);
      await library.editMetadata(path, { a: 'b' });
      await library.editMetadata(path, { a: 'c' }, { inPlace: true });
      const edited = library.safeOpen(path, { storage: 'read' });
      assert.equal(edited.metadata.get('a'), 'c');
      edited.close();
      await library.saveCheckpoint(deep, tensors(6));
      assert.equal(valueIn(library, join(deep, 'model.safetensors')), 6);
    },
  },
  {
    name: 'a checkpoint is resharded into its own folder',
    async run({ library, folder }) {
      const values = [1, 2, 3];
      const named = values.map((value) => [`t${value}`, tensors(value).t]);
      await library.saveCheckpoint(folder, new Map(named), { maxShardSize: '300KB' });
      assert.equal(readdirSync(folder).length, 4);
      for (const maxShardSize of ['1MB', '1MB', '300KB', '300KB']) {
        const { failedDeletions } = await library.convert(folder, folder, { maxShardSize });
        assert.deepEqual(failedDeletions, []);
      }
      assert.equal(readdirSync(folder).length, 4);
      const checkpoint = library.safeOpen(folder, { storage: 'read' });
      for (const value of values) {
        assert.ok(checkpoint.getTensor(`t${value}`).data.every((each) => each === value));
      }
      checkpoint.close();
    },
  },
  {
    name: 'a relative path with either separator',
    async run({ library, folder }) {
      const before = process.cwd();
      process.chdir(folder);
      try {
        mkdirSync('sub');
        await library.saveFile('sub/a.safetensors', tensors(1));
        await library.saveFile('sub\\b.safetensors', tensors(2));
        assert.deepEqual(readdirSync('sub'), ['a.safetensors', 'b.safetensors']);
        assert.equal(valueIn(library, '.\\sub/../sub\\a.safetensors'), 1);
      } finally {
        process.chdir(before);
      }
    },
  },
  {
    name: 'a path in other case is the same file',
    async run(context) {
      const { library, folder } = context;
      await make(context);
      const file = library.safeOpen(join(folder, 'MODEL.SafeTensors'));
      assert.equal(file.getTensor('t').data[5], 1);
      const other = join(folder, 'Model.SAFETENSORS');
      await assert.rejects(library.saveFile(other, tensors(2)), {
        code: 'SAFETENSORS_TARGET_IN_USE',
      });
      file.close({ detach: true });
      await library.saveFile(other, tensors(2));
      assert.equal(readdirSync(folder).length, 1);
    },
  },
  {
    name: 'a file that another process holds open can be mapped',
    async run(context) {
      const path = await make(context);
      const other = runModule(
        context.folder,
        `
        import { openSync } from 'node:fs';
        openSync(${JSON.stringify(path)}, 'r+');
        console.log('open');
        setInterval(() => {}, 1000);`,
      );
      try {
        assert.equal(await other.line(), 'open');
        const file = context.library.safeOpen(path);
        assert.equal(file.getTensor('t').data[LENGTH - 1], 1);
        file.close({ detach: true });
      } finally {
        await other.stop();
      }
    },
  },
  {
    name: 'a file that another process holds for itself cannot be opened: EBUSY',
    async run(context) {
      if (process.versions.bun !== undefined) return 'not here';
      const path = await make(context);
      const other = runModule(
        context.folder,
        `
        import { openSync } from 'node:fs';
        openSync(${JSON.stringify(path)}, ${constants.O_RDWR | EXCLUSIVE});
        console.log('open');
        setInterval(() => {}, 1000);`,
      );
      try {
        assert.equal(await other.line(), 'open');
        assert.equal(
          codeOf(() => context.library.safeOpen(path)),
          'EBUSY',
        );
        await assert.rejects(context.library.saveFile(path, tensors(2)), {
          code: 'SAFETENSORS_TARGET_IN_USE',
        });
      } finally {
        await other.stop();
      }
      assert.equal(valueIn(context.library, path), 1);
      return undefined;
    },
  },
  {
    name: 'a file that another process has mapped is not replaced until that lets go',
    async run(context) {
      const { library } = context;
      const path = await make(context);
      const other = runModule(
        context.folder,
        `
        import { safeOpen } from ${JSON.stringify(context.libraryUrl)};
        // Kept: files that are dropped are closed.
        globalThis.file = safeOpen(${JSON.stringify(path)});
        console.log(globalThis.file.getTensor('t').data[5]);
        setInterval(() => {}, 1000);`,
      );
      try {
        assert.equal(await other.line(), '1');
        await assert.rejects(library.saveFile(path, tensors(2)), {
          code: 'SAFETENSORS_TARGET_IN_USE',
        });
        assert.equal(valueIn(library, path), 1);
      } finally {
        await other.stop();
      }
      await library.saveFile(path, tensors(2));
      assert.equal(valueIn(library, path), 2);
    },
  },
  {
    name: 'what a writer changes in a mapped file is noticed',
    async run(context) {
      const path = await make(context);
      const file = context.library.safeOpen(path);
      const bytes = readFileSync(path);
      // Other metadata of the same length.
      bytes.set(Buffer.from('"T"'), bytes.indexOf('"t"'));
      const fd = openSync(path, 'r+');
      try {
        writeFileSync(fd, bytes.subarray(0, 200));
      } finally {
        closeSync(fd);
      }
      assert.equal(
        codeOf(() => file.getTensor('t')),
        'SAFETENSORS_FILE_CHANGED',
      );
      file.close();
    },
  },
  {
    name: 'buffers that were moved before close({ detach: true }) read as zeros, and can be written',
    async run(context) {
      const path = await make(context);
      const file = context.library.safeOpen(path);
      const { data } = file.getTensor('t');
      // Node 20 has no `transfer`.
      if (data.buffer.transfer === undefined) return 'not here';
      const moved = new Uint8Array(data.buffer.transfer());
      assert.equal(moved[LENGTH - 1], 1);
      file.close({ detach: true });
      assert.equal(statSync(path).size > LENGTH, true);
      assert.ok(moved.every((value) => value === 0));
      moved.fill(9);
      assert.ok(moved.every((value) => value === 9));
      await context.library.saveFile(path, tensors(2));
      assert.equal(valueIn(context.library, path), 2);
      return undefined;
    },
  },
];

/** The checks by name, each of which takes an empty folder. `libraryUrl` is where other processes find it. */
export function windowsChecks(library, libraryUrl) {
  return Object.fromEntries(
    CASES.map(({ name, run }) => [name, (folder) => run({ library, libraryUrl, folder })]),
  );
}
