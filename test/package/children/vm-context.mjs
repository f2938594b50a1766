// Loads the bundle as a module of a `vm` context, as Jest does, and uses it with values of both
// realms. Run it with --experimental-vm-modules. Prints the failures by the name of the check.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createContext, runInContext, runInThisContext, SourceTextModule } from 'node:vm';

// Jest's globals of a test file, except that URL and AbortSignal are not Node's classes, as with
// jest-environment-jsdom.
const GLOBALS = {
  AbortController,
  AbortSignal: class AbortSignal extends EventTarget {},
  Buffer,
  TextDecoder,
  TextEncoder,
  URL: class URL extends globalThis.URL {},
  performance,
  process,
  setImmediate,
  setTimeout,
  structuredClone,
};

const path = fileURLToPath(new URL('../../../lib/index.js', import.meta.url));

/** Imports the library into a context: each file once, as Jest does. */
async function importInto(context) {
  const modules = new Map();
  const moduleAt = (path) => {
    let module = modules.get(path);
    module ??= new SourceTextModule(readFileSync(path, 'utf8'), {
      context,
      identifier: path,
      initializeImportMeta: (meta) => {
        meta.url = pathToFileURL(path).href;
      },
      importModuleDynamically: (specifier) => evaluated(join(dirname(path), specifier)),
    });
    modules.set(path, module);
    return module;
  };
  const evaluated = async (path) => {
    const module = moduleAt(path);
    if (module.status === 'unlinked') {
      await module.link((name, { identifier }) => moduleAt(join(dirname(identifier), name)));
    }
    await module.evaluate();
    return module;
  };
  return (await evaluated(path)).namespace;
}

const context = createContext(GLOBALS);
const inContext = (expression) => runInContext(`(${expression})`, context);
const library = await importInto(context);

const root = mkdtempSync(join(tmpdir(), 'vm-context-'));
let folder = root;
const inFolder = (name) => join(folder, name);
const values = (tensor) => Array.from(tensor.data);

/** The error that the work throws or rejects with. */
async function errorOf(work) {
  try {
    await work();
  } catch (error) {
    return error;
  }
  assert.fail('nothing was thrown');
}

const realms = {
  'the context': inContext,
  'the main realm': (source) => runInThisContext(`(${source})`),
};

const checks = {
  async 'a file that is missing keeps the code of Node'() {
    for (const open of [library.safeOpen, library.safeOpen, library.loadFile]) {
      const error = await errorOf(() => open(inFolder('missing')));
      assert.equal(error.code, 'ENOENT');
    }
    const save = library.saveFile(inFolder('no/such/folder'), {});
    const error = await errorOf(() => save);
    assert.equal(error.code, 'ENOENT');
    assert.ok(error instanceof inContext('Error'), 'an error of the context');
    assert.match(error.message, /no\/such\/folder/);
  },

  async 'the import needs nothing of process but its names'() {
    const { arch, platform, versions } = process;
    const copy = { arch, platform, versions, env: {} };
    const { fromFloat32 } = await importInto(createContext({ ...GLOBALS, process: copy }));
    assert.equal(fromFloat32(new Float32Array(2), 'BF16').length, 2);
  },

  async 'the environment is that of the context'() {
    assert.equal(library.mappingStatus().available, true);
    const env = { SAFETENSORS_MMAP_ADDON: '/nowhere/addon.node' };
    const copy = Object.create(process, { env: { value: env } });
    const other = await importInto(createContext({ ...GLOBALS, process: copy }));
    assert.match(other.mappingStatus().reason, /no addon .* at .nowhere/);
  },

  async 'tensors live in the context'() {
    const data = inContext('Float32Array.of(1, 2)');
    await library.saveFile(inFolder('a'), { t: { dtype: 'F32', shape: [2], data } });
    const file = library.safeOpen(inFolder('a'), { storage: 'mmap' });
    const tensor = file.getTensor('t');
    assert.ok(tensor.data instanceof inContext('Float32Array'), 'data');
    assert.ok(tensor.bytes instanceof inContext('Uint8Array'), 'bytes');
    assert.ok(tensor.toFloat32() instanceof inContext('Float32Array'), 'toFloat32');
    assert.ok(tensor.view(Float32Array) instanceof Float32Array, 'a view of the main realm');
    assert.ok(library.loadFile(inFolder('a')) instanceof inContext('Map'), 'loadFile');
  },

  async 'errors of the library are its classes'() {
    const error = await errorOf(() => library.parse(inContext('new Uint8Array(3)')));
    assert.ok(error instanceof library.FormatError);
    assert.ok(error instanceof inContext('Error'));
  },

  async 'a save over an old file, and one that is aborted'() {
    const tensors = (value) => ({ t: { dtype: 'U8', shape: [1], data: Uint8Array.of(value) } });
    await library.saveFile(inFolder('a'), tensors(1));
    await library.saveFile(inFolder('a'), tensors(2));
    await library.saveFile(inFolder('a'), tensors(3));
    const reason = new Error('enough');
    const signal = AbortSignal.abort(reason);
    assert.equal(
      await errorOf(() => library.saveFile(inFolder('a'), tensors(4), { signal })),
      reason,
    );
    assert.deepEqual(values(library.safeOpen(inFolder('a')).getTensor('t')), [3]);
    assert.deepEqual(readdirSync(folder), ['a']);
  },

  async 'metadata is edited, in place too'() {
    await library.saveFile(inFolder('a'), {}, { metadata: { format: 'pt' }, reserve: 100 });
    await library.editMetadata(inFolder('a'), new Map([['license', 'mit']]));
    await library.editMetadata(inFolder('a'), inContext("new Map([['by', 'me']])"), {
      inPlace: true,
    });
    const { metadata } = library.safeOpen(inFolder('a'));
    assert.deepEqual([...metadata].flat(), ['by', 'me', 'format', 'pt', 'license', 'mit']);
    assert.deepEqual(readdirSync(folder), ['a']);
  },

  async 'bad arguments are TypeErrors of the context'() {
    for (const work of [
      () => library.safeOpen(true),
      () => library.safeOpen({}),
      () => library.saveCheckpoint([], { t: { dtype: 'U8', shape: [0], data: new Uint8Array(0) } }),
      () => library.saveFile(inFolder('a'), {}, { signal: {} }),
      () => library.parse([1, 2]),
      () => library.fromFloat32([1], 'BF16'),
    ]) {
      const error = await errorOf(work);
      assert.equal(error.code, 'ERR_INVALID_ARG_TYPE');
      assert.ok(error instanceof inContext('TypeError'));
    }
  },

  async 'the file of a dropped handle is closed'() {
    await library.saveFile(inFolder('a'), {});
    for (const storage of ['read', undefined]) {
      const file = library.safeOpen(inFolder('a'), { storage });
      file.close({ detach: true });
      const error = await errorOf(() => file.getTensor('t'));
      assert.equal(error.code, 'SAFETENSORS_FILE_CLOSED');
    }
  },
};

for (const [realm, make] of Object.entries(realms)) {
  const tensors = make(`new Map([
    ['a', { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) }],
    ['b', { dtype: 'U16', shape: [1], data: new Uint8Array([3, 0]).buffer }],
    ['c', { dtype: 'U8', shape: [2], data: new Uint8Array(new SharedArrayBuffer(2)) }],
    ['d', { dtype: 'U8', shape: [1], data: Buffer.of(5) }],
  ])`);
  const expected = [[1, 2], [3], [0, 0], [5]];

  Object.assign(checks, {
    async [`tensors of ${realm} are saved and opened`]() {
      await library.saveFile(inFolder('saved'), tensors);
      const parsed = library.parse(library.serialize(tensors));
      for (const file of [library.safeOpen(inFolder('saved')), parsed]) {
        assert.deepEqual([...file.getTensors().values()].map(values), expected);
      }
    },

    async [`a checkpoint of tensors of ${realm}`]() {
      const signal = new AbortController().signal;
      await library.saveCheckpoint(inFolder('many'), tensors, { maxShardSize: '8B', signal });
      await library.convert(inFolder('many'), inFolder('one'));
      for (const name of ['many', 'one']) {
        const checkpoint = library.safeOpen(inFolder(name));
        assert.deepEqual(
          ['a', 'b', 'c', 'd'].map((key) => values(checkpoint.getTensor(key))),
          expected,
        );
        // An array of the other realm is never deeply equal to one of this.
        assert.deepEqual([...(await checkpoint.verify()).problems], []);
        checkpoint.close();
      }
      assert.equal(existsSync(inFolder('many/model.safetensors.index.json')), true);
    },

    async [`streams and writers with pieces of ${realm}`]() {
      const specs = make(`[['t', { dtype: 'U8', shape: [3] }]]`);
      const pieces = {
        list: make('[Uint8Array.of(1), Uint8Array.of(2, 3)]'),
        set: make('new Set([Uint8Array.of(1), Uint8Array.of(2, 3)])'),
        generator: make('(async function* () { yield Uint8Array.of(1); yield Buffer.of(2, 3) })()'),
      };
      for (const data of Object.values(pieces)) {
        const writer = await library.createWriter(inFolder('w'), specs);
        await writer.write('t', data);
        await writer.close();
        assert.deepEqual(values(library.safeOpen(inFolder('w')).getTensor('t')), [1, 2, 3]);
      }
    },

    async [`URLs of ${realm}`]() {
      const url = (name) => make(`new URL(${JSON.stringify(pathToFileURL(inFolder(name)).href)})`);
      await library.saveFile(url('a'), tensors);
      assert.equal(library.safeOpen(url('a')).size, 4);
      await library.editMetadata(url('a'), {});
      mkdirSync(inFolder('c'));
      await library.saveCheckpoint(url('c'), tensors);
      assert.equal(library.safeOpen(url('c')).size, 4);
    },

    async [`arrays of ${realm} to convert`]() {
      await library.saveFile(inFolder('a'), tensors);
      const tensor = library.safeOpen(inFolder('a')).getTensor('b');
      const into = make('new Float32Array(1)');
      assert.equal(tensor.toFloat32({ into }), into);
      assert.equal(await tensor.toFloat32Async({ into }), into);
      assert.deepEqual(Array.from(into), [3]);
      const shared = make('new Float32Array(new SharedArrayBuffer(4))');
      assert.equal((await tensor.toFloat32Async({ into: shared }))[0], 3);
      assert.deepEqual(
        Array.from(library.fromFloat32(make('Float32Array.of(1)'), 'BF16')),
        [16256],
      );
      assert.equal(library.parse(make('Uint8Array').from(readFileSync(inFolder('a')))).size, 4);
    },

    async [`names of ${realm}`]() {
      await library.saveFile(inFolder('a'), tensors);
      const file = library.safeOpen(inFolder('a'));
      await file.prefetch(make("new Set(['a', 'b'])"));
      const loaded = await file.readTensors(make("['a']"));
      assert.deepEqual([...loaded.keys()], ['a']);
      const split = library.splitStateDictIntoShards(make("new Map([['a', new Uint8Array(1)]])"));
      assert.equal(split.isSharded, false);
    },
  });
}

const failures = {};
for (const [name, check] of Object.entries(checks)) {
  folder = mkdtempSync(join(root, 'check-'));
  try {
    await check();
  } catch (error) {
    failures[name] = String(error?.stack ?? error);
  }
}
console.log(JSON.stringify(failures));
