import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { mergeOptions, preparedCorpus } from '@mtl/runs/testing';
import { hasChromium } from '@mtl/tooling/chromium';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import type { Request } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TraceAnswer } from '../src/api-types.js';
import { measureBox, PageInChromium, whySkipped } from './page-in-chromium.js';
import type { TrainInStagesArgument } from './ranks/train-in-stages.js';
import { lines, step, steps } from './run-folders.js';

describe.skipIf(!hasChromium)(`the page in Chromium${whySkipped}`, () => {
  const browser = new PageInChromium();
  beforeAll(() => browser.start());
  afterAll(() => browser.stop());
  afterEach(() => browser.close());

  /** Returns the plots with their axes, the values and the titles that the visible label covers. */
  const coveredByLabel = () =>
    browser.page.evaluate<string[]>(`{
      const label = document.querySelector('.mark-label:not([hidden])').getBoundingClientRect();
      [...document.querySelectorAll('.plot, .values li, figcaption > *')]
        .filter((one) => {
          const { left, right, top, bottom } = one.getBoundingClientRect();
          return left < label.right && right > label.left && top < label.bottom && bottom > label.top;
        })
        .map((one) => one.className + one.textContent);
    }`);

  it('waits for runs, and draws their curves while they train', async () => {
    await browser.open(() => {});
    await browser.page.getByText('No run here yet').waitFor();
    browser.folders.record('fresh', { ends: [undefined] });
    await browser.page.getByText('No step is done yet').waitFor();
    browser.folders.append('fresh', ...steps(1, 10));
    await expect.poll(() => browser.chart('lm_loss').locator('strong').textContent()).toBe('3.897');
    await expect.poll(() => browser.countPixels('lm_loss', 'fresh')).toBeGreaterThan(50);
    browser.folders.append('fresh', step(11, { lm_loss: 1.25 }), {
      type: 'validation',
      iteration: 11,
      lm_loss: 1.5,
    });
    await expect.poll(() => browser.chart('lm_loss').locator('strong').textContent()).toBe('1.25');
    await expect.poll(() => browser.chart('validation.lm_loss').locator('strong').textContent()).toBe('1.5');
    const charts = await browser.page
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
    expect(await browser.chart('tokens_per_s').locator('strong').textContent()).toBe('4.1k · 0.1 TFLOP/s');
    expect(await browser.page.locator('.connection').textContent()).toBe('live');
  });

  it('compares runs by colour, and shows what differs', async () => {
    await browser.open((all) => {
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
      .poll(() => browser.chart('lm_loss').locator('.values li').allTextContents())
      .toEqual(['2.02', '2.849']);
    for (const name of ['fast', 'slow']) {
      await expect.poll(() => browser.countPixels('lm_loss', name)).toBeGreaterThan(50);
    }
    const rows = browser.page.locator('section', { hasText: 'What differs' }).locator('tbody tr');
    await expect.poll(() => rows.allTextContents()).toEqual(['--lr0.010.001']);
    await browser.run('slow').getByRole('checkbox').uncheck();
    await expect
      .poll(() => browser.chart('lm_loss').locator('.values li').allTextContents())
      .toEqual(['2.02']);
    await expect.poll(() => browser.countPixels('lm_loss', 'slow')).toBe(0);
    expect(await rows.first().isVisible()).toBe(false);
  });

  it('shows errors and restarts, checkpoints, samples, ranks and the configuration of a run', async () => {
    await browser.open((all) => {
      const failure = { error: 'MTL_NOT_FINITE: iteration 20: loss NaN', remedy: 'lower --lr' };
      all.record('broken', {
        flags: { lr: 5 },
        ends: [undefined, { reason: 'failed', ...failure }],
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
      all.write('broken', 'iter_0000002/shard', 'x'.repeat(1024));
      const samples = [' light', ' now', ' light'].map((completion, at) => ({
        iteration: 10 + 5 * at,
        label: 'A sample',
        text: `A sample:\nWhat${completion}`,
        prompt: 'What',
        completion,
      }));
      all.write('broken', 'samples.jsonl', lines(samples));
    });
    await browser.run('broken').getByText('failed').waitFor();
    const details = browser.page.getByRole('region', { name: 'Details of a run' });
    await details.getByText('MTL_NOT_FINITE: iteration 20: loss NaN').waitFor();
    const overview = [
      'its process was killed',
      'Went on from step 10',
      'The log of the host tells what killed the process',
      'What to do: lower --lr',
      `To go on from step 10, add this to the same command: --load ${join(browser.folders.path, 'broken')}`,
      'the validation loss has been rising since step 2',
    ];
    for (const text of overview) await details.getByText(text).first().waitFor();
    const tab = (name: string | RegExp) => details.getByRole('tab', { name });
    await tab('Ranks').click();
    await details.getByText('Rank 1 on b: slower than the others').waitFor();
    await tab(/^Checkpoints/).click();
    const rows = details.locator('tbody tr');
    await expect.poll(() => rows.count()).toBe(2);
    expect(await rows.first().textContent()).toMatch(/^102 KiB((?!best).)*$/);
    expect(await rows.last().textContent()).toMatch(/^21 KiB.*best validation loss: 2$/);
    await tab('Samples').click();
    // a repeated sample appears once
    await expect
      .poll(() => details.locator('.part li > h4').allTextContents())
      .toEqual(['Steps 10, 20A sample', 'Step 15A sample']);
    expect(await details.locator('.sample span').allTextContents()).toEqual([
      'What',
      ' light',
      'What',
      ' now',
    ]);
    await browser.page.keyboard.press('End');
    await details.getByRole('row', { name: '--lr 5' }).waitFor();
    await browser.page.keyboard.press('ArrowRight');
    await details.getByText('its process was killed').waitFor();
    expect(await tab('Overview').getAttribute('aria-selected')).toBe('true');
    expect(await browser.page.evaluate('document.activeElement.textContent')).toBe('Overview');
  });

  it('goes on with the weights of a run in place of those that it began with', async () => {
    await browser.open((all) => {
      const killed = { ends: [undefined] };
      const train = ['node', 'gpt-train', '--save', 'tuned'];
      all.record('hub', {
        ...killed,
        flags: { 'load-hf': '/hub' },
        command: [...train, '--load-hf', '/hub'],
      });
      const flags = { load: '/other', finetune: true };
      all.record('chat', { ...killed, flags, command: ['mtl', 'sft', '--model', '/other'] });
      all.record('tuned', { ...killed, flags, command: [...train, '--load', '/other', '--finetune'] });
      for (const name of ['hub', 'chat', 'tuned']) all.write(name, 'iter_0000010/shard', 'x');
    });
    const replaced = { hub: '--load-hf', chat: '--model', tuned: '--load and --finetune' };
    for (const [name, flags] of Object.entries(replaced)) {
      await browser.run(name).getByRole('button').click();
      const load = `--load ${join(browser.folders.path, name)}`;
      const text = `To go on from step 10, start the same command with ${load} in place of ${flags}`;
      await browser.page.getByText(text, { exact: true }).waitFor();
    }
  });

  it('marks what happened in the focused run below its curves, names it where the pointer is, and lists it', async () => {
    await browser.open((all) => {
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
      'step 8: spike: training loss 12; its update was skipped',
      'step 5: checkpoint saved',
    ];
    for (const property of ['quiet', 'note', 'grave']) {
      const pixels = () => browser.countPixels('lm_loss', `--mark-${property}`);
      await expect.poll(pixels, { message: property }).toBeGreaterThan(10);
    }
    expect(await browser.inkAbove('lm_loss', '--mark-')).toBe(0);
    const box = await measureBox(browser.chart('lm_loss').locator('.u-over'));
    // the axis is from step 1 to step 20
    const to = async (iteration: number) =>
      await browser.page.mouse.move(box.x + ((iteration - 1) / 19) * box.width, box.y + 60);
    await to(8);
    const labels = browser.page.locator('.mark-label:visible');
    await expect.poll(() => labels.allTextContents()).toEqual([expected[4]]);
    expect(await coveredByLabel()).toEqual([]);
    await to(12);
    await expect.poll(() => labels.count()).toBe(0);
    await browser.page.getByText('Events of marked: 6').click();
    const list = browser.page.getByRole('list', { name: 'Events' });
    expect(await list.getByRole('listitem').allTextContents()).toEqual(expected);
    await browser.page.getByRole('checkbox', { name: 'Reported spikes' }).check();
    await browser.page.getByText('Events of marked: 7').waitFor();
    await to(12);
    await expect
      .poll(() => labels.allTextContents())
      .toEqual(['step 12: spike: training loss 11; its update was kept']);
    await browser.run('other').locator('.name').click();
    await browser.page.getByText('Events of other: 1').waitFor();
    await browser.page.getByRole('checkbox', { name: 'Events', exact: true }).uncheck();
    await expect.poll(() => browser.countPixels('lm_loss', '--mark-quiet')).toBe(0);
    expect(await list.isVisible()).toBe(false);
  });

  it('folds events that stand close together into their count, and describes the events in two lines', async () => {
    await browser.open((all) => {
      all.record('dense');
      all.append('dense', ...steps(1, 1000).map((one, at) => ({ ...one, skipped: at >= 496 && at < 500 })));
      for (const at of [498, 502]) all.write('dense', `iter_0000${at}/shard`, 'x');
    });
    await expect.poll(() => browser.countPixels('lm_loss', '--mark-note')).toBeGreaterThan(30);
    const box = await measureBox(browser.chart('lm_loss').locator('.u-over'));
    await browser.page.mouse.move(box.x + 0.5 * box.width, box.y + box.height + 8);
    const label = browser.page.locator('.mark-label:visible p');
    await expect
      .poll(() => label.allTextContents())
      .toEqual([
        'steps 497 to 502: 4 steps without an update, 2 checkpoints',
        'step 497: step without an update',
      ]);
    for (const size of [
      { width: 1300, height: 900 },
      { width: 390, height: 900 },
    ]) {
      await browser.page.setViewportSize(size);
      const plot = await measureBox(browser.chart('lm_loss').locator('.u-over'));
      await browser.page.mouse.move(plot.x + 0.5 * plot.width, plot.y + plot.height + 8);
      await label.first().waitFor();
      expect(await coveredByLabel()).toEqual([]);
    }
    await browser.page.setViewportSize({ width: 1300, height: 900 });
  });

  it('draws the curve of two ranks while they train, the steps that they profile, and the simulated one', async () => {
    await browser.open(() => {});
    const asked: string[] = [];
    const note = (request: Request): number => asked.push(new URL(request.url()).pathname);
    browser.page.on('request', note);
    const options = mergeOptions(await preparedCorpus(browser.folders.path), {
      preset: 'none',
      model: { numLayers: 2, hiddenSize: 32, numAttentionHeads: 4, maxPositionEmbeddings: 32 },
      data: { sequenceLength: 32 },
      training: { microBatchSize: 1, globalBatchSize: 4, trainIterations: 14, evalIterations: 0 },
      optimizer: { maxLearningRate: 1e-3 },
      layout: { threads: 1, pipelineModelParallelSize: 2 },
      checkpoint: { save: join(browser.folders.path, 'stages') },
      logging: { profileSteps: [2, 3] },
    });
    const waits = { iteration: 13, file: join(browser.folders.path, 'seen') };
    const argument: TrainInStagesArgument = { options, waits };
    const training = runInMemoryRanks({
      worldSize: 2,
      argument,
      ...rankThreads(new URL('./ranks/train-in-stages.ts', import.meta.url)),
    });
    // the run stays in its thirteenth step until the file exists
    await expect.poll(() => browser.run('stages').textContent()).toContain('step12 / 14');
    await expect.poll(() => browser.countPixels('lm_loss', 'stages')).toBeGreaterThan(50);
    expect(await browser.run('stages').textContent()).toMatch(/running.*step12 \/ 14/);
    writeFileSync(waits.file, '');
    await training;
    await browser.page.getByRole('tab', { name: 'Timeline of a step' }).click();
    const timeline = browser.page.getByRole('tabpanel');
    const text =
      /^Pipeline 0, the median of 2 profiled steps: measured \S+ ms, bubble .+ simulated .+ ms, bubble/;
    await timeline.getByText(text).waitFor();
    const picture = timeline.getByRole('img', { name: text });
    const width = () =>
      picture.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth);
    await expect.poll(width).toBeGreaterThan(100);
    const url = `${browser.url}api/runs/stages/trace`;
    const drawn = await (await fetch(`${url}/0.svg`)).text();
    for (const name of ['measured', 'simulated']) expect(drawn).toContain(name);
    const { pipelines } = (await (await fetch(url)).json()) as TraceAnswer;
    expect(pipelines).toMatchObject([{ pipeline: 0, numSteps: 2 }]);
    // the trace was requested once, although the run continued for eleven steps
    browser.page.off('request', note);
    expect(asked.filter((path) => path.endsWith('/trace'))).toEqual(['/api/runs/stages/trace']);
  });

  it('shows what runs are called as text, whatever it is', async () => {
    const name = '<img src=x onerror="document.title=1"><script>document.title=2<∕script>';
    await browser.open((all) => {
      all.record(name, {
        flags: { '<b>flag</b>': '<script>document.title=3</script>' },
        ends: [{ reason: '<i>why</i>', error: '<u>error</u>' }],
      });
      all.append(name, step(1, { '<em>curve</em>': 1 }), { type: '<s>', iteration: 1, text: '<a href=x>' });
      all.write(name, 'samples.jsonl', '{"iteration":1,"text":"<iframe>"}\n');
    });
    await expect.poll(() => browser.page.locator('.run .name').textContent()).toBe(name);
    await browser.page.getByRole('tab', { name: 'Samples' }).click();
    await browser.page.getByText('<iframe>').waitFor();
    await browser.page.getByText('<em>curve</em>').waitFor();
    expect(
      await browser.page
        .locator('main :is(img, b, i:not(.swatch, .tick), u, em, s, a, iframe, script)')
        .count(),
    ).toBe(0);
    expect(await browser.page.title()).toBe(`stopped, step 1: 8 training loss · ${name} · mtl watch`);
  });

  it('is light or dark as the system is, and reachable by keyboard', async () => {
    await browser.open((all) => {
      all.record('one');
      all.append('one', ...steps(1, 5));
    });
    const ground = () => browser.page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    await browser.page.emulateMedia({ colorScheme: 'light' });
    const light = await ground();
    await browser.page.emulateMedia({ colorScheme: 'dark' });
    expect(await ground()).not.toBe(light);
    await browser.chart('lm_loss').waitFor();
    await browser.page.keyboard.press('Tab');
    expect(await browser.page.evaluate('document.activeElement.textContent')).toBe('Skip to the curves');
    await browser.page.keyboard.press('Tab');
    expect(await browser.page.evaluate('document.activeElement.ariaLabel')).toBe('Curves of one');
    await browser.page.keyboard.press('Space');
    await browser.page.getByText('Choose runs in the list').waitFor();
    expect(await browser.page.evaluate('document.activeElement.ariaLabel')).toBe('Curves of one');
  });
});
