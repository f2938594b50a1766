/** Links of pages lead to files of the repository and of the package. */
import { posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { filesBelow, textOf } from '../support/source-tree.js';

const files = filesBelow('.');
const pages = files.filter((path) => path.endsWith('.md'));
const { files: listed, homepage } = JSON.parse(textOf('package.json')) as {
  files: readonly string[];
  homepage: string;
};

/** Whether the package contains the file: the last entry of `files` that covers it decides. */
function isPacked(path: string): boolean {
  const always = ['README.md', 'LICENSE', 'package.json'];
  const covers = (entry: string): boolean => path === entry || path.startsWith(`${entry}/`);
  const last = [...always, ...listed].findLast((entry) => covers(entry.replace('!', '')));
  return last?.startsWith('!') === false;
}

/** The page without its code, in which brackets mean something else. */
function proseOf(page: string): string {
  return textOf(page)
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .replaceAll(/`[^`\n]*`/g, (code) => '`'.repeat(code.length));
}

/** The anchors of a page's headings, as web pages of repositories make them. */
function anchorsOf(page: string): Set<string> {
  const headings = textOf(page)
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .matchAll(/^#+ (.+)$/gm);
  const anchorOf = (heading: string): string =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
  return new Set(Array.from(headings, ([, heading = '']) => anchorOf(heading)));
}

interface Link {
  readonly page: string;
  readonly link: string;
  readonly isPicture: boolean;
}

/** The reason why a link is broken, if it is. */
function objection({ page, link, isPicture }: Link): string | undefined {
  const inRepository = `${homepage}/blob/main/`;
  const isFull = link.startsWith(inRepository);
  if (/^https:\/\//.test(link) && !isFull) return undefined;
  const [path = '', anchor] = link.replace(inRepository, '').split('#');
  const relative = path === '' ? page : posix.join(posix.dirname(page), path);
  const target = isFull ? path : relative;
  const where = `${page}: ${link}`;
  if (!files.some((file) => file === target || file.startsWith(`${target}/`)))
    return `${where} does not exist`;
  if (isPacked(page) && isFull === isPacked(target) && !isPicture)
    return `${where} is${isFull ? '' : ' not'} in the package`;
  if (anchor !== undefined && !anchorsOf(target).has(anchor)) return `${where} has no such heading`;
  return undefined;
}

describe('links', () => {
  // The package leaves some pictures out.
  it('lead to existing files and headings: relative to packed files, in full to the others', () => {
    const links = pages.flatMap((page): Link[] =>
      Array.from(proseOf(page).matchAll(/(!?)\[[^\]]*\]\(([^)\s]+)\)/g), ([, mark, link = '']) => ({
        page,
        link,
        isPicture: mark === '!',
      })),
    );
    expect(links.length).toBeGreaterThan(100);
    expect(links.map(objection).filter((text) => text !== undefined)).toEqual([]);
  });
});
