// Builds the site into site/build/html: `npm run site`, from the root.
//
// VitePress takes one folder of pages. They are copied into site/build/pages, at the paths that they have in the
// repository, so that links between them hold; typedoc writes the reference beside them. `npm run site -- --serve`
// then serves what was built. `SITE_BASE=/name/` is for a site that is not at the root of its host.

import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const site = fileURLToPath(new URL('.', import.meta.url));
const root = join(site, '..');
const pages = join(site, 'build/pages');
const reference = join(pages, 'reference');
const { version, homepage } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Folders and files of the repository that hold pages and the pictures in them. */
const COPIED = [
  ...['README.md', 'CHANGELOG.md', 'ARCHITECTURE.md', 'docs', 'examples', 'native/README.md'],
  ...['src/header/README.md', 'benchmarks/results'],
];

/** What import names the modules that typedoc names after their files. */
const ENTRIES = ['index', 'inspect', 'hub'];
const importOf = (entry) => (entry === 'index' ? 'safetensors-mmap' : `safetensors-mmap/${entry}`);

rmSync(join(site, 'build'), { recursive: true, force: true });
if (!existsSync(join(site, 'node_modules')))
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], site);
copyPages();
writeReference();
writeFrontPage();
mkdirSync(join(pages, 'public/view'), { recursive: true });
cpSync(join(root, 'lib/viewer/index.html'), join(pages, 'public/view/index.html'));
run(process.execPath, ['node_modules/vitepress/bin/vitepress.js', 'build', '.'], site);
if (process.argv.includes('--serve'))
  run(process.execPath, ['node_modules/vitepress/bin/vitepress.js', 'preview', '.'], site);

function run(command, parameters, cwd) {
  const { status } = spawnSync(command, parameters, { cwd, stdio: 'inherit' });
  if (status !== 0) throw new Error(`${command} ${parameters.join(' ')} ended with ${status}`);
}

function filesBelow(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

function copyPages() {
  for (const path of COPIED.filter((entry) => existsSync(join(root, entry)))) {
    cpSync(join(root, path), join(pages, path), {
      recursive: true,
      filter: (source) => !/[\\/](?:node_modules|\.next|build|docs[\\/]internals)$/.test(source),
    });
  }
  for (const file of filesBelow(pages)) {
    if (!/\.(?:md|svg|png)$/.test(file)) rmSync(file);
    else if (file.endsWith('.md')) {
      const page = relative(pages, file).replaceAll('\\', '/');
      writeFileSync(file, withLinks(readFileSync(file, 'utf8'), page));
    }
  }
}

/** Makes links to pages of the site relative, and lets all others lead to the repository. */
function withLinks(text, page) {
  const repository = `${homepage}/blob/main/`;
  const inProse = (prose) =>
    prose.replace(/\]\(([^)#\s]+)((?:#[^)\s]*)?)\)/g, (link, path, anchor) => {
      const isFull = path.startsWith(repository);
      if (/^[a-z]+:/.test(path) && !isFull) return link;
      const target = isFull ? path.slice(repository.length) : posix.join(posix.dirname(page), path);
      return existsSync(join(pages, target)) && /\.\w+$/.test(target)
        ? `](${posix.relative(posix.dirname(page), target)}${anchor})`
        : `](${repository}${target}${anchor})`;
    });
  // Code between backticks or fences stays as it is; `{{` would be Vue's.
  return text
    .split(/(^```[\s\S]*?^```$|`[^`\n]*`)/m)
    .map((part, i) => (i % 2 === 0 ? inProse(part) : part))
    .join('');
}

/** The docstrings of all entries, a page for each name. */
function writeReference() {
  run(process.execPath, ['node_modules/typedoc/bin/typedoc', '--options', 'typedoc.json'], site);
  for (const file of filesBelow(reference)) {
    if (file.endsWith('.md')) writeFileSync(file, readable(readFileSync(file, 'utf8')));
  }
  const rows = ENTRIES.map((entry) => {
    const text = readFileSync(join(reference, entry, 'index.md'), 'utf8');
    const [, sentence = ''] = /^# .+\n\n([\s\S]+?)\n\n/m.exec(text) ?? [];
    return `| [\`${importOf(entry)}\`](${entry}/index.md) | ${sentence.replaceAll('\n', ' ')} |`;
  });
  writeFileSync(
    join(reference, 'index.md'),
    `# Reference\n\nEvery exported name of version ${version}, from its docstring.\n\n| import from | for |\n|---|---|\n${rows.join('\n')}\n`,
  );
  const sidebar = JSON.parse(readFileSync(join(reference, 'typedoc-sidebar.json'), 'utf8'));
  const named = ENTRIES.map((entry) => {
    const group = sidebar.find(({ text }) => text === entry);
    return { ...group, text: importOf(entry) };
  });
  writeFileSync(join(reference, 'typedoc-sidebar.json'), JSON.stringify(named));
}

/** A page of typedoc with the names of imports, and one list of what is thrown. */
function readable(text) {
  const named = text
    .replace(/^# (\w+)$/m, (heading, name) =>
      ENTRIES.includes(name) ? `# ${importOf(name)}` : heading,
    )
    .replace(/^(\[Reference\]\([^)]*\) \/ )(?:\[(\w+)\]|(\w+)$)/m, (_, before, link, last) =>
      link === undefined ? before + importOf(last) : `${before}[${importOf(link)}]`,
    );
  return named.replace(/(?:^(#+) Throws\n\n(?:(?!^#)[^\n]*\n)+\n?)+/gm, (block, level) => {
    const sentences = block.split(/^#+ Throws\n\n/m).slice(1);
    const items = sentences.map((sentence) => `- ${sentence.trim().replaceAll('\n', '\n  ')}\n`);
    return `${level} Throws\n\n${items.join('')}\n`;
  });
}

/** The front page: what it is, then the first program and the comparison of README.md. */
function writeFrontPage() {
  const readme = readFileSync(join(pages, 'README.md'), 'utf8');
  const front = readFileSync(join(site, 'front.md'), 'utf8');
  const sectionOf = (heading) => {
    const [, section] = new RegExp(`^(## ${heading}\\n[\\s\\S]*?)(?=^## )`, 'm').exec(readme) ?? [];
    if (section === undefined) throw new Error(`README.md has no section "${heading}"`);
    return section;
  };
  const text = front
    // It lies a folder deeper here than there.
    .replaceAll('](../', '](')
    .replace('<!-- version -->', version)
    .replace('<!-- first program -->', sectionOf('First program'))
    .replace('<!-- comparison -->', sectionOf('Why not .+'));
  mkdirSync(dirname(join(pages, 'index.md')), { recursive: true });
  writeFileSync(join(pages, 'index.md'), text);
  // Searches shall find the guides, not the summary of them.
  writeFileSync(join(pages, 'README.md'), `---\nsearch: false\n---\n\n${readme}`);
}
