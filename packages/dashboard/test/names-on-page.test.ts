import { describe, expect, it } from 'vitest';
import { chartKinds, findChartKind } from '../page/chart-kinds.js';
import { formatTitle } from '../page/title.js';
import type { RunSummary } from '../src/api-types.js';

const losses = [
  ...['lm_loss', 'sop_loss', 'total_loss', 'z_loss'],
  ...['load_balancing_loss', 'seq_load_balancing_loss', 'global_load_balancing_loss'],
];

describe('names of losses', () => {
  it('are one for each loss, and begin with "Validation" for evaluations', () => {
    const titles = losses.map((name) => findChartKind(name).title);
    expect(new Set(titles).size).toBe(losses.length);
    expect(titles.slice(0, 3)).toEqual(['Training loss', 'Sentence order loss', 'Total loss']);
    expect(losses.map((name) => findChartKind(`validation.${name}`).title)).toEqual([
      'Validation loss',
      ...titles.slice(1).map((title) => `Validation ${title.charAt(0).toLowerCase()}${title.slice(1)}`),
    ]);
    expect(findChartKind('validation.lm_loss').unit).toBe(findChartKind('lm_loss').unit);
    expect(chartKinds(new Set(['my_own_value']))[0]!.title).toBe('My own value');
  });
});

describe('title of the tab', () => {
  const run: RunSummary = {
    id: 'run-a',
    state: 'running',
    model: 'gpt',
    worldSize: 1,
    iteration: 1290,
    trainIterations: 2000,
    loss: 4.68312,
    validationLoss: null,
    tokensPerSecond: null,
    stepMs: null,
    startedAt: null,
    numStarts: 1,
    error: null,
    revision: 1,
  };

  it('has step and loss of the focused run first', () => {
    expect(formatTitle(run)).toBe('step 1,290: 4.683 training loss · run-a · mtl watch');
    expect(formatTitle({ ...run, state: 'failed' })).toBe(
      'failed, step 1,290: 4.683 training loss · run-a · mtl watch',
    );
    expect(formatTitle({ ...run, loss: null, iteration: 0 })).toBe('step 0 · run-a · mtl watch');
    expect(formatTitle(undefined)).toBe('mtl watch');
  });
});
