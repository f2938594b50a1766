/** The pages of the site and their order. `site/build.mjs` copies them into `srcDir`. */
import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitepress';
import { stackedTables } from './tables.mjs';

const { version, description, homepage } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
);
const reference = JSON.parse(
  readFileSync(new URL('../build/pages/reference/typedoc-sidebar.json', import.meta.url), 'utf8'),
);

const base = process.env.SITE_BASE ?? '/';
/** Social media need complete addresses. */
const site = new URL(base, process.env.SITE_ORIGIN ?? 'https://example.org').href;

/** A link of the sidebar to a page of docs/. */
const doc = (text, name) => ({ text, link: `/docs/${name}` });

const guides = [
  {
    text: 'Start',
    items: [
      doc('Getting started', 'getting-started'),
      doc('Which call', 'which-call'),
      doc('Coming from Python', 'from-python'),
    ],
  },
  {
    text: 'Guides',
    items: [
      doc('Reading and slicing', 'reading'),
      doc('Writing, sharding, converting', 'writing'),
      doc('PyTorch, NumPy and GGUF files', 'other-formats'),
      doc('Quantized checkpoints', 'quantized'),
      doc('Remote and Hub', 'remote'),
      doc('Servers and memory', 'servers'),
      doc('Bundlers and runtimes', 'bundlers'),
      doc('Command line and viewer', 'cli'),
      { text: 'Example programs', link: '/examples/README' },
    ],
  },
  {
    text: 'Reference',
    items: [
      { text: 'API', link: '/reference/' },
      doc('Errors', 'errors'),
      doc('Guarantees, limits, security, platforms', 'guarantees'),
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
  },
  {
    text: 'For contributors',
    collapsed: true,
    items: [
      { text: 'Contributing', link: `${homepage}/blob/main/.github/CONTRIBUTING.md` },
      { text: 'Architecture', link: '/ARCHITECTURE' },
      { text: 'Native code', link: '/native/README' },
      { text: 'The format', link: '/src/header/README' },
      { text: 'All measurements', link: '/benchmarks/results/results' },
    ],
  },
];

/** Anchors as GitHub computes them, so that links work in both places. */
function slugify(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}

/** Pages whose tables need the width of the outline. */
const WIDE = new Set(['docs/which-call.md', 'docs/from-python.md']);

/** Pages whose outline lists sections only: error codes are too long for it. */
const SECTIONS_ONLY = new Set(['docs/errors.md']);

export default defineConfig({
  title: 'safetensors-mmap',
  description,
  base,
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}mark.svg` }],
    ['meta', { property: 'og:type', content: 'website' }],
    ['meta', { property: 'og:site_name', content: 'safetensors-mmap' }],
    ['meta', { property: 'og:image', content: `${site}card.png` }],
    ['meta', { property: 'og:image:width', content: '1200' }],
    ['meta', { property: 'og:image:height', content: '630' }],
    ['meta', { property: 'og:image:alt', content: 'Model weights in Node, without a copy' }],
    ['meta', { name: 'twitter:card', content: 'summary_large_image' }],
  ],
  transformHead: ({ pageData, title, description: content }) => [
    ['meta', { property: 'og:title', content: title }],
    ['meta', { property: 'og:description', content }],
    [
      'meta',
      {
        property: 'og:url',
        content: `${site}${pageData.relativePath.replace(/(?:index)?\.md$/, (end) => (end === 'index.md' ? '' : '.html'))}`,
      },
    ],
  ],
  srcDir: 'build/pages',
  outDir: 'build/html',
  cacheDir: 'build/cache',
  cleanUrls: false,
  lastUpdated: false,
  markdown: { anchor: { slugify }, toc: { slugify }, config: (md) => md.use(stackedTables) },
  transformPageData(page) {
    if (WIDE.has(page.relativePath)) page.frontmatter['aside'] = false;
    if (SECTIONS_ONLY.has(page.relativePath)) page.frontmatter['outline'] = 2;
  },
  vite: { build: { chunkSizeWarningLimit: 4000 } },
  themeConfig: {
    logo: { src: '/mark.svg', alt: '' },
    nav: [
      { text: 'Guide', link: '/docs/getting-started', activeMatch: '^/(docs|README|examples)' },
      { text: 'Reference', link: '/reference/', activeMatch: '^/reference/' },
      { text: 'Viewer', link: '/view/index.html', target: '_self' },
      { text: version, link: '/CHANGELOG' },
    ],
    sidebar: { '/reference/': reference, '/': guides },
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    socialLinks: [{ icon: 'git', link: homepage, ariaLabel: 'repository' }],
  },
});
