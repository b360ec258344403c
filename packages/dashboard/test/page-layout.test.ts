import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hasChromium } from '@mtl/tooling/chromium';
import type { AxeResults } from 'axe-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { measureBox, PageInChromium, whySkipped } from './page-in-chromium.js';
import { lines, type RunFolders, step, steps } from './run-folders.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const large = { width: 1440, height: 900 };
const phone = { width: 390, height: 844 };
const sizes = [
  ['1440x900', large],
  ['390x844', phone],
] as const;

/** Writes four runs, which cover all states that the page shows. */
function writeRuns(folders: RunFolders): void {
  const error = `MTL_NOT_FINITE: iteration 60: the loss is NaN in ${'/a/long/path'.repeat(8)}`;
  const ends = [
    [undefined],
    [{ reason: 'failed', error }],
    [undefined, { reason: 'done' }],
    [{ reason: 'done' }],
  ];
  for (const [at, name] of [
    'alive',
    'failed-at-last',
    'restarted',
    'a-name-that-is-too-long-for-the-list',
  ].entries()) {
    folders.record(name, { flags: { lr: 10 ** -at }, ends: ends[at]!, trainIterations: 120_000 });
    const spike = { type: 'spike', iteration: 40, action: 'skip', lm_loss: 12, lm_loss_limit: 8 };
    const validation = { type: 'validation', iteration: 60, lm_loss: 3 };
    const last = step(120_000, { skipped: true });
    const figures = { compute_ms: [40, 95], waited_ms: [60, 5], peak_bytes: [1024, 2048] };
    const ranks = { type: 'ranks', iteration: 60, hosts: ['a', 'b'], ...figures };
    folders.append(name, ...steps(1, 60), spike, validation, ranks, last);
    for (const of of [20, 40, 60]) folders.write(name, `iter_00000${of}/shard`, 'x');
    const texts = ['ROMEO: the', 'ROMEO: what light'];
    folders.write(
      name,
      'samples.jsonl',
      lines(texts.map((text, index) => ({ iteration: 20 * (index + 1), text }))),
    );
  }
}

describe.skipIf(!hasChromium)(`the layout of the page in Chromium${whySkipped}`, () => {
  const browser = new PageInChromium();
  beforeAll(() => browser.start());
  afterAll(() => browser.stop());
  afterEach(() => browser.close());

  async function open(size: { readonly width: number; readonly height: number }, query = ''): Promise<void> {
    await browser.page.setViewportSize(size);
    await browser.open(writeRuns, query);
    await browser.chart('peak_bytes').locator('strong').first().waitFor();
    await browser.page.getByRole('tabpanel').waitFor();
  }

  it.each(sizes)('of %s is no wider than the screen, and cuts no figure and no title', async (_, size) => {
    await open(size);
    const { page } = browser;
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(size.width);
    const cut = `[...document.querySelectorAll('.figures dd, h3, .values li, .toolbar *, .state')]
      .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
      .filter((one) => !one.matches('.visually-hidden'))
      .map((one) => one.textContent)`;
    expect(await page.evaluate(cut)).toEqual([]);
    // no part of a panel is outside of the panel
    const outside = `[...document.querySelectorAll('.chart')].flatMap((panel) => {
      const { left, right } = panel.getBoundingClientRect();
      return [...panel.querySelectorAll('figcaption *, .values *, canvas')]
        .map((one) => one.getBoundingClientRect())
        .filter((box) => box.width > 0 && (box.left < left - 1 || box.right > right + 1));
    }).length`;
    expect(await page.evaluate(outside)).toBe(0);
  });

  it.each(sizes)('of %s shows the numbers at the ends of axes whole', async (_, size) => {
    await open(size);
    // numbers that are cut off reach the last pixel of the canvas
    const inkAtEdges = `[...document.querySelectorAll('.chart canvas')].map((canvas) => {
      const context = canvas.getContext('2d');
      const ink = (left) => context.getImageData(left, 0, 1, canvas.height).data.some((value) => value > 0);
      return ink(0) || ink(canvas.width - 1);
    })`;
    expect(new Set((await browser.page.evaluate(inkAtEdges)) as boolean[])).toEqual(new Set([false]));
  });

  it('shows the first chart on the first screen of a phone', async () => {
    await open(phone);
    const box = await measureBox(browser.chart('lm_loss'));
    expect(box.y + box.height).toBeLessThanOrEqual(phone.height);
    expect(box.x + box.width).toBeLessThanOrEqual(phone.width);
  });

  it.each(['light', 'dark'] as const)(
    'has no fault that axe-core finds, contrast included, in %s',
    async (colorScheme) => {
      await browser.page.emulateMedia({ colorScheme });
      await open(large);
      for (const tab of ['Overview', 'Checkpoints', 'Samples', 'Events', 'Ranks', 'Configuration']) {
        await browser.page.getByRole('tab', { name: tab }).click();
        // the rest of the page is the same for all tabs
        const part = tab === 'Overview' ? 'document' : '"#tab-panel"';
        // the policy of the page refuses scripts added to it, but not scripts of a debugger
        await browser.page.evaluate(axe);
        const { violations } = (await browser.page.evaluate(`axe.run(${part})`)) as AxeResults;
        const found = violations.map(({ id, nodes }) => [
          id,
          nodes.map(({ html, failureSummary }) => [html.slice(0, 120), failureSummary]),
        ]);
        expect(found, tab).toEqual([]);
      }
    },
  );

  it('is reached by keyboard: runs, toolbar, charts and tabs, in this order', async () => {
    await open(large);
    const { page } = browser;
    const reached: string[] = [];
    await page.locator('.run .name').last().focus();
    for (let press = 0; press < 40; press++) {
      await page.keyboard.press('Tab');
      const what = `{
        const { activeElement: one } = document;
        one.name || one.role || one.className || one.textContent;
      }`;
      reached.push(String(await page.evaluate(what)));
    }
    const order = ['axis', 'scale', 'group', 'tab'].map((name) => reached.indexOf(name));
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(order[0]).toBe(0);
  });
});
