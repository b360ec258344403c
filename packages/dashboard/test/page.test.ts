import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { prepareCorpus } from '@mtl/recipes/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { type BrowserContext, chromium, type Page, type Request } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { SeriesAnswer, TraceAnswer } from '../src/api-types.js';
import { type Dashboard, openDashboard } from '../src/open-dashboard.js';
import type { TrainInStagesArgument } from './ranks/train-in-stages.js';
import { RunFolders, step, steps } from './run-folders.js';

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync) ?? '';
const whySkipped = executablePath === '' ? ' (skipped: chromium is not installed)' : '';
const args = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

describe.skipIf(executablePath === '')(`the page in Chromium${whySkipped}`, () => {
  const profile = mkdtempSync(join(tmpdir(), 'mtl-chromium-'));
  const problems: string[] = [];
  let browser: BrowserContext;
  let page: Page;
  let folders: RunFolders;
  let dashboard: Dashboard;

  beforeAll(async () => {
    browser = await chromium.launchPersistentContext(profile, {
      executablePath,
      args,
      viewport: { width: 1300, height: 900 },
    });
    page = browser.pages()[0]!;
    // as long as the polls of expect: Playwright waits for half of it by itself
    page.setDefaultTimeout(60_000);
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    page.on('pageerror', ({ message }) => problems.push(message));
  });
  afterAll(async () => {
    await browser.close();
    rmSync(profile, { recursive: true, force: true });
  });
  afterEach(async () => {
    await page.goto('about:blank');
    await dashboard.close();
    folders.dispose();
    // among them what the page's policy refuses
    expect(problems.splice(0)).toEqual([]);
  });

  async function open(write: (folders: RunFolders) => void, query = ''): Promise<void> {
    folders = new RunFolders();
    write(folders);
    dashboard = await openDashboard({ directory: folders.path, port: 0, pollMs: 50 });
    await page.goto(`${dashboard.url}${query}`);
  }

  const chart = (name: string) => page.locator(`[data-chart="${name}"]`);
  const run = (name: string) => page.locator('.run', { hasText: name });

  /** The property of the colour that a run has in the list. */
  async function colourOf(name: string): Promise<string> {
    const classes = await run(name).getByRole('checkbox').getAttribute('class');
    return `--run-${/colour-(\d)/.exec(classes ?? '')?.[1]}`;
  }

  /** How many pixels of a chart have a colour: that of a run, or of a property. */
  async function pixelsOf(name: string, of: string): Promise<number> {
    const property = of.startsWith('--') ? of : await colourOf(of);
    return await page.evaluate(`{
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

  /** From the highest to the lowest pixel of a run's colour. */
  async function heightOf(name: string, of: string): Promise<number> {
    const property = await colourOf(of);
    return await page.evaluate(`{
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

  /** How many pixels within a plot, where curves are, have the colour of a mark. */
  async function inkAbove(name: string, prefix: string): Promise<number> {
    return await page.evaluate(`{
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

  it('waits for runs, and draws their curves while they train', async () => {
    await open(() => {});
    await page.getByText('No run here yet').waitFor();
    folders.record('fresh', { ends: [undefined] });
    await page.getByText('No step is done yet').waitFor();
    folders.append('fresh', ...steps(1, 10));
    await expect.poll(() => chart('lm_loss').locator('strong').textContent()).toBe('3.897');
    await expect.poll(() => pixelsOf('lm_loss', 'fresh')).toBeGreaterThan(50);
    folders.append('fresh', step(11, { lm_loss: 1.25 }), { type: 'validation', iteration: 11, lm_loss: 1.5 });
    await expect.poll(() => chart('lm_loss').locator('strong').textContent()).toBe('1.25');
    await expect.poll(() => chart('validation.lm_loss').locator('strong').textContent()).toBe('1.5');
    const charts = await page
      .locator('[data-chart]')
      .evaluateAll((all) => all.map((one) => one.getAttribute('data-chart')));
    expect(charts).toEqual([
      ...[
        'lm_loss',
        'validation.lm_loss',
        'grad_norm',
        'learning_rate',
        'tokens_per_s',
        'step_ms',
        'peak_bytes',
      ],
    ]);
    expect(await chart('tokens_per_s').locator('strong').textContent()).toBe('4.1k · 0.1 TFLOP/s');
    expect(await page.locator('.connection').textContent()).toBe('live');
  });

  it('compares runs by colour, and shows what differs', async () => {
    await open((all) => {
      all.record('slow', {
        flags: { lr: 0.001, seed: 1, load: 'there' },
        startedAt: '2026-11-22T10:00:00.000Z',
      });
      all.record('fast', { flags: { lr: 0.01, seed: 1 }, startedAt: '2026-11-22T11:00:00.000Z' });
      all.append('slow', ...steps(1, 50));
      all.append(
        'fast',
        ...Array.from({ length: 50 }, (_, at) => step(at + 1, { lm_loss: 2 + 1 / (at + 1) })),
      );
    });
    await expect
      .poll(() => chart('lm_loss').locator('.legend li').allTextContents())
      .toEqual(['fast2.02', 'slow2.849']);
    for (const name of ['fast', 'slow']) {
      await expect.poll(() => pixelsOf('lm_loss', name)).toBeGreaterThan(50);
    }
    const rows = page.locator('section', { hasText: 'What differs' }).locator('tbody tr');
    await expect.poll(() => rows.allTextContents()).toEqual(['--lr0.010.001']);
    await run('slow').getByRole('checkbox').uncheck();
    await expect.poll(() => chart('lm_loss').locator('.legend li').allTextContents()).toEqual(['fast2.02']);
    await expect.poll(() => pixelsOf('lm_loss', 'slow')).toBe(0);
    expect(await rows.first().isVisible()).toBe(false);
  });

  it('shows errors and restarts, checkpoints, samples, ranks and the configuration of a run', async () => {
    await open((all) => {
      const error = 'MTL_NOT_FINITE: iteration 20: loss NaN';
      all.record('broken', {
        flags: { lr: 5 },
        ends: [undefined, { reason: 'failed', error }],
        worldSize: 2,
      });
      const figures = { compute_ms: [40, 95], waited_ms: [60, 5], peak_bytes: [1024, 2048] };
      all.append(
        'broken',
        ...steps(1, 20),
        { type: 'ranks', iteration: 20, hosts: ['a', 'b'], ...figures },
        { type: 'slow_rank', iteration: 20, rank: 1, is_slow: true },
      );
      const losses = [3, 2, 2.1, 2.2, 2.3, 2.4, 2.5];
      const validation = losses.map((lm_loss, at) => ({ type: 'validation', iteration: at + 1, lm_loss }));
      all.append('broken', ...validation);
      all.write('broken', 'iter_0000010/shard', 'x'.repeat(2048));
      const sample = {
        label: 'A sample',
        text: 'A sample:\nWhat light',
        prompt: 'What',
        completion: ' light',
      };
      all.write('broken', 'samples.jsonl', `${JSON.stringify({ iteration: 20, ...sample })}\n`);
    });
    await run('broken').getByText('failed').waitFor();
    const details = page.getByRole('region', { name: 'Details of a run' });
    await details.getByText('MTL_NOT_FINITE: iteration 20: loss NaN').waitFor();
    const texts = [
      'its process was killed',
      'Went on from step 10',
      'What light',
      'the validation loss has been rising since step 2',
      'Rank 1 on b: slower than the others',
      '2 KiB',
    ];
    for (const text of texts) await details.getByText(text).first().waitFor();
    await details.getByText('step 20 · A sample').waitFor();
    await expect.poll(() => details.locator('.sample span').allTextContents()).toEqual(['What', ' light']);
    await details.getByText('Configuration').click();
    await details.getByRole('row', { name: '--lr 5' }).waitFor();
  });

  it('marks what happened in the focused run below its curves, names it where the pointer is, and lists it', async () => {
    await open((all) => {
      const error = 'MTL_NOT_FINITE: iteration 20: <b>loss</b> NaN';
      all.record('marked', {
        ends: [undefined, { reason: 'failed', error }],
        startedAt: '2026-11-22T11:00:00.000Z',
      });
      const skipped = [8, 14].map((at) => step(at, { skipped: true }));
      all.append(
        'marked',
        ...[...steps(1, 7), skipped[0]!, ...steps(9, 13), skipped[1]!, ...steps(15, 20)],
        { type: 'spike', iteration: 8, action: 'skip', lm_loss: 12 },
        { type: 'spike', iteration: 12, action: 'update', lm_loss: 11 },
        { type: 'roll_back', iteration: 16, checkpoint_iteration: 5 },
      );
      all.write('marked', 'iter_0000005/shard', 'x');
      all.record('other', { startedAt: '2026-11-22T10:00:00.000Z' });
      all.append('other', ...steps(1, 20));
      all.write('other', 'iter_0000012/shard', 'x');
    });
    const expected = [
      'step 20: MTL_NOT_FINITE: iteration 20: <b>loss</b> NaN',
      'step 16: went back to the checkpoint of step 5',
      'step 14: step without an update',
      'step 10: started again on here',
      'step 8: spike: loss 12; its update was skipped',
      'step 5: checkpoint saved',
    ];
    for (const property of ['quiet', 'note', 'grave']) {
      const pixels = () => pixelsOf('lm_loss', `--mark-${property}`);
      await expect.poll(pixels, { message: property }).toBeGreaterThan(10);
    }
    expect(await inkAbove('lm_loss', '--mark-')).toBe(0);
    const box = (await chart('lm_loss').locator('.u-over').boundingBox())!;
    // the axis is from step 1 to step 20
    const to = async (iteration: number) =>
      await page.mouse.move(box.x + ((iteration - 1) / 19) * box.width, box.y + 60);
    await to(8);
    const labels = page.locator('.mark-label:visible');
    await expect.poll(() => labels.allTextContents()).toEqual([expected[4]]);
    // below the plot and its axis, where it hides no curve
    expect((await labels.boundingBox())!.y).toBeGreaterThan(box.y + box.height);
    await to(12);
    await expect.poll(() => labels.count()).toBe(0);
    await page.getByText('Events of marked: 6').click();
    const list = page.getByRole('list', { name: 'Events' });
    expect(await list.getByRole('listitem').allTextContents()).toEqual(expected);
    await page.getByRole('checkbox', { name: 'Reported spikes' }).check();
    await page.getByText('Events of marked: 7').waitFor();
    await to(12);
    await expect
      .poll(() => labels.allTextContents())
      .toEqual(['step 12: spike: loss 11; its update was kept']);
    await run('other').locator('.name').click();
    await page.getByText('Events of other: 1').waitFor();
    await page.getByRole('checkbox', { name: 'Events', exact: true }).uncheck();
    await expect.poll(() => pixelsOf('lm_loss', '--mark-quiet')).toBe(0);
    expect(await list.isVisible()).toBe(false);
  });

  it('folds events that stand close together into their count, and tells of them in three lines', async () => {
    await open((all) => {
      all.record('dense');
      all.append('dense', ...steps(1, 1000).map((one, at) => ({ ...one, skipped: at >= 496 && at < 500 })));
      for (const at of [498, 502]) all.write('dense', `iter_0000${at}/shard`, 'x');
    });
    await expect.poll(() => pixelsOf('lm_loss', '--mark-note')).toBeGreaterThan(30);
    const box = (await chart('lm_loss').locator('.u-over').boundingBox())!;
    await page.mouse.move(box.x + 0.5 * box.width, box.y + box.height + 8);
    const label = page.locator('.mark-label:visible p');
    await expect
      .poll(() => label.allTextContents())
      .toEqual([
        'steps 497 to 502:',
        '4 steps without an update, 2 checkpoints',
        'step 497: step without an update',
      ]);
  });

  it('draws the curve of two ranks while they train, the steps that they profile, and the simulated one', async () => {
    await open(() => {});
    const asked: string[] = [];
    const note = (request: Request): number => asked.push(new URL(request.url()).pathname);
    page.on('request', note);
    const flags = [
      ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '32', '--num-attention-heads', '4'],
      ...['--seq-length', '32', '--max-position-embeddings', '32', '--micro-batch-size', '1'],
      ...['--global-batch-size', '4', '--lr', '1e-3', '--train-iters', '14', '--eval-iters', '0'],
      ...['--threads', '1', '--pipeline-model-parallel-size', '2', '--profile-steps', '2', '3'],
      ...['--save', join(folders.path, 'stages'), ...(await prepareCorpus(folders.path))],
    ];
    const waits = { iteration: 13, file: join(folders.path, 'seen') };
    const argument: TrainInStagesArgument = { flags, waits };
    const training = runInMemoryRanks({
      worldSize: 2,
      argument,
      ...rankThreads(new URL('./ranks/train-in-stages.ts', import.meta.url)),
    });
    // while the run is in its thirteenth step, until the file is there
    await expect.poll(() => run('stages').textContent()).toContain('step 12 / 14');
    await expect.poll(() => pixelsOf('lm_loss', 'stages')).toBeGreaterThan(50);
    expect(await run('stages').textContent()).toMatch(/running.*step 12 \/ 14/);
    writeFileSync(waits.file, '');
    await training;
    const timeline = page.locator('section', { hasText: 'Timeline of a step' }).last();
    const text =
      /^Pipeline 0, the median of 2 profiled steps: measured \S+ ms, bubble .+ simulated .+ ms, bubble/;
    await timeline.getByText(text).waitFor();
    const picture = timeline.getByRole('img', { name: text });
    const width = () =>
      picture.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth);
    await expect.poll(width).toBeGreaterThan(100);
    const url = `${dashboard.url}api/runs/stages/trace`;
    const drawn = await (await fetch(`${url}/0.svg`)).text();
    for (const name of ['measured', 'simulated']) expect(drawn).toContain(name);
    const { pipelines } = (await (await fetch(url)).json()) as TraceAnswer;
    expect(pipelines).toMatchObject([{ pipeline: 0, numSteps: 2 }]);
    // the trace was written once, and the run went on for eleven steps
    page.off('request', note);
    expect(asked.filter((path) => path.endsWith('/trace'))).toEqual(['/api/runs/stages/trace']);
  });

  it('zooms by mouse and by keyboard, smooths, and has other axes and scales', async () => {
    await open((all) => {
      all.record('long');
      const noisy = Array.from({ length: 3000 }, (_, at) =>
        step(at + 1, { lm_loss: at === 1500 ? 50 : 3 + (at % 2) }),
      );
      all.append('long', ...noisy);
    });
    const value = () => chart('lm_loss').locator('strong').textContent();
    await expect.poll(value).toBe('4');
    const box = (await chart('lm_loss').locator('.u-over').boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 50, { steps: 3 });
    await page.mouse.up();
    const reset = page.getByRole('button', { name: 'Reset zoom' });
    await expect.poll(() => reset.isEnabled()).toBe(true);
    await page.mouse.move(box.x + box.width - 2, box.y + 50);
    // the right edge is now half of the run, give or take a pixel
    await expect
      .poll(async () => Number((await chart('lm_loss').locator('.place').textContent())?.replace(/\D/g, '')))
      .toBeGreaterThan(1400);
    expect(Number((await chart('lm_loss').locator('.place').textContent())?.replace(/\D/g, ''))).toBeLessThan(
      1520,
    );
    await page.mouse.move(0, 0);
    await chart('lm_loss').locator('.plot').focus();
    await page.keyboard.press('Escape');
    await expect.poll(() => reset.isEnabled()).toBe(false);
    await page.keyboard.press('+');
    await expect.poll(() => reset.isEnabled()).toBe(true);
    await reset.click();
    const before = await pixelsOf('lm_loss', 'long');
    await page.getByRole('slider', { name: 'Smoothing' }).fill('80');
    // a moving average of 3 and 4 is a line, where the values fill the space between them
    await expect.poll(() => pixelsOf('lm_loss', 'long')).toBeLessThan(before / 2);
    await expect.poll(value).toMatch(/^3\.[45]/);
    await page.getByText('Log', { exact: true }).click();
    await page.getByText('Tokens', { exact: true }).click();
    await expect.poll(() => page.getByRole('radio', { name: 'Tokens' }).isChecked()).toBe(true);
    expect(await chart('lm_loss').locator('.plot').getAttribute('aria-label')).toMatch(
      /^Training loss, last values: long 3\./,
    );
  });

  it('keeps what is shown in its address, which shows the same where it is opened', async () => {
    await open((all) => {
      for (const name of ['a&b', 'c, d', 'third']) {
        all.record(name);
        all.append(name, ...steps(1, 60));
      }
    });
    await chart('lm_loss').waitFor();
    expect(new URL(page.url()).search).toBe('');
    await run('third').getByRole('checkbox').uncheck();
    await run('c, d').locator('.name').click();
    await page.getByText('Tokens', { exact: true }).click();
    await page.getByText('Log', { exact: true }).click();
    await page.getByRole('slider', { name: 'Smoothing' }).fill('50');
    await page.getByRole('checkbox', { name: 'Events', exact: true }).uncheck();
    await chart('lm_loss').locator('.plot').focus();
    await page.keyboard.press('+');
    const query = () => Object.fromEntries(new URL(page.url()).searchParams);
    await expect.poll(query).toMatchObject({ focus: 'c, d', axis: 'tokens', scale: 'log', events: 'off' });
    const { search } = new URL(page.url());
    // the steps are 2,048 tokens: a quarter of the range from each side
    await expect.poll(query).toMatchObject({ from: '32256', to: '92672' });
    const shown = () =>
      page.evaluate(`({
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
    await page.goto('about:blank');
    await page.goto(`${dashboard.url}${search}`);
    await chart('lm_loss').waitFor();
    expect(await shown()).toEqual(before);
    expect(new URL(page.url()).search).toBe(search);
  });

  it('gives a run the same colour whatever else is there', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `run-${index}`);
    await open((all) => {
      for (const [at, name] of names.entries()) {
        all.record(name, { startedAt: `2026-11-22T10:00:0${at}.000Z` });
        all.append(name, ...steps(1, 50));
      }
    });
    await chart('lm_loss').waitFor();
    const looks = () =>
      page.evaluate<Record<string, string>>(
        `Object.fromEntries([...document.querySelectorAll('.run')].map((one) =>
          [one.querySelector('.name').textContent, one.querySelector('input').className]))`,
      );
    const before = await looks();
    // eight have a colour of their own, two are dashed
    expect(new Set(Object.values(before)).size).toBe(10);
    expect(Object.values(before).filter((one) => one.includes('dash-1')).length).toBe(2);
    await run('run-9').getByRole('checkbox').uncheck();
    await run('run-3').getByRole('checkbox').uncheck();
    await run('run-3').getByRole('checkbox').check();
    rmSync(join(folders.path, 'run-9'), { recursive: true });
    folders.record('run-new', { startedAt: '2026-11-22T11:00:00.000Z' });
    await run('run-new').waitFor();
    await expect.poll(() => run('run-9').count()).toBe(0);
    const { 'run-9': _, ...kept } = before;
    expect(await looks()).toMatchObject(kept);
    await page.reload();
    await run('run-new').waitFor();
    expect(await looks()).toMatchObject(kept);
  });

  it('scales a chart for most values: a run that diverged leaves the others their height', async () => {
    const query = '?run=good&run=diverged';
    await open((all) => {
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
    const beyond = chart('lm_loss').locator('.beyond');
    await expect.poll(() => beyond.textContent()).toMatch(/^up to 5\.\d+e15 not shown$/);
    const height = () => heightOf('lm_loss', 'good');
    // from near the bottom of the plot to near its top
    await expect.poll(height).toBeGreaterThan(100);
    await page.getByText('All', { exact: true }).click();
    await expect.poll(height).toBeLessThan(10);
    await expect.poll(() => beyond.textContent()).toBe('');
  });

  it('draws throughput and step time as a median in its band', async () => {
    await open((all) => {
      all.record('noisy');
      const noisy = steps(1, 400).map((one, at) => ({
        ...one,
        step_ms: at === 200 ? 60_000 : 540 + 10 * (at % 3),
      }));
      all.append('noisy', ...noisy);
    });
    // one step of a minute neither moves the line nor the scale
    await expect.poll(() => chart('step_ms').locator('strong').textContent()).toBe('550');
    await expect.poll(() => heightOf('step_ms', 'noisy')).toBeLessThan(20);
    const url = `${dashboard.url}api/runs/noisy/series?names=step_ms,lm_loss&bands=step_ms`;
    const { series } = (await (await fetch(url)).json()) as SeriesAnswer;
    expect(Math.max(...series.step_ms!.band!.high.map(Number))).toBeLessThanOrEqual(600);
    expect(series.lm_loss!.band).toBeNull();
  });

  it('shows what runs are called as text, whatever it is', async () => {
    const name = '<img src=x onerror="document.title=1"><script>document.title=2<∕script>';
    await open((all) => {
      all.record(name, {
        flags: { '<b>flag</b>': '<script>document.title=3</script>' },
        ends: [{ reason: '<i>why</i>', error: '<u>error</u>' }],
      });
      all.append(name, step(1, { '<em>curve</em>': 1 }), { type: '<s>', iteration: 1, text: '<a href=x>' });
      all.write(name, 'samples.jsonl', '{"iteration":1,"text":"<iframe>"}\n');
    });
    await expect.poll(() => page.locator('.run .name').textContent()).toBe(name);
    await page.getByText('<iframe>').waitFor();
    await page.getByText('<em>curve</em>').waitFor();
    expect(
      await page.locator('main :is(img, b, i:not(.swatch, .tick), u, em, s, a, iframe, script)').count(),
    ).toBe(0);
    expect(await page.title()).toBe('mtl watch');
  });

  it('is light or dark as the system is, and reachable by keyboard', async () => {
    await open((all) => {
      all.record('one');
      all.append('one', ...steps(1, 5));
    });
    const ground = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    await page.emulateMedia({ colorScheme: 'light' });
    const light = await ground();
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await ground()).not.toBe(light);
    await chart('lm_loss').waitFor();
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the curves');
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.ariaLabel')).toBe('Curves of one');
    await page.keyboard.press('Space');
    await page.getByText('Choose runs in the list').waitFor();
    expect(await page.evaluate('document.activeElement.ariaLabel')).toBe('Curves of one');
  });
});
