/** The main thread stays free while people drag over a heat map, and scroll and search 100 000 tensors. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, serve, show, viewOf } from '../../support/viewer-page.js';

const COUNT = 100_000;
const MOVES = 60;

/** Work in one step that people notice. At 60 frames a second there are 16 ms: the figures that are printed tell. */
const MAX_WORK_MS = 50;

/** What the main thread did while something happened. */
interface Work {
  readonly frames: number;
  /** Milliseconds of processor time for one step, in the middle of all. */
  readonly median: number;
  readonly greatest: number;
}

/**
 * Does steps one after the other, each until the next frame is drawn, and tells what the page's thread worked in each:
 * processor time, which other programs of the machine do not change.
 */
async function workOf(page: Page, steps: readonly (() => Promise<void>)[]): Promise<Work> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const taskMs = async (): Promise<number> => {
    const { metrics } = await session.send('Performance.getMetrics');
    const value = metrics.find(({ name }) => name === 'TaskDuration')?.value;
    return (value as number) * 1000;
  };
  const works: number[] = [];
  for (const step of steps) {
    const before = await taskMs();
    await step();
    await page.evaluate('new Promise(requestAnimationFrame)');
    works.push((await taskMs()) - before);
  }
  await session.detach();
  works.sort((a, b) => a - b);
  return {
    frames: works.length,
    median: works[Math.floor(works.length / 2)] as number,
    greatest: works.at(-1) as number,
  };
}

function print(what: string, work: Work): void {
  process.stdout.write(`${what}: ${JSON.stringify(work)}\n`);
}

it('dragging over a heat map takes less than people notice', async () => {
  const path = join(folderUntilEnd(), 'large.safetensors');
  writeFileSync(path, fileBytes([{ name: 'a', dtype: 'BF16', shape: [2048, 2048] }]));
  const server = await serve(path);
  const { page } = await show(viewOf(server, 'open=large.safetensors&tensor=a'));
  await page.getByText(/^Sampled: 1 of/).waitFor();
  const map = page.getByRole('application');
  await map.scrollIntoViewIfNeeded();
  await map.focus();
  for (const key of ['+', '+']) await page.keyboard.press(key);
  await page.waitForLoadState('networkidle');
  const box = await map.boundingBox();
  if (box === null) throw new Error('there is no heat map');
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  const work = await workOf(
    page,
    Array.from({ length: MOVES }, (_, at) => () => page.mouse.move(x - 3 * at, y - 2 * at)),
  );
  await page.mouse.up();
  print('drag', work);
  expect(work.median).toBeLessThan(MAX_WORK_MS);
});

it('scrolling and searching 100 000 tensors takes less than people notice', async () => {
  const path = join(folderUntilEnd(), 'many.safetensors');
  const entries = Array.from({ length: COUNT }, (_, at) => ({
    name: `model.layers.${Math.floor(at / 100)}.part.${at % 100}.weight`,
    dtype: 'U8' as const,
    shape: [1],
  }));
  writeFileSync(path, fileBytes(entries));
  const server = await serve(path);
  const { page } = await show(viewOf(server, 'open=many.safetensors&sort=offset'));
  const rows = page.getByRole('tree', { name: 'Tensors', exact: true });
  await rows.getByRole('treeitem').first().waitFor();
  await page.waitForLoadState('networkidle');
  const scrolled = await workOf(
    page,
    Array.from({ length: MOVES }, (_, at) => async () => {
      const steps = at % 2 === 0 ? 600 : 100_000;
      await rows.evaluate((tree, by) => {
        (tree as unknown as { scrollTop: number }).scrollTop += by;
      }, steps);
    }),
  );
  print('scroll', scrolled);
  expect(scrolled.median).toBeLessThan(MAX_WORK_MS);
  const search = page.getByRole('searchbox');
  const typed = await workOf(
    page,
    [...'layers 77 weight'].map((letter) => () => search.press(letter)),
  );
  print('search', typed);
  expect(typed.median).toBeLessThan(MAX_WORK_MS);
  await page.getByText(/^\d[\d,]* found$/).waitFor();
});
