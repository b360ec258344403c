import { join } from 'node:path';
import { hasTransformersJs } from '@mtl/tooling/ask-transformers-js';
import { hasChromium } from '@mtl/tooling/chromium';
import { reportEngine } from '@mtl/tooling/report-engine';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readAccessibilityTree } from './support/accessibility-tree.js';
import { ModelPage } from './support/model-page.js';
import { temporaryDirectory } from './support/temporary-directory.js';
import { trainTinyGpt } from './support/train-tiny-gpt.js';
import { writeChatModel, writePage } from './support/write-page.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const isAnswered = /^\d+ tokens?\b/;
const keys = 'Ctrl and Enter generate, Escape stops.';

/** Keeps all that a screen reader may read aloud: each new status, and each text that the answers get. */
const listen = `
  window.heard = [];
  new MutationObserver((records) => {
    for (const { type, target, addedNodes } of records) {
      const element = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
      if (element.id === 'status') heard.push(element.textContent);
      else if (type !== 'childList') heard.push(...(element.ariaHidden ? [] : [element.textContent]));
      else for (const added of addedNodes) if (!added.ariaHidden) heard.push(added.textContent);
    }
  }).observe(document.querySelector('main'), {
    subtree: true, childList: true, characterData: true, attributeFilter: ['aria-hidden'],
  });`;

const focusedId = async (page: Page): Promise<string> => await page.evaluate('document.activeElement.id');
const status = async (page: Page): Promise<string> => (await page.locator('#status').textContent()) ?? '';

/** Presses a key until the focus is on an element. */
async function moveTo(page: Page, id: string, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
  for (let count = 0; count < 12; count++) {
    if ((await focusedId(page)) === id) return;
    await page.keyboard.press(key);
  }
  throw new Error(`${key} does not reach ${id}`);
}

const skipped = '(it needs chromium, and npm run dev -- transformers-js)';

describe.skipIf(!hasTransformersJs || !hasChromium)(
  `a page, by keyboard and screen reader ${skipped}`,
  () => {
    const [continuing, conversing] = [new ModelPage(), new ModelPage()];
    let page: Page;
    let chat: Page;

    beforeAll(async () => {
      // long texts, so that an answer can be stopped
      const { save } = await trainTinyGpt(directory.path, { maxPositionEmbeddings: 2048 });
      const model = join(directory.path, 'chat-model');
      await writeChatModel(model, save);
      page = await continuing.open(await writePage(join(directory.path, 'page'), '--load', save));
      chat = await conversing.open(await writePage(join(directory.path, 'chat'), '--load-hf', model));
      for (const opened of [page, chat]) await opened.getByText(/^Ready\.$/).waitFor();
      reportEngine('transformers.js');
    }, 300_000);

    afterAll(async () => {
      await continuing.close();
      await conversing.close();
    });

    beforeEach(async () => {
      await page.evaluate('document.activeElement.blur(); getSelection().removeAllRanges()');
    });

    it.each([
      ['light', 390],
      ['dark', 390],
      ['light', 1280],
      ['dark', 1280],
    ] as const)(
      'names every control and fits (%s, %i px)',
      async (colorScheme, width) => {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 844 });
        const elements = await readAccessibilityTree(page);
        const controls = elements
          .filter(({ role }) => !['sectionheader', 'paragraph', 'main', 'form'].includes(role))
          .map(({ role, name, description, states }) => {
            const { live, busy, disabled, checked, required, valuetext, valuemin, valuemax } = states;
            const told = { live, busy, disabled, checked, required, valuetext, valuemax };
            const own = Object.entries(told).filter(([, value]) => value !== undefined && value !== false);
            expect(role === 'slider' ? valuemin : 0.1).toBeCloseTo(0.1);
            return [
              role,
              name,
              { ...(description === '' ? {} : { description }), ...Object.fromEntries(own) },
            ];
          });
        expect(controls).toEqual([
          ['heading', 'run', {}],
          ['log', 'Answers', { live: 'polite' }],
          ['status', '', { live: 'polite' }],
          ['textbox', 'Text to continue', { description: keys, required: true }],
          ['group', 'Settings', {}],
          ['checkbox', 'Sample', { checked: 'true' }],
          ['slider', 'Temperature', { valuetext: '0.8', valuemax: 2 }],
          ['spinbutton', 'Most tokens', { required: true, valuetext: '100', valuemax: 2047 }],
          ['button', 'Generate', {}],
          ['button', 'Stop', { disabled: true }],
        ]);
        expect(elements.find(({ role }) => role === 'status')).toMatchObject({
          text: 'Ready.',
          states: { atomic: true },
        });
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
        // the whole page is in sight, and each control is large enough for a finger
        for (const control of await page.locator('textarea, input, button:not([hidden])').all()) {
          const box = (await control.boundingBox())!;
          expect(Math.min(box.width, box.height)).toBeGreaterThanOrEqual(20);
          expect(box.x).toBeGreaterThanOrEqual(0);
          expect(box.x + box.width).toBeLessThanOrEqual(width);
          expect(box.y + box.height).toBeLessThanOrEqual(844);
        }
      },
      120_000,
    );

    it('is walked through by Tab in the order of the page', async () => {
      const walk = async (): Promise<string[]> => {
        const found: string[] = [];
        await page.evaluate('document.activeElement.blur()');
        await page.locator('h1').click();
        for (let count = 0; count < 5; count++) {
          await page.keyboard.press('Tab');
          found.push(await focusedId(page));
        }
        return found;
      };
      expect(await walk()).toEqual(['text', 'sample', 'temperature', 'length', 'generate']);
      await moveTo(page, 'temperature', 'Shift+Tab');
      await page.keyboard.press('ArrowRight');
      await moveTo(page, 'sample', 'Shift+Tab');
      const slider = (await readAccessibilityTree(page)).find(({ role }) => role === 'slider')!;
      expect(slider.states.valuetext).toBe('0.9');
      expect(await page.locator('#temperature-value').textContent()).toBe('0.9');
      // without sampling there is no temperature
      await page.keyboard.press('Space');
      expect((await walk()).slice(1, 3)).toEqual(['sample', 'length']);
    }, 120_000);

    it('tells the end of an answer once, and no single token', async () => {
      await page.getByLabel('Text to continue').fill('the cat number');
      await page.getByLabel('Most tokens').fill('12');
      await page.evaluate(listen);
      await moveTo(page, 'generate');
      await page.keyboard.press('Enter');
      await page.getByText(isAnswered).waitFor();
      const answer = await page.locator('#output p').last().textContent();
      expect(await page.evaluate('heard')).toEqual(['Answering…', answer, await status(page)]);
      expect(await status(page)).toMatch(/^12 tokens, [\d.]+ tokens a second\.$/);
      const paragraphs = (await readAccessibilityTree(page)).filter(({ role }) => role === 'paragraph');
      expect(paragraphs.map(({ text }) => text)).toContain(answer);
      expect(await focusedId(page)).toBe('text');
    }, 120_000);

    it.each([
      ['the button Stop, whose focus goes to the text', 'stop', 'Enter', 'text'],
      ['Escape, which leaves the focus', 'length', 'Escape', 'length'],
    ])(
      'is stopped by %s',
      async (_, from, key, to) => {
        await page.getByLabel('Text to continue').fill('the cat number');
        await page.getByLabel('Most tokens').fill('2000');
        await moveTo(page, 'generate');
        await page.keyboard.press('Enter');
        await page.locator('#output[aria-busy=true] p[aria-hidden=true]').waitFor();
        expect(await focusedId(page)).toBe('stop');
        const log = (await readAccessibilityTree(page)).find(({ role }) => role === 'log')!;
        expect(Boolean(log.states.busy)).toBe(true);
        // earlier answers alone
        const earlier = await page.locator('#output p:not([aria-hidden])').allTextContents();
        expect(log.text).toBe(earlier.join(''));
        await moveTo(page, from, 'Shift+Tab');
        await page.keyboard.press(key);
        await page.getByText(isAnswered).waitFor();
        const count = Number.parseInt(await status(page), 10);
        expect(count).toBeGreaterThan(0);
        expect(count).toBeLessThan(2000);
        expect(await focusedId(page)).toBe(to);
      },
      120_000,
    );

    it('shows the end of long answers, and scrolls by keys to the start', async () => {
      await page.getByLabel('Text to continue').fill('the cat number '.repeat(120));
      await page.getByLabel('Most tokens').fill('2');
      await page.getByRole('button', { name: 'Generate' }).click();
      await page.getByText(/^2 tokens\b/).waitFor();
      const scrolled =
        'output.scrollTop > 0 && output.scrollHeight - output.scrollTop - output.clientHeight < 2';
      expect(await page.evaluate(scrolled)).toBe(true);
      await moveTo(page, 'output', 'Shift+Tab');
      await page.keyboard.press('Home');
      await expect.poll(() => page.evaluate('output.scrollTop')).toBe(0);
    }, 120_000);

    it('tells who wrote a message, and that a conversation is new', async () => {
      await chat.getByLabel('Most tokens').fill('4');
      await chat.getByLabel('Message').fill('sat');
      await chat.keyboard.press('Control+Enter');
      await chat.getByText(isAnswered).waitFor();
      const [, answer] = await chat.locator('#output p').allTextContents();
      const texts = (await readAccessibilityTree(chat))
        .filter(({ role }) => role === 'paragraph')
        .map(({ text }) => text);
      expect(texts).toContain('You: sat');
      expect(texts).toContain(`Answer: ${answer}`);
      expect(await focusedId(chat)).toBe('text');
      await moveTo(chat, 'restart');
      await chat.keyboard.press('Enter');
      expect(await status(chat)).toBe('A new conversation.');
      expect(await focusedId(chat)).toBe('text');
    }, 120_000);
  },
);
