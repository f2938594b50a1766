// Bundles the entry points of the package from src/ into lib/, with their types.
//
// package.json's `exports` lists the entries, and nothing else does: `./lib/NAME.js` is built from
// `src/NAME.ts`, and `./lib/browser/NAME.js`, too: `#runtime` is another file there, and no Node API is used. `bin`
// lists the program: `./lib/cli.js` is built from `src/cli/main.ts`. It prints the version. `./lib/program.js` has the
// shortest commands and code that all commands share, `./lib/listing.js` `inspect` and `--help`, `./lib/show.js`
// `show`, `./lib/commands.js` the other commands: a file costs up to a millisecond, as much as 30 kB of code. They
// share the files of the entries.
//
// The code of the main entry is in `lib/core.js`, which `package.json` does not export. `lib/index.js` exports the public
// names of it, and no others. The other entries import shared code from there, so a class is the same whichever entry it
// comes from. What is called late, and shared by some entries, has separate files. All these have exports of one or two
// letters, which change with every build. The second file costs 0.5 ms at import (medians of 41 fresh processes: Node 20
// 15.6 → 16.1 ms, Node 24 11.9 → 12.4 ms).

import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformSync } from 'esbuild';
import { rolldown } from 'rolldown';
import { writeDeclarations } from './declarations.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const modules = join(root, 'build');
const lib = join(root, 'lib');

const { exports, imports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Names of entries: what stands between `./lib/` and `.js` in targets of `exports`. */
function entryNames(targets) {
  return targets.flatMap((target) => /^\.\/lib\/(.+)\.js$/.exec(target)?.[1] ?? []);
}

/** The source of `#runtime`, by package.json's `imports`. */
function runtimeFor(condition) {
  return join(
    root,
    imports['#runtime'][condition].replace('./build/', 'src/').replace('.js', '.ts'),
  );
}

const LATE_BUILTIN = `function lateBuiltin(builtin) {
  let loaded;
  const load = () => builtin === 'process' ? process : process.getBuiltinModule('node:' + builtin);
  return Object.create(new Proxy({}, { get: (_, name) => (loaded ??= load())[name] }));
}`;

/**
 * Takes Node's builtins where they are used instead of at import. A static import of `node:fs` makes
 * Node build an ES module around it, with every getter run, which loads some 60 modules of its own.
 * A bundle reads names of a CommonJS module at the place of use: here through a proxy that asks
 * `process.getBuiltinModule` (Node 20.16) at the first of them. `node:process` is the global: test
 * runners give their tests a copy of it, with variables of its own.
 */
const lateBuiltins = {
  name: 'late-builtins',
  resolveId: (id) =>
    id.startsWith('node:') ? { id: `\0late-${id.slice(5)}.cjs`, moduleSideEffects: false } : null,
  load(id) {
    const [, name] = /^\0late-(.+)\.cjs$/.exec(id) ?? [];
    return name === undefined ? null : `module.exports = lateBuiltin('${name}');`;
  },
  // One function for all, since each that runs at import is compiled; at the end, where it moves no line of the map.
  renderChunk: (text) =>
    text.includes('lateBuiltin(') ? { code: `${text}\n${LATE_BUILTIN}`, map: null } : null,
};

const JS_YAML = join(root, 'node_modules/js-yaml/index.js');

/**
 * Takes from js-yaml what reads, with the types of the core schema. The only file that it exports has its writer, too,
 * which cannot be left out.
 */
const readerOfYaml = {
  name: 'reader-of-yaml',
  resolveId(id) {
    if (id === 'js-yaml') return JS_YAML;
    return id === './schema/default' ? join(dirname(JS_YAML), 'lib/schema/core.js') : null;
  },
  load(id) {
    if (id !== JS_YAML) return null;
    const code = `export { load } from './lib/loader.js';
export { default as CORE_SCHEMA } from './lib/schema/core.js';
export { default as Type } from './lib/type.js';`;
    return { code, moduleType: 'js' };
  },
};

/** A bundle in lib/ is one folder below the package's root, the modules that name the addon and the page three. */
const locations = {
  name: 'locations',
  transform(source, id) {
    if (!/(?:addon[\\/]location|serve[\\/]page)\.ts$/.test(id)) return null;
    const code = source.replaceAll('../../../', '../');
    if (code === source) throw new Error(`${id}: the addon or the page is not where it was`);
    return { code, map: null };
  },
};

/** V8 holds and reads a text of ASCII characters alone in half the bytes. */
const asciiOnly = {
  name: 'ascii-only',
  renderChunk(text) {
    const escaped = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    return { code: text.replaceAll(/[^\n\t\x20-\x7e]/g, escaped), map: null };
  },
};

/** Characters of a line, about: an error that is not caught prints the line that threw it. */
const LINE_LIMIT = 120;

/** A comment that webpack needs, before an argument. esbuild removes it, so an argument of that length replaces it. */
const WEBPACK_IGNORE = '/* webpackIgnore: true */';
const WEBPACK_IGNORE_ARGUMENT = 'WEBPACK_IGNORE_COMMENT__,';

/** The path of an addon that a break of the line cuts: bundlers and other tools look for it as a whole. */
const CUT_ADDON_PATH = /"([^"\\\n]*)\\\n([^"\\\n]*\.node)"/g;
/** The same of what the path is relative to. */
const CUT_IMPORT_META = /import(?:\n\.meta\.url|\.\nmeta\.url|\.meta\n\.url|\.meta\.\nurl)/g;

/**
 * Removes the whitespace of a written file, 9 % of the text, writes `!0` for `true` and the like, and breaks its lines
 * between statements.
 */
function removeWhitespace(path) {
  const text = readFileSync(path, 'utf8').replaceAll(WEBPACK_IGNORE, WEBPACK_IGNORE_ARGUMENT);
  // Entries only export names of other files, and have no map.
  const hasMap = existsSync(`${path}.map`);
  const map = hasMap ? readFileSync(`${path}.map`).toString('base64') : '';
  const comment = hasMap ? `\n//# sourceMappingURL=data:application/json;base64,${map}` : '';
  const written = transformSync(text + comment, {
    ...{ format: 'esm', minifyWhitespace: true, minifySyntax: true, lineLimit: LINE_LIMIT },
    ...{ sourcemap: hasMap ? 'external' : false, sourcesContent: false },
  });
  // The break comes before: the map has the same lines.
  const code = written.code
    .replace(CUT_ADDON_PATH, '\n"$1$2"')
    .replace(CUT_IMPORT_META, '\nimport.meta.url');
  writeFileSync(path, code.replaceAll(WEBPACK_IGNORE_ARGUMENT, WEBPACK_IGNORE));
  if (hasMap) writeFileSync(`${path}.map`, written.map);
}

/** What the paths of copied modules end with. */
const COPY = /\?copy-for-\w+$/;

/**
 * Gives modules, and copies for them, copies of the modules that they import: the chunks of those are many times as
 * long, and load when they are needed. `isCopied` gets the path of a module, and that of its importer.
 */
function copiesFor(name, isImporter, isCopied) {
  const mark = `?copy-for-${name}`;
  return {
    name: `copies-for-${name}`,
    resolveId(id, importer = '', { kind } = {}) {
      const isCopy = importer.endsWith(mark);
      if (!(isCopy || isImporter(importer)) || !id.startsWith('.')) return null;
      const path = join(dirname(importer), id.replace(/\.js$/, '.ts'));
      // What loads when it is needed is shared.
      if (kind === 'dynamic-import') return isCopy ? path : null;
      return isCopied(path, importer) ? `${path}${mark}` : path;
    },
    load(id) {
      if (!id.endsWith(mark)) return null;
      return { code: readFileSync(id.slice(0, -mark.length), 'utf8'), moduleType: 'ts' };
    },
  };
}

const VERSION_MODULE = join(root, 'src/platform/addon/version.ts');

/** Takes everything that `src/index.ts` exports from the core. */
const namesOfCore = {
  name: 'names-of-core',
  resolveId: (id) =>
    /^[.#]\//.test(id) || id === '#runtime' ? { id: './core.js', external: true } : null,
};

/** Fails for a builtin of Node. */
const noBuiltins = {
  name: 'no-builtins',
  resolveId(id, importer) {
    if (id.startsWith('node:')) throw new Error(`${importer} imports ${id}, which browsers lack`);
    return null;
  },
};

/**
 * Short names of variables save a tenth of the time to import. Functions and classes keep their names, which appear in
 * stacks. For Node, `removeWhitespace` follows, which breaks lines.
 */
function minified(codegen, keepNames = { function: true, class: true }) {
  return { compress: { keepNames }, mangle: { keepNames }, codegen };
}

async function write(sources, input, output) {
  const bundle = await rolldown({
    cwd: root,
    input: Object.fromEntries(
      Object.entries(sources).map(([name, source]) => [name, join(root, source)]),
    ),
    ...input,
    // Without comments that name the modules: maps do that in a clone.
    experimental: { attachDebugInfo: 'none' },
    plugins: [...input.plugins, asciiOnly],
  });
  const written = await bundle.write({
    dir: lib,
    format: 'esm',
    // For tests and people who debug a clone. The package leaves them out, so nothing in it names them.
    sourcemap: 'hidden',
    sourcemapExcludeSources: true,
    // The types have them.
    comments: { jsdoc: false },
    minify: minified({ removeWhitespace: false }),
    ...output,
  });
  for (const { moduleIds = [] } of written.output) copyLicences(moduleIds);
}

/** Copies the licence text of every package of which there are modules in a bundle. */
function copyLicences(moduleIds) {
  const packages = moduleIds.map((id) =>
    /^(.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+))[\\/]/.exec(id),
  );
  for (const [, folder, name] of packages.filter((found) => found !== null)) {
    const licence = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    if (licence === undefined) throw new Error(`${name} is bundled, and has no licence text`);
    const target = join(lib, 'licences', `${name.replaceAll(/[\\/]/g, '-')}.txt`);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(join(folder, licence), target);
  }
}

/** The sources of entries, by their names. */
function entrySources(names) {
  return Object.fromEntries(names.map((name) => [name, `src/${name}.ts`]));
}

/** Writes the types of an entry for browsers, which are those for Node. */
function writeBrowserTypes(name) {
  const text = readFileSync(join(lib, `${name}.d.ts`), 'utf8').replaceAll("'./", "'../");
  mkdirSync(join(lib, 'browser'), { recursive: true });
  writeFileSync(join(lib, `browser/${name}.d.ts`), text);
}

/**
 * Makes the types of an entry bring those of Node, which they mention. Since TypeScript 6 a program has
 * only the types of other packages that it names, or that a package which it imports names. The reference
 * stands in the entry alone: an entry for browsers shares the other declarations.
 */
function bringNodeTypes(name) {
  const path = join(lib, `${name}.d.ts`);
  writeFileSync(path, `/// <reference types="node" />\n${readFileSync(path, 'utf8')}`);
}

/** Matches modules, but no copies, by the beginning of their path below `src`. */
function begins(pattern) {
  const beginning = new RegExp(`/src/(?:${pattern})`);
  return (id) => beginning.test(id.replaceAll('\\', '/')) && !COPY.test(id);
}

/** Whether a module is in the first file that is loaded; the rest of it is what these import. */
const inCore = (id) =>
  id === join(root, 'src/index.ts') ||
  // What remote reading shares with files that load late, and with the command line, stays out of those.
  begins(
    'platform/storage/|platform/io/threads|file/shards/pipeline-files|file/cache/environment|inspect/format',
  )(id) ||
  id.startsWith('\0');

/** Modules of which the command line gets copies: what opens addresses, and what joins sources, is long. */
const isCopiedForCli = begins(
  '(?:write(?!/convert/join\\.)|quantized|foreign|remote(?!/node/open-remote)|file/verification)/|platform/io/(?:hash|combined-crc32)|file/hub/module-patterns|inspect/(?:tree|torch-dtypes)|merge/adapters/de',
);

const copiesForCli = copiesFor(
  'cli',
  begins('cli/'),
  (path, importer) =>
    // The program prints its version without loading the core.
    (importer === join(root, 'src/cli/main.ts') && path === VERSION_MODULE) || isCopiedForCli(path),
);

/** `verify` finds out the format of a file without loading what reads PyTorch checkpoints. */
const copiesForVerification = copiesFor(
  'verification',
  begins('open/verify-source'),
  begins('foreign/|write/convert/(?:detect-format|used-options)'),
);

rmSync(lib, { recursive: true, force: true });
const targets = Object.values(exports);
const forNode = {
  platform: 'node',
  resolve: { alias: { '#runtime': runtimeFor('default') } },
  transform: { target: 'node20.19' },
};
const nodeEntries = entryNames(targets.map((target) => target.default ?? target));
writeDeclarations(modules, lib, [...nodeEntries, 'runtime', 'types']);
nodeEntries.forEach(writeBrowserTypes);
nodeEntries.forEach(bringNodeTypes);
const { index, ...others } = entrySources(nodeEntries);
await write(
  { core: index, ...others, cli: 'src/cli/main.ts' },
  {
    ...forNode,
    plugins: [copiesForCli, copiesForVerification, lateBuiltins, locations, readerOfYaml],
    // The core gets exports for the other files. The entries have no code of their own, and get none.
    preserveEntrySignatures: 'allow-extension',
  },
  {
    chunkFileNames: '[name].js',
    codeSplitting: {
      groups: [
        // Each with everything that it imports, unless one of a higher priority has that.
        { name: 'core', test: inCore, priority: 9 },
        // Short modules that load late, and that several of the files below need.
        {
          name: 'shared',
          test: begins(
            'file/source/(?:summary|pipeline|ranks-found)|file/checkpoint/open-pipeline|quantized/blocks/types|work/scope|' +
              'write/save/writing-threads|' +
              'platform/io/(?:hashing-thread|combined-crc32)',
          ),
          priority: 9,
        },
        { name: 'dequantizing', test: begins('quantized/'), priority: 8 },
        {
          name: 'inspection',
          test: begins('inspect/|merge/adapters/(?:describe-adapter|detect)'),
          priority: 8,
        },
        // What `open` of a PyTorch checkpoint loads, and nothing else.
        { name: 'torch', test: begins('open/open-path|foreign/torch/open'), priority: 7 },
        // `verify`, which loads no code that writes.
        {
          name: 'verification',
          test: begins(
            'file/verification/|write/save/hashed-changes|open/(?:verify|sources/verify-handle)',
          ),
          priority: 7,
        },
        { name: 'writing', test: begins('write/(?!convert)'), priority: 6 },
        {
          name: 'merging',
          test: begins(
            'merge/(?!adapters/(?:describe-adapter|detect)|models/yaml)|open/read-recipe',
          ),
          priority: 6,
        },
        { name: 'foreign', test: begins('foreign/|remote/gguf-file'), priority: 6 },
        { name: 'conversion', test: begins('write/convert/|open/convert-opened'), priority: 5 },
        {
          name: 'remote-core',
          test: begins(
            'remote/(?!download|verification|gguf-file|node/(?:distributed|distcp-file|assemble-remote))',
          ),
          priority: 5,
        },
        {
          name: 'distributed',
          test: begins('remote/node/(?:distributed|distcp-file|assemble-remote)'),
          priority: 4,
        },
        {
          name: 'download',
          test: begins('remote/(?:download|verification)/'),
          priority: 4,
        },
        // The entry, which the program imports.
        { name: 'inspect', test: begins('inspect\\.'), priority: 2 },
        // The program with its shortest commands, then files of one or two commands.
        { name: 'program', test: begins('cli/run'), priority: 1.9 },
        { name: 'listing', test: begins('cli/(?:commands/inspect\\.|help)'), priority: 1.8 },
        { name: 'show', test: begins('cli/commands/show\\.'), priority: 1.7 },
        { name: 'commands', test: begins('cli/command-table'), priority: 0 },
      ],
    },
  },
);
for (const name of readdirSync(lib)) if (name.endsWith('.js')) removeWhitespace(join(lib, name));
await write({ index }, { ...forNode, plugins: [namesOfCore] }, { sourcemap: false });
await write(
  Object.fromEntries(
    Object.entries(entrySources(nodeEntries)).map(([name, source]) => [`browser/${name}`, source]),
  ),
  {
    platform: 'browser',
    resolve: { alias: { '#runtime': runtimeFor('browser') } },
    transform: { target: 'es2022' },
    plugins: [noBuiltins],
  },
  // Pages load them as they are: only names of classes, which messages have, are kept. Bundlers minify them again, and
  // write a separate map.
  {
    chunkFileNames: 'browser/[name].js',
    sourcemap: false,
    minify: minified({ removeWhitespace: true }, { function: false, class: true }),
  },
);
chmodSync(join(lib, 'cli.js'), 0o755);
