// Builds the site into site/build/html: `npm run site`, from the root.
//
// VitePress reads one folder of pages. They are copied into site/build/pages, with the paths of the repository, so that
// links between pages work; typedoc writes the reference into the same folder. `npm run site -- --serve` also serves
// the result. `SITE_BASE=/name/` builds a site that is not at the root of its host, `SITE_ORIGIN=https://host` sets the
// host in the addresses that social media need.

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

/** Modules, by the names of their files, which typedoc uses. */
const ENTRIES = ['index', 'inspect', 'hub'];
const importOf = (entry) => (entry === 'index' ? 'safetensors-mmap' : `safetensors-mmap/${entry}`);

rmSync(join(site, 'build'), { recursive: true, force: true });
if (!existsSync(join(site, 'node_modules')))
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], site);
copyPages();
await writeReference();
writeFrontPage();
const published = join(pages, 'public');
mkdirSync(join(published, 'view'), { recursive: true });
cpSync(join(root, 'lib/viewer/index.html'), join(published, 'view/index.html'));
for (const name of ['mark.svg', 'card.png']) cpSync(join(site, name), join(published, name));
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

/** Makes links to pages of the site relative; all other links lead to the repository. */
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

/** The docstrings of all entries, a page for each name, with all options of a function on its page. */
async function writeReference() {
  run(process.execPath, ['node_modules/typedoc/bin/typedoc', '--options', 'typedoc.json'], site);
  for (const file of filesBelow(reference)) {
    if (file.endsWith('.md')) writeFileSync(file, readable(readFileSync(file, 'utf8')));
  }
  // TypeScript is installed above.
  const { optionTables } = await import('./options.mjs');
  for (const entry of ENTRIES) {
    for (const [name, table] of optionTables(entry)) {
      const page = join(reference, entry, 'functions', `${name}.md`);
      // A function that another entry exports first has its page there.
      if (existsSync(page)) writeFileSync(page, withOptions(readFileSync(page, 'utf8'), table));
    }
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

/** A page of a function with its options: after the parameters, or after all signatures of an overloaded function. */
function withOptions(text, table) {
  const section = `## Options\n\n${table}\n`;
  return text.includes('\n## Returns\n')
    ? text.replace('\n## Returns\n', () => `\n${section}\n## Returns\n`)
    : `${text}\n${section}`;
}

/** A page of typedoc with the names of imports, and a single list of errors. */
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

/** The front page: site/front.md with the measured figures, the first program and the comparison of README.md. */
function writeFrontPage() {
  const readme = readFileSync(join(pages, 'README.md'), 'utf8');
  const front = readFileSync(join(site, 'front.md'), 'utf8');
  const sectionOf = (heading) => {
    const [, section] = new RegExp(`^(## ${heading}\\n[\\s\\S]*?)(?=^## )`, 'm').exec(readme) ?? [];
    if (section === undefined) throw new Error(`README.md has no section "${heading}"`);
    return section;
  };
  const comparison = sectionOf('Why not .+');
  const text = front
    // The source is one folder deeper than the page.
    .replaceAll('](../', '](')
    .replaceAll(/<!-- figure: (.+?) -->/g, (_, column) => figureOf(comparison, column))
    .replace('<!-- version -->', version)
    .replace('<!-- first program -->', sectionOf('First program'))
    .replace('<!-- comparison -->', comparison);
  mkdirSync(dirname(join(pages, 'index.md')), { recursive: true });
  writeFileSync(join(pages, 'index.md'), text);
  // Search results should lead to the guides, not to their summary.
  writeFileSync(join(pages, 'README.md'), `---\nsearch: false\n---\n\n${readme}`);
}

/** The cell of this package in a column of the table of README.md. */
function figureOf(section, column) {
  const rows = section.match(/^\|.*\|$/gm)?.map((row) => row.split('|').map((cell) => cell.trim()));
  const at = rows?.[0].findIndex((cell) => cell.startsWith(column)) ?? -1;
  const own = rows?.find((cells) => cells.includes('**safetensors-mmap**'));
  if (at === -1 || own === undefined) throw new Error(`README.md has no figure "${column}"`);
  return own[at].replaceAll('*', '');
}
