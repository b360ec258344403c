import { hasChromium, openChromium } from '@mtl/tooling/chromium';
import type { BrowserContext, Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { type Dashboard, openDashboard } from '../src/open-dashboard.js';
import { RunFolders } from './run-folders.js';

export const whySkipped = hasChromium ? '' : ' (skipped: chromium is not installed)';
/**
 * Waits until an element exists and returns its box: the page replaces a chart when it reads more of a run,
 * and between two charts there is none.
 */
export async function measureBox(
  element: Locator,
): Promise<NonNullable<Awaited<ReturnType<Locator['boundingBox']>>>> {
  let box = await element.boundingBox();
  await expect
    .poll(async () => {
      box ??= await element.boundingBox();
      return box;
    })
    .not.toBeNull();
  return box!;
}

/** The page in a browser, showing run folders that a test writes. */
export class PageInChromium {
  readonly #problems: string[] = [];
  #browser: BrowserContext | undefined;
  #page: Page | undefined;
  #folders: RunFolders | undefined;
  #dashboard: Dashboard | undefined;

  get page(): Page {
    return this.#page!;
  }

  get folders(): RunFolders {
    return this.#folders!;
  }

  get url(): string {
    return this.#dashboard!.url;
  }

  async start(): Promise<void> {
    this.#browser = await openChromium({ viewport: { width: 1300, height: 900 } });
    const page = this.#browser.pages()[0]!;
    // the same limit as the polls of expect; Playwright's default is half of it
    page.setDefaultTimeout(60_000);
    page.on('console', (message) => {
      if (message.type() === 'error') this.#problems.push(message.text());
    });
    page.on('pageerror', ({ message }) => this.#problems.push(message));
    this.#page = page;
  }

  async stop(): Promise<void> {
    await this.#browser?.close();
  }

  async open(write: (folders: RunFolders) => void, query = ''): Promise<void> {
    this.#folders = new RunFolders();
    write(this.#folders);
    this.#dashboard = await openDashboard({ directory: this.#folders.path, port: 0, pollMs: 50 });
    await this.page.goto(`${this.url}${query}`);
  }

  /** After each test. */
  async close(): Promise<void> {
    await this.page.goto('about:blank');
    await this.#dashboard?.close();
    this.#folders?.dispose();
    // the problems include violations of the page's policy
    expect(this.#problems.splice(0)).toEqual([]);
  }

  chart(name: string): Locator {
    return this.page.locator(`[data-chart="${name}"]`);
  }

  run(name: string): Locator {
    return this.page.locator('.run', { hasText: name });
  }

  /** Returns the CSS property of the colour that a run has in the list. */
  async findColour(name: string): Promise<string> {
    const classes = await this.run(name).getByRole('checkbox').getAttribute('class');
    return `--run-${/colour-(\d)/.exec(classes ?? '')?.[1]}`;
  }

  /** Returns the number of pixels of a chart in the colour of a run or of a property. */
  async countPixels(name: string, of: string): Promise<number> {
    const property = of.startsWith('--') ? of : await this.findColour(of);
    return await this.page.evaluate(`{
      const canvas = document.querySelector('[data-chart="${name}"] canvas');
      const wanted = getComputedStyle(document.documentElement).getPropertyValue('${property}').trim();
      const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(wanted.slice(at, at + 2), 16));
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) {
        if (data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255) count += 1;
      }
      count;
    }`);
  }

  /** Returns the distance from the highest to the lowest pixel of a run's colour. */
  async measureHeight(name: string, of: string): Promise<number> {
    const property = await this.findColour(of);
    return await this.page.evaluate(`{
      const canvas = document.querySelector('[data-chart="${name}"] canvas');
      const wanted = getComputedStyle(document.documentElement).getPropertyValue('${property}').trim();
      const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(wanted.slice(at, at + 2), 16));
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const rows = [];
      for (let at = 0; at < data.length; at += 4) {
        if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) rows.push(Math.floor(at / 4 / canvas.width));
      }
      rows.length === 0 ? 0 : rows.at(-1) - rows[0] + 1;
    }`);
  }

  /** Returns the number of pixels within a plot, where curves are, in the colour of a mark. */
  async inkAbove(name: string, prefix: string): Promise<number> {
    return await this.page.evaluate(`{
      const canvas = document.querySelector('[data-chart="${name}"] canvas');
      const over = document.querySelector('[data-chart="${name}"] .u-over');
      const style = getComputedStyle(document.documentElement);
      const wanted = ['quiet', 'note', 'grave'].map((kind) => style.getPropertyValue('${prefix}' + kind).trim());
      const height = Math.round(Number.parseFloat(over.style.height) * devicePixelRatio);
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) {
        const hex = '#' + [0, 1, 2].map((of) => data[at + of].toString(16).padStart(2, '0')).join('');
        if (data[at + 3] === 255 && wanted.includes(hex)) count += 1;
      }
      count;
    }`);
  }
}
