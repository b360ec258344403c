import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { hasChromium } from '@mtl/tooling/chromium';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { SeriesAnswer } from '../src/api-types.js';
import { measureBox, PageInChromium, whySkipped } from './page-in-chromium.js';
import { step, steps } from './run-folders.js';

describe.skipIf(!hasChromium)(`what the page shows of curves, in Chromium${whySkipped}`, () => {
  const browser = new PageInChromium();
  beforeAll(() => browser.start());
  afterAll(() => browser.stop());
  afterEach(() => browser.close());

  it('zooms by mouse and by keyboard, smooths, and has other axes and scales', async () => {
    await browser.open((all) => {
      all.record('long');
      const noisy = Array.from({ length: 3000 }, (_, at) =>
        step(at + 1, { lm_loss: at === 1500 ? 50 : 3 + (at % 2) }),
      );
      all.append('long', ...noisy);
    });
    const value = () => browser.chart('lm_loss').locator('strong').textContent();
    await expect.poll(value).toBe('4');
    const box = await measureBox(browser.chart('lm_loss').locator('.u-over'));
    await browser.page.mouse.move(box.x + box.width * 0.25, box.y + 50);
    await browser.page.mouse.down();
    await browser.page.mouse.move(box.x + box.width * 0.5, box.y + 50, { steps: 3 });
    await browser.page.mouse.up();
    const reset = browser.page.getByRole('button', { name: 'Reset zoom' });
    await expect.poll(() => reset.isEnabled()).toBe(true);
    await browser.page.mouse.move(box.x + box.width - 2, box.y + 50);
    // the right edge is now half of the run, give or take a pixel
    await expect
      .poll(async () =>
        Number((await browser.chart('lm_loss').locator('.place').textContent())?.replace(/\D/g, '')),
      )
      .toBeGreaterThan(1400);
    expect(
      Number((await browser.chart('lm_loss').locator('.place').textContent())?.replace(/\D/g, '')),
    ).toBeLessThan(1520);
    await browser.page.mouse.move(0, 0);
    await browser.chart('lm_loss').locator('.plot').focus();
    await browser.page.keyboard.press('Escape');
    await expect.poll(() => reset.isEnabled()).toBe(false);
    await browser.page.keyboard.press('+');
    await expect.poll(() => reset.isEnabled()).toBe(true);
    await reset.click();
    const before = await browser.countPixels('lm_loss', 'long');
    await browser.page.getByRole('slider', { name: 'Smoothing' }).fill('80');
    // a moving average of 3 and 4 is a line, where the values fill the space between them
    await expect.poll(() => browser.countPixels('lm_loss', 'long')).toBeLessThan(before / 2);
    await expect.poll(value).toMatch(/^3\.[45]/);
    await browser.page.getByText('Log', { exact: true }).click();
    await browser.page.getByText('Tokens', { exact: true }).click();
    await expect.poll(() => browser.page.getByRole('radio', { name: 'Tokens' }).isChecked()).toBe(true);
    expect(await browser.chart('lm_loss').locator('.plot').getAttribute('aria-label')).toMatch(
      /^Training loss, last values: long 3\./,
    );
  });

  it('keeps what is shown in its address, which shows the same where it is opened', async () => {
    await browser.open((all) => {
      for (const name of ['a&b', 'c, d', 'third']) {
        all.record(name);
        all.append(name, ...steps(1, 60));
      }
    });
    await browser.chart('lm_loss').waitFor();
    expect(new URL(browser.page.url()).search).toBe('');
    await browser.run('third').getByRole('checkbox').uncheck();
    await browser.run('c, d').locator('.name').click();
    await browser.page.getByText('Tokens', { exact: true }).click();
    await browser.page.getByText('Log', { exact: true }).click();
    await browser.page.getByRole('slider', { name: 'Smoothing' }).fill('50');
    await browser.page.getByRole('checkbox', { name: 'Events', exact: true }).uncheck();
    await browser.chart('lm_loss').locator('.plot').focus();
    await browser.page.keyboard.press('+');
    const query = () => Object.fromEntries(new URL(browser.page.url()).searchParams);
    await expect.poll(query).toMatchObject({ focus: 'c, d', axis: 'tokens', scale: 'log', events: 'off' });
    const { search } = new URL(browser.page.url());
    // the steps are 2,048 tokens: a quarter of the range from each side
    await expect.poll(query).toMatchObject({ from: '32256', to: '92672' });
    const shown = () =>
      browser.page.evaluate(`({
        runs: [...document.querySelectorAll('.run :checked')].map((one) => one.ariaLabel),
        focus: document.querySelector('.run.focused .name').textContent,
        chosen: [...document.querySelectorAll('.segments :checked')].map((one) => one.value),
        smoothing: document.querySelector('.slider output').textContent,
        place: document.querySelector('.reset').disabled,
      })`);
    const before = await shown();
    expect(before).toEqual({
      runs: ['Curves of a&b', 'Curves of c, d'],
      focus: 'c, d',
      chosen: ['tokens', 'log'],
      smoothing: '0.968',
      place: false,
    });
    await browser.page.goto('about:blank');
    await browser.page.goto(`${browser.url}${search}`);
    await browser.chart('lm_loss').waitFor();
    expect(await shown()).toEqual(before);
    expect(new URL(browser.page.url()).search).toBe(search);
  });

  it('gives a run the same colour whatever else is there', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `run-${index}`);
    await browser.open((all) => {
      for (const [at, name] of names.entries()) {
        all.record(name, { startedAt: `2026-11-22T10:00:0${at}.000Z` });
        all.append(name, ...steps(1, 50));
      }
    });
    await browser.chart('lm_loss').waitFor();
    const looks = () =>
      browser.page.evaluate<Record<string, string>>(
        `Object.fromEntries([...document.querySelectorAll('.run')].map((one) =>
          [one.querySelector('.name').textContent, one.querySelector('input').className]))`,
      );
    const before = await looks();
    // eight have a colour of their own, two are dashed
    expect(new Set(Object.values(before)).size).toBe(10);
    expect(Object.values(before).filter((one) => one.includes('dash-1')).length).toBe(2);
    await browser.run('run-9').getByRole('checkbox').uncheck();
    await browser.run('run-3').getByRole('checkbox').uncheck();
    await browser.run('run-3').getByRole('checkbox').check();
    rmSync(join(browser.folders.path, 'run-9'), { recursive: true });
    browser.folders.record('run-new', { startedAt: '2026-11-22T11:00:00.000Z' });
    await browser.run('run-new').waitFor();
    await expect.poll(() => browser.run('run-9').count()).toBe(0);
    const { 'run-9': _, ...kept } = before;
    expect(await looks()).toMatchObject(kept);
    await browser.page.reload();
    await browser.run('run-new').waitFor();
    expect(await looks()).toMatchObject(kept);
  });

  it('scales a chart for most values: a run that diverged leaves the others their height', async () => {
    const query = '?run=good&run=diverged';
    await browser.open((all) => {
      const loss = (at: number): number => 2 + 6 / Math.sqrt(at);
      for (const name of ['good', 'diverged']) {
        all.record(name);
        const isGood = name === 'good';
        all.append(
          name,
          ...steps(1, 200).map((one, at) => ({
            ...one,
            lm_loss: isGood || at < 60 ? loss(at + 1) : 1.2 ** at,
          })),
        );
      }
    }, query);
    const beyond = browser.chart('lm_loss').locator('.beyond');
    await expect.poll(() => beyond.textContent()).toMatch(/^up to 5\.\d+e15 not shown$/);
    const height = () => browser.measureHeight('lm_loss', 'good');
    // from near the bottom of the plot to near its top
    await expect.poll(height).toBeGreaterThan(100);
    await browser.page.getByText('All', { exact: true }).click();
    await expect.poll(height).toBeLessThan(10);
    await expect.poll(() => beyond.textContent()).toBe('');
  });

  /** Opens eight runs: two have losses far below the others; the newest has high losses. */
  async function openEight(query = ''): Promise<void> {
    await browser.open((all) => {
      const ends = [0.05, 0.2, 7, 6, 5, 4, 4.5, 8];
      for (const [number, end] of ends.entries()) {
        const name = `${end < 1 ? 'tuned' : 'base'}-${number}`;
        const flags = { lr: 10 ** -number, 'num-layers': 2 ** (number >> 1), 'adam-beta2': number % 2 };
        const startedAt = `2026-11-22T1${number}:00:00.000Z`;
        all.record(name, {
          flags: { ...flags, 'tokenizer-model': `/models/tokenizers/byte-pairs-${number}.tokenizer.json` },
          startedAt,
        });
        all.append(name, ...steps(1, 100).map((one, at) => ({ ...one, lm_loss: end * (1 + 1 / (at + 1)) })));
      }
    }, query);
    await browser.chart('peak_bytes').locator('strong').first().waitFor();
  }

  it('shows the curves of all runs whose losses are very different, the focused one too', async () => {
    await openEight();
    for (const name of ['base-2', 'base-3', 'base-4', 'base-5', 'base-6', 'base-7']) {
      await expect.poll(() => browser.countPixels('lm_loss', name), { message: name }).toBeGreaterThan(100);
    }
    expect(await browser.page.title()).toBe('finished, step 100: 8.08 training loss · base-7 · mtl watch');
    const heads = browser.page.locator('.differences tbody th');
    expect(await heads.allTextContents()).toEqual([
      '--lr',
      '--num-layers',
      '--adam-beta2',
      '--tokenizer-model',
    ]);
  });

  it('breaks long values between words', async () => {
    await openEight();
    // the lines of a value, by the top of each of its letters
    const linesOfValue = `[...document.querySelectorAll('.differences tr:last-child td .value')].map((value) => {
      const lines = new Map();
      for (const node of value.childNodes) {
        for (let at = 0; at < (node.data ?? '').length; at++) {
          const range = document.createRange();
          range.setStart(node, at);
          range.setEnd(node, at + 1);
          const { top } = range.getBoundingClientRect();
          lines.set(top, (lines.get(top) ?? '') + node.data[at]);
        }
      }
      return [...lines.values()];
    })`;
    const lines = () => browser.page.evaluate<string[][]>(linesOfValue);
    await expect.poll(async () => (await lines()).length).toBe(8);
    // where columns have room for a word, and where they have not
    for (const width of [1300, 900]) {
      await browser.page.setViewportSize({ width, height: 900 });
      const ends = (await lines()).flatMap((ofValue) => ofValue.slice(0, -1));
      expect(ends.length).toBeGreaterThan(8);
      for (const end of ends) expect(end).toMatch(/[/.-]$/);
    }
    await browser.page.setViewportSize({ width: 1300, height: 900 });
  });

  it('filters charts as well as the list, and says where nothing matches', async () => {
    await openEight();
    const filter = browser.page.getByRole('searchbox', { name: 'Filter runs by name' });
    await filter.fill('tuned');
    await expect.poll(() => browser.page.locator('.run').count()).toBe(2);
    const values = browser.chart('lm_loss').locator('.values li');
    await expect.poll(() => values.count()).toBe(2);
    expect(new URL(browser.page.url()).searchParams.get('filter')).toBe('tuned');
    await filter.fill('nothing');
    const text = 'No run has “nothing” in its name. Clear the filter to see all runs.';
    await expect.poll(() => browser.page.getByText(text).count()).toBe(2);
    expect(await browser.page.locator('[data-chart]').count()).toBe(0);
    await filter.fill('');
    await expect.poll(() => values.count()).toBe(8);
    await browser.page.getByRole('tab', { name: 'Configuration' }).click();
    const flags = browser.page.getByRole('searchbox', { name: 'Filter flags' });
    await flags.fill('nothing');
    await browser.page.getByText('No flag, value or condition has “nothing” in it').waitFor();
    // typed text stays while the run continues
    browser.folders.append('base-7', ...steps(101, 102));
    await browser.run('base-7').getByText('102 / 100').waitFor();
    await expect.poll(() => values.first().textContent()).toBe('2.594');
    expect(await flags.inputValue()).toBe('nothing');
    await flags.fill('lr');
    await browser.page.getByRole('row', { name: '--lr' }).last().waitFor();
    expect(await browser.page.getByText('No flag, value').isVisible()).toBe(false);
  });

  it('sorts a long list of runs a few times at a change, however many there are', async () => {
    const numRuns = 60;
    await browser.open((all) => {
      for (let at = 0; at < numRuns; at += 1) all.append(`run-${at}`, step(1));
    });
    await expect.poll(() => browser.page.locator('.run').count()).toBe(numRuns);
    // a sort of runs that the server sent in order takes a comparison for each, of time and of name
    const numComparisons = await browser.page.evaluate<number>(`{
      const { localeCompare } = String.prototype;
      let count = 0;
      String.prototype.localeCompare = function (...values) {
        count += 1;
        return localeCompare.apply(this, values);
      };
      document.querySelector('.run input').click();
      String.prototype.localeCompare = localeCompare;
      count;
    }`);
    const numSorts = numComparisons / (2 * numRuns);
    expect(numSorts).toBeGreaterThan(1);
    // 13 as written; 195 where the list sorts again for each run
    expect(numSorts).toBeLessThan(30);
  });

  it('draws throughput and step time as a median in its band', async () => {
    await browser.open((all) => {
      all.record('noisy');
      const noisy = steps(1, 400).map((one, at) => ({
        ...one,
        step_ms: at === 200 ? 60_000 : 540 + 10 * (at % 3),
      }));
      all.append('noisy', ...noisy);
    });
    // one step of a minute neither moves the line nor the scale
    await expect.poll(() => browser.chart('step_ms').locator('strong').textContent()).toBe('550');
    await expect.poll(() => browser.measureHeight('step_ms', 'noisy')).toBeLessThan(20);
    const url = `${browser.url}api/runs/noisy/series?names=step_ms,lm_loss&bands=step_ms`;
    const { series } = (await (await fetch(url)).json()) as SeriesAnswer;
    expect(Math.max(...series.step_ms!.band!.high.map(Number))).toBeLessThanOrEqual(600);
    expect(series.lm_loss!.band).toBeNull();
  });
});
