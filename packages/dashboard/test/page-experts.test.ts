import { hasChromium } from '@mtl/tooling/chromium';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { measureBox, PageInChromium, whySkipped } from './page-in-chromium.js';
import { step } from './run-folders.js';

/** Loads of four experts in the layers 1 and 3. */
const experts = (iteration: number, loads: readonly (readonly number[])[]) => ({
  type: 'experts',
  iteration,
  steps: 10,
  layers: ['decoder.layers.1.mlp', 'decoder.layers.3.mlp'],
  loads,
  dropped: [0.125, 0],
  entropy: [1.25, 0.75],
});

describe.skipIf(!hasChromium)(`experts on the page, in Chromium${whySkipped}`, () => {
  const browser = new PageInChromium();
  beforeAll(() => browser.start());
  afterAll(() => browser.stop());
  afterEach(() => browser.close());

  /** Returns the colour in the middle of a cell of a heat map with rows and columns of `sizes`. */
  async function readColour(map: number, cell: readonly number[], sizes: readonly number[]): Promise<string> {
    return await browser.page.evaluate(`{
      const canvas = document.querySelectorAll('.heat-map canvas')[${map}];
      const [row, column, rows, columns] = ${JSON.stringify([...cell, ...sizes])};
      const [width, height] = [canvas.width / devicePixelRatio - 34, canvas.height / devicePixelRatio - 20];
      const [x, y] = [34 + ((column + 0.5) * width) / columns, ((row + 0.5) * height) / rows];
      const at = [x, y].map((place) => Math.round(place * devicePixelRatio));
      [...canvas.getContext('2d').getImageData(at[0], at[1], 1, 1).data.slice(0, 3)].join(' ');
    }`);
  }

  /** Returns the parts of a colour of the style sheet. */
  const property = async (name: string): Promise<string> =>
    await browser.page.evaluate(`
      [1, 3, 5].map((at) => Number.parseInt(
        getComputedStyle(document.documentElement).getPropertyValue('${name}').trim().slice(at, at + 2), 16)).join(' ')`);

  it('shows the load of every expert, of all layers and over time of one, while a run trains', async () => {
    await browser.open((all) => {
      all.record('sparse');
      const losses = { seq_load_balancing_loss: 1.5, z_loss: 7 };
      all.append(
        'sparse',
        step(10, losses),
        experts(10, [
          [4, 4, 4, 4],
          [16, 0, 0, 0],
        ]),
      );
      all.append(
        'sparse',
        step(20, losses),
        experts(20, [
          [2, 6, 4, 4],
          [4, 4, 4, 4],
        ]),
      );
    }, '?tab=experts');
    const details = browser.page.getByRole('region', { name: 'Details of a run' });
    await details
      .getByText(
        'Busiest is expert 1 of layer 1 with 1.5 × even. All experts got tokens. Model FLOPs count the experts that a token uses.',
      )
      .waitFor();
    const overview = [2, 4];
    await expect.poll(() => readColour(0, [0, 2], overview)).toBe(await property('--heat-even'));
    expect(await readColour(0, [0, 0], overview)).not.toBe(await property('--heat-even'));
    const curves = () => details.locator('.small-curve figcaption').allTextContents();
    const ofLosses = ['Load balancing loss of sequences1.5', 'Router z-loss7'];
    await expect
      .poll(curves)
      .toEqual(['Busiest expert1.5', 'Dropped choices12.5 %', 'Router entropy1.25', ...ofLosses]);
    // over time: rows are experts, and columns intervals
    await details.getByRole('combobox', { name: 'Layer' }).selectOption('Layer 3');
    await expect.poll(() => readColour(1, [0, 0], [4, 2])).toBe(await property('--heat-more'));
    expect(await readColour(1, [3, 0], [4, 2])).toBe(await property('--heat-none'));
    expect(await readColour(1, [3, 1], [4, 2])).toBe(await property('--heat-even'));
    await expect
      .poll(curves)
      .toEqual(['Busiest expert1', 'Dropped choices0 %', 'Router entropy0.75', ...ofLosses]);
    expect(new URL(browser.page.url()).searchParams.get('layer')).toBe('3');
    browser.folders.append(
      'sparse',
      experts(30, [
        [8, 0, 4, 4],
        [0, 8, 4, 4],
      ]),
    );
    await details.getByText('Experts that got no tokens: layer 1: 1; layer 3: 0. Model FLOPs').waitFor();
    await browser.page.getByText('Events of sparse: 2').click();
    expect(
      await browser.page.getByRole('list', { name: 'Events' }).getByRole('listitem').allTextContents(),
    ).toEqual([
      'step 30: experts that got no tokens: layer 1: 1; layer 3: 0',
      'step 10: experts that got no tokens: layer 3: 1, 2, 3',
    ]);
    // the overview also selects a layer, and describes the expert under the pointer
    const canvas = details.locator('.heat-map canvas').first();
    const box = await measureBox(canvas);
    await canvas.click({ position: { x: box.width - 5, y: 5 } });
    await details.getByText('layer 1, expert 3: 1 × even').waitFor();
    await expect.poll(() => details.getByRole('combobox', { name: 'Layer' }).inputValue()).toBe('1');
  });

  it('has no such part for a run without experts', async () => {
    await browser.open((all) => {
      all.record('dense');
      all.append('dense', step(1), { type: 'experts', iteration: 1, loads: 'none' });
      all.record('sparse', { startedAt: '2026-11-21T10:00:00.000Z' });
      all.append(
        'sparse',
        experts(10, [
          [1, 1],
          [1, 1],
        ]),
      );
    }, '?tab=experts&focus=dense&layer=9');
    await browser.page.getByRole('tab', { name: 'Configuration' }).waitFor();
    expect(await browser.page.getByRole('tab', { name: 'Experts' }).count()).toBe(0);
    const get = async (path: string) => await fetch(`${browser.url}api/runs/${path}`);
    expect((await get('dense/experts')).status).toBe(404);
    expect((await get('sparse/experts?layer=x')).status).toBe(400);
    expect(await (await get('sparse/experts?layer=3')).json()).toMatchObject({ layer: 3, loads: [[1, 1]] });
  });
});
