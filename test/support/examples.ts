/**
 * The examples of pages and docstrings: finds them, checks their types, runs them.
 *
 * An example is a block of ```ts or ```js in a Markdown page or in a doc comment. Its output is in a
 * ```text block right after it, or in its comments, one `// → ` for every line:
 *
 *     const file = safeOpen('model.safetensors');
 *     console.log(file.size); // → 2
 *     for (const name of file.keys()) console.log(name);
 *     // → embed.weight
 *     // → norm.weight
 *
 * An example of a docstring leaves out the import of the package's own names; it is added here.
 *
 * Every example runs in a new folder with the files of `example-models.ts`. A server has the same at
 * `https://models.example/`, an address that is replaced by its own before the example runs, and is the Hub.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import ts from 'typescript';
import { writeHubLists, writeModels } from './example-models.js';
import { childPath } from './run-child.js';
import { root } from './source-tree.js';
import { parse, walk } from './syntax.js';

/** A program that a reader can copy. */
export interface Example {
  /** Its page and heading. */
  readonly title: string;
  readonly code: string;
  /** Its output. */
  readonly output: string;
}

/** A function or class of a source file, or anything else that has a doc comment. */
export interface Declared {
  /** As in `safeOpen` or `Tensor.slice`. */
  readonly name: string;
  readonly isFunctionOrClass: boolean;
  /** The examples of its doc comment. */
  readonly examples: readonly Example[];
}

const FENCED_BLOCK = /^```(\w*)\n([\s\S]*?)^```$(?:\n+```text\n([\s\S]*?)^```$)?/gm;
const HEADING = /^#+ (.+)$/gm;
const PRINTED = /\/\/ → (.*)$/gm;

/** The languages of a text's fenced blocks, in order; '' for a block that names none. */
export function languagesIn(markdown: string): string[] {
  return Array.from(
    markdown.matchAll(/^```(\w*)\n[\s\S]*?^```$/gm),
    ([, language = '']) => language,
  );
}

/** The examples of a text, each named after the heading that it stands under. */
export function examplesIn(markdown: string, title: string): Example[] {
  const headings = [...markdown.matchAll(HEADING)];
  return Array.from(
    markdown.matchAll(FENCED_BLOCK),
    ({ 1: language, 2: code = '', 3: text, index }) => {
      const heading = headings.findLast((found) => found.index < index)?.[1];
      const output = text ?? Array.from(code.matchAll(PRINTED), ([, line]) => `${line}\n`).join('');
      return { language, title: [title, heading].filter(Boolean).join(': '), code, output };
    },
  ).filter(({ language }) => language === 'ts' || language === 'js');
}

/** The declarations of a source file, with the members of its classes. */
export function declaredIn(path: string): Declared[] {
  const found: Declared[] = [];
  walk(parse(path), (node) => {
    const isFunctionOrClass = ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node);
    const comments = ts.getJSDocCommentsAndTags(node).filter(({ parent }) => parent === node);
    if (!isFunctionOrClass && comments.length === 0) return;
    const owner = ts.isClassLike(node.parent) ? `${node.parent.name?.text}.` : '';
    const name = `${owner}${ts.getNameOfDeclaration(node as ts.Declaration)?.getText()}`;
    const markdown = comments
      .map((comment) => comment.getText().replaceAll(/^ *(?:\/\*\*|\*\/|\*) ?/gm, ''))
      .join('\n');
    found.push({ name, isFunctionOrClass, examples: examplesIn(markdown, `${path} ${name}`) });
  });
  return found;
}

/** Names that an entry exports, with the files that they come from. */
export function publicNames(entry = 'index'): Map<string, string> {
  const names = new Map<string, string>();
  for (const statement of parse(`src/${entry}.ts`).statements) {
    if (!ts.isExportDeclaration(statement) || !statement.moduleSpecifier) continue;
    const { text } = statement.moduleSpecifier as ts.StringLiteral;
    const own = OWN_MODULES.find((name) => text === `#${name}` || text === `./${name}.js`);
    const from = own === undefined ? undefined : publicNames(own);
    const path = posix.join('src', text).replace(/\.js$/, '.ts');
    const listed = statement.exportClause as ts.NamedExports | undefined;
    const exported = listed?.elements.map(({ name }) => name.text) ?? from?.keys() ?? [];
    for (const name of exported) names.set(name, from?.get(name) ?? path);
  }
  return names;
}

/** Modules next to the entries that re-export for them. */
const OWN_MODULES = ['runtime', 'types'];

/** The example of a docstring as a program, which imports what it uses, of the core where that has it. */
export function withImport(example: Example): Example {
  const isUsed = (name: string): boolean => RegExp(`\\b${name}\\b`).test(example.code);
  const imported = new Set<string>();
  const imports = [
    ['index', 'safetensors-mmap'],
    ['hub', 'safetensors-mmap/hub'],
    ['inspect', 'safetensors-mmap/inspect'],
  ].map(([entry, module]) => {
    const names = [...publicNames(entry).keys()].filter(
      (name) => isUsed(name) && !imported.has(name),
    );
    for (const name of names) imported.add(name);
    return names.length > 0 ? `import { ${names.join(', ')} } from '${module}';\n` : '';
  });
  return { ...example, code: imports.join('') + example.code };
}

/** The options of a careful reader's project. */
const COMPILER_OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  skipLibCheck: true,
};

/** Where examples find models. */
const MODELS = 'https://models.example/';

/** A server for the files of a folder, on this machine alone; it knows ranges. */
function serve(folder: string): Server {
  const server = createServer((request, response) => {
    let bytes: Buffer;
    try {
      bytes = readFileSync(join(folder, new URL(request.url ?? '', MODELS).pathname));
    } catch {
      response.writeHead(404, { 'X-Error-Code': 'EntryNotFound' }).end();
      return;
    }
    const { range } = request.headers;
    if (range === undefined) {
      response.writeHead(200).end(bytes);
      return;
    }
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    const begin = Number(first);
    const end = Math.min(Number(last) + 1, bytes.length);
    response.writeHead(206, { 'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}` });
    response.end(bytes.subarray(begin, end));
  });
  return server.listen(0, '127.0.0.1');
}

/** The process that runs examples. */
class Runner {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;

  constructor(env: NodeJS.ProcessEnv) {
    this.#child = spawn(process.execPath, [childPath('package/children/run-examples.mjs')], {
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** The output of the program in a folder; throws when it fails. */
  async run(folder: string): Promise<string> {
    this.#child.stdin.write(`${folder}\n`);
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error(`the process of the example in ${folder} ended`);
    const { printed, error } = JSON.parse(value) as { printed: string; error?: string };
    if (error !== undefined) throw new Error(`${error}\n${printed}`);
    return printed;
  }

  end(): void {
    this.#child.kill();
  }
}

/** Installs the compiled package into a folder. */
function installPackage(folder: string): void {
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/safetensors-mmap'), 'dir');
  symlinkSync(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'), 'dir');
}

/** The compiler's messages about examples. */
export function typeErrors(examples: readonly Example[]): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-examples-'));
  try {
    installPackage(folder);
    const paths = examples.map((_, i) => join(folder, `example-${i}.mts`));
    for (const [i, path] of paths.entries()) writeFileSync(path, examples[i]?.code ?? '');
    const program = ts.createProgram(paths, COMPILER_OPTIONS);
    return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
      const title = examples[paths.indexOf(file?.fileName ?? '')]?.title ?? file?.fileName;
      const line = file?.text.slice(0, start).split('\n').length;
      return `${title}, line ${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A folder in which the compiled package is installed, with a folder for every example that runs. */
export class ExampleProject {
  readonly folder: string = mkdtempSync(join(tmpdir(), 'safetensors-mmap-examples-'));
  readonly #server: Server;
  #runner: Runner | undefined;
  #count = 0;

  constructor() {
    this.#server = serve(join(this.folder, 'models'));
    installPackage(this.folder);
    const models = join(this.folder, 'models');
    writeModels(models);
    cpSync(join(models, 'my-model'), join(models, 'org/name/resolve/main'), { recursive: true });
    const onHub = join(models, 'org/pipeline/resolve/main');
    cpSync(join(models, 'my-pipeline'), onHub, { recursive: true });
    for (const id of ['org/name', 'org/pipeline']) writeHubLists(models, id);
  }

  /**
   * Runs an example without its types, which Node 20 does not know; returns its output. One process runs all but
   * those that are about their process, such as its environment.
   */
  async run(example: Example): Promise<string> {
    const compilerOptions = { ...COMPILER_OPTIONS, module: ts.ModuleKind.ESNext };
    const { outputText } = ts.transpileModule(example.code, { compilerOptions });
    const cwd = join(this.folder, String(this.#count++));
    writeModels(cwd);
    const { port } = this.#server.address() as AddressInfo;
    const server = `http://127.0.0.1:${port}/`;
    writeFileSync(join(cwd, 'example.mjs'), outputText.replaceAll(MODELS, server));
    const env = { ...process.env, HF_ENDPOINT: server, HF_HUB_OFFLINE: '' };
    const needsOwn = /\bprocess\b/.test(example.code);
    const runner = needsOwn ? new Runner(env) : (this.#runner ?? new Runner(env));
    // Unless it fails: a program that never ends must not block the next.
    this.#runner = needsOwn ? this.#runner : undefined;
    try {
      const printed = await runner.run(cwd);
      if (!needsOwn) this.#runner = runner;
      return printed;
    } finally {
      if (this.#runner !== runner) runner.end();
    }
  }

  /** Ends the server, and removes the folder. */
  remove(): void {
    this.#runner?.end();
    this.#server.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
