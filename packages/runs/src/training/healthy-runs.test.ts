import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { configure } from '@mtl/configuration';
import { smallRun } from '@mtl/configuration/testing';
import { SpikeGuard } from '@mtl/trainer';
import { describe, expect, it } from 'vitest';

interface RecordedRun {
  readonly losses: readonly number[];
  readonly gradientNorms: readonly number[];
}

/**
 * Losses and gradient norms of thirteen runs without spikes, recorded by
 * tooling/fixtures/make-healthy-runs.mjs.
 */
const file = new URL('../../fixtures/healthy-runs.json.gz', import.meta.url);
const runs = JSON.parse(gunzipSync(readFileSync(file)).toString()) as Record<string, RecordedRun>;
const { spikes } = configure(smallRun);

type Step = { readonly loss: number; readonly gradientNorm: number };

/**
 * Returns the steps that the default rule reports as spikes. `change` injects spikes, which are left out of
 * the rule's window.
 */
function reportedIn(
  { losses, gradientNorms }: RecordedRun,
  change: (step: Step, iteration: number) => Step | undefined = () => undefined,
): { readonly healthy: number[]; readonly injected: number[] } {
  const guard = new SpikeGuard(spikes);
  const [healthy, injected]: [number[], number[]] = [[], []];
  losses.forEach((loss, index) => {
    const iteration = index + 1;
    const step = { loss, gradientNorm: gradientNorms[index]! };
    const spike = change(step, iteration);
    if (spike !== undefined && guard.isSuspicious(spike)) injected.push(iteration);
    const others = { iteration, consumedSamples: index, globalBatchSize: 1 };
    if (guard.judge({ ...step, ...others }).events.length > 0) healthy.push(iteration);
  });
  return { healthy, injected };
}

/** Returns true for every 50th step after the first window. */
const isChosen = (iteration: number): boolean => iteration > spikes.window && iteration % 50 === 0;
const numChosen = ({ losses }: RecordedRun): number =>
  losses.filter((_, index) => isChosen(index + 1)).length;

describe('the default rule for loss spikes, on recorded runs', () => {
  it('reports less than one of 10,000 healthy steps', () => {
    const numSteps = Object.values(runs).reduce((sum, { losses }) => sum + losses.length, 0);
    const numReports = Object.values(runs).reduce((sum, run) => sum + reportedIn(run).healthy.length, 0);
    expect(spikes.policy).toBe('report');
    expect(numSteps).toBe(44_500);
    expect((10_000 * numReports) / numSteps).toBeLessThan(1);
  });

  it('finds gradients that are a hundred times what they should be', () => {
    for (const [name, run] of Object.entries(runs)) {
      const { injected } = reportedIn(run, ({ loss, gradientNorm }, iteration) =>
        isChosen(iteration) ? { loss, gradientNorm: 100 * gradientNorm } : undefined,
      );
      expect(injected.length / numChosen(run), name).toBeGreaterThan(0.8);
    }
  });

  it('finds a loss that doubles for three steps', () => {
    // a run that memorized its data has a loss near 0, which often doubles from one batch to the next
    const { 'bytes-96-learnt-by-heart': _, ...others } = runs;
    for (const [name, run] of Object.entries(others)) {
      const losses = run.losses.map((loss, index) => (index % 200 >= 197 ? 2 * loss : loss));
      const { healthy } = reportedIn({ ...run, losses });
      const isLast = (iteration: number): boolean => iteration > spikes.window && iteration % 200 === 0;
      const numRises = losses.filter((_, index) => isLast(index + 1)).length;
      expect(healthy.filter(isLast).length / numRises, name).toBeGreaterThan(0.5);
    }
  });

  it('finds numbers that are not finite', () => {
    const { injected } = reportedIn(runs['bytes-64']!, ({ gradientNorm }, iteration) =>
      isChosen(iteration) ? { loss: Number.NaN, gradientNorm } : undefined,
    );
    expect(injected.length).toBe(numChosen(runs['bytes-64']!));
  });
});
