// Bundles viewer/ into lib/viewer/index.html: one file with its script and its style, that works from any static host
// and from `file://`.
//
// The package's browser entries are bundled from their sources, so that the modules they share are there once. The
// script starts its own text as the worker, from a `blob:` URL. The Content-Security-Policy names script and style by
// their hashes; it lets the page connect to what people type, and load nothing else.

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';
import { minifySync } from 'rolldown/experimental';
import { minify_sync } from 'terser';

const root = fileURLToPath(new URL('..', import.meta.url));
const viewer = join(root, 'viewer');

/** The entries that the page is built on, as sources for browsers. */
const { exports, imports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

function sourceOf(built) {
  return join(root, built.replace(/^\.\/(?:lib\/browser|build)\//, 'src/').replace('.js', '.ts'));
}

const entries = Object.fromEntries(
  Object.entries(exports)
    .filter(([, target]) => target.browser !== undefined)
    .map(([path, target]) => [
      path.replace('.', 'safetensors-mmap'),
      sourceOf(target.browser.default),
    ]),
);
entries['#runtime'] = sourceOf(imports['#runtime'].browser);

/**
 * Exports that do nothing in this page, replaced by `undefined`, or by the value that browsers would get. The page
 * opens safetensors files, reads slices and runs in browsers: it has no blocks of GGUF, lists of rows, chunks, streams,
 * typed views, parts for ranks, thread pool, events of requests, or errors of Node's `fetch`. Headers have one reader,
 * without the one that only makes the first file of a process faster; unknown names have no ranges of layers.
 */
const LEFT_OUT = new Map(
  Object.entries({
    'errors/tensor-not-found': [
      "import { TensorNotFoundError } from './errors.js';",
      "import { nearNames } from './near-names.js';",
      'tensorNotFound = (name, names, at) => new TensorNotFoundError(name, nearNames(name, names), at)',
    ],
    'file/source/stream': ['requireStreamOptions', 'streamTensors'],
    'header/canonical-header': ['readCanonicalHeader = function* () { return null; }'],
    'quantized/blocks/kernels': ['blockKernels'],
    'quantized/tiles/blocks': ['openBlocks'],
    'remote/gguf-file': ['fetchGguf', 'ggufNames', 'requireTensorCount'],
    'remote/node-fetch': [
      'isProxyLogin = () => false',
      'nodeFetchAdvice = () => {}',
      'PROXY_LOGIN_ADVICE',
    ],
    'remote/remote-stream': ['RemoteStream'],
    'remote/request-event': ['WatchedTry'],
    'tensor/chunks': ['CHUNKS_OPTIONS', 'chunkByteLength'],
    'tensor/partition': ['planPartition'],
    'tensor/take': [
      ...['fillNow', 'fillYielding', 'TAKE_ASYNC_OPTIONS', 'TAKE_OPTIONS'],
      ...['takeBytes', 'takeFloats'],
    ],
    'tensor/view-types': ['arraysOf', 'requireViewType', 'VIEW_OPTIONS'],
  }).map(([module, names]) => [
    join(root, 'src', `${module}.ts`),
    names
      .map((name) =>
        name.startsWith('import ')
          ? name
          : `export const ${name.includes(' = ') ? name : `${name} = undefined`};`,
      )
      .join(''),
  ]),
);

const LATE_IMPORT = /const (\{[^}]*\}) = await import\('([^']+)'\);/g;

/**
 * Imports at once what the library imports on first use: the page is one file, in which modules that load late are
 * wrapped in functions, a tenth of the whole.
 */
const early = {
  name: 'early',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path }) => {
      const text = LEFT_OUT.get(path) ?? readFileSync(path, 'utf8');
      const imports = Array.from(
        text.matchAll(LATE_IMPORT),
        ([, names, from]) => `import ${names} from '${from}';`,
      );
      return { contents: imports.join('') + text.replaceAll(LATE_IMPORT, ''), loader: 'ts' };
    });
  },
};

/** Bundles a file and returns the text, and the modules that it is made of. */
async function bundled(file, more = {}) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: [join(viewer, file)],
    alias: entries,
    bundle: true,
    format: 'iife',
    target: ['chrome120', 'firefox120', 'safari17'],
    charset: 'utf8',
    legalComments: 'none',
    minify: file.endsWith('.css'),
    plugins: [early],
    metafile: true,
    write: false,
    logLevel: 'warning',
    ...more,
  });
  const text = outputFiles[0].text.trim();
  return {
    text: file.endsWith('.css') ? text : minified(file, text),
    modules: Object.keys(metafile.inputs),
  };
}

/**
 * Two minifiers: each removes what the other leaves, and esbuild's leaves 10 kB more, compressed. The first inlines only
 * simple functions (1): with more of them the page is larger.
 */
function minified(file, text) {
  const { code: compressed } = minify_sync(text, {
    ...{ compress: { inline: 1, passes: 2 }, ecma: 2022, mangle: false },
  });
  const { code, errors } = minifySync(file, compressed, {
    compress: { target: 'es2022' },
    codegen: { removeWhitespace: true },
  });
  if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join('\n'));
  return code.trim();
}

/** Nothing inside an element of raw text may end it, or begin a comment that hides its end. */
function inlined(text) {
  return text.replaceAll(/<(?=\/(?:script|style)|!--|script)/gi, '\\x3c');
}

function hashOf(text) {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** Appends the licence of a bundled package to those that the package ships. */
function copyLicences(modules) {
  const names = new Set(
    modules.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []),
  );
  const folder = join(root, 'lib/licences');
  mkdirSync(folder, { recursive: true });
  for (const name of names) {
    const from = join(root, 'node_modules', name);
    const licence = readdirSync(from).find((file) => /^licen[cs]e/i.test(file));
    if (licence === undefined) throw new Error(`${name} is bundled, and has no licence text`);
    writeFileSync(
      join(folder, `${name.replaceAll('/', '-')}.txt`),
      readFileSync(join(from, licence)),
    );
  }
}

const page = await bundled('main.tsx', { jsx: 'automatic', jsxImportSource: 'preact' });
const style = await bundled('styles/page.css');

// A renamed module would be bundled whole.
const bundledPaths = new Set(page.modules.map((path) => join(root, path)));
for (const path of LEFT_OUT.keys()) {
  if (!bundledPaths.has(path))
    throw new Error(`LEFT_OUT has a module that is not bundled: ${path}`);
}
const [script, css] = [inlined(page.text), style.text];

const policy = [
  "default-src 'none'",
  `script-src ${hashOf(script)}`,
  `style-src ${hashOf(css)}`,
  'worker-src blob:',
  'img-src blob:',
  "connect-src 'self' https: http:",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types worker',
].join('; ');

const html = readFileSync(join(viewer, 'index.html'), 'utf8')
  .replace('POLICY', () => policy)
  .replace('/* STYLE */', () => css)
  .replace('/* SCRIPT */', () => script);
mkdirSync(join(root, 'lib/viewer'), { recursive: true });
writeFileSync(join(root, 'lib/viewer/index.html'), html);
// The package has only the compressed page, which is a third as long.
writeFileSync(join(root, 'lib/viewer/index.html.br'), brotliCompressSync(html));
copyLicences(page.modules);
