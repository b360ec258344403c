import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import type { CollectiveOperation, Operation } from '@mtl/cost-model';
import { describe, expect, it } from 'vitest';
import { configureTinyGpt } from '../../test/support/tiny-gpt.js';
import { recordRun } from './record-run.js';

const onDevice: RunOptions = { layout: { device: 'cuda' }, training: { microBatchSize: 1 } };

/** Returns the total bytes of the complete tensors in the started collectives of the given kind. */
const sumStarted = (
  operations: readonly Operation[] | undefined,
  collective: CollectiveOperation['collective'],
): number =>
  (operations ?? []).reduce(
    (sum, operation) =>
      operation.kind === 'start' && operation.collective.collective === collective
        ? sum + operation.collective.bytes
        : sum,
    0,
  );

describe('recordRun, units of sharded states', () => {
  it.each([
    { strategy: 'optim_grads', numMicroBatches: 1, numLayers: 4 },
    { strategy: 'optim_grads', numMicroBatches: 8, numLayers: 4 },
    { strategy: 'optim_grads_params', numMicroBatches: 1, numLayers: 4 },
    { strategy: 'optim_grads_params', numMicroBatches: 8, numLayers: 4 },
    { strategy: 'optim_grads_params', numMicroBatches: 8, numLayers: 12 },
  ] as const)(
    'predicts the communication that ranks count: $strategy, $numMicroBatches micro-batches, $numLayers layers',
    async ({ strategy, numMicroBatches, numLayers }) => {
      const size = 4;
      const options = mergeOptions(onDevice, {
        // every tensor is large enough to count as a unit
        model: { numLayers, hiddenSize: 512 },
        layout: { dataParallelShardingStrategy: strategy },
        training: { globalBatchSize: size * numMicroBatches },
      });
      const { step, ranks } = await recordRun(configureTinyGpt(options, size), { gpusPerNode: 8 });
      const [{ F, B }] = step.chunks as [(typeof step.chunks)[0]];
      const [{ reduction, gather }] = step.ends as [(typeof step.ends)[0]];
      const sent = (bytes: number): number => (bytes * (size - 1)) / size;
      const { gatheredBytes, reducedBytes } = ranks[0]!.shardingTraffic!;
      // reductions that a pass has started at its end appear again in the next pass, where they are still in
      // progress
      const startedBefore = sumStarted(F, 'reduce-scatter');
      expect(sent(numMicroBatches * sumStarted(B, 'reduce-scatter'))).toBe(reducedBytes);
      expect(startedBefore).toBe(
        numMicroBatches === 1 ? 0 : reduction.operations.reduce((sum, { bytes }) => sum + bytes, 0),
      );
      const inPasses = sumStarted(F, 'all-gather') + sumStarted(B, 'all-gather');
      const once = gather.operations.reduce((sum, { bytes }) => sum + bytes, 0);
      expect(sent(numMicroBatches * inPasses + once)).toBe(gatheredBytes);
      if (strategy === 'optim_grads') expect(inPasses).toBe(0);
      expect(reduction.isOverlapped).toBe(false);
    },
  );
});
