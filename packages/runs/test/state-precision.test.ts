import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoint } from '@mtl/checkpoint';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';

const numSteps = 12;
const aware = (optimizer: RunOptions['optimizer']): RunOptions => ({
  optimizer: { usePrecisionAwareOptimizer: true, ...optimizer },
});
const bf16: RunOptions = { training: { bf16: true } };
/** The ways to keep states and master weights. */
const modes = {
  whole: bf16,
  remainders: mergeOptions(bf16, aware({})),
  lean: mergeOptions(bf16, aware({ expAvgDtype: 'bf16', expAvgSqDtype: 'bf16' })),
  leanest: mergeOptions(bf16, aware({ expAvgDtype: 'bf16', expAvgSqDtype: 'bf16', mainGradsDtype: 'bf16' })),
  scaled: mergeOptions(
    bf16,
    aware({ expAvgDtype: 'fp16', expAvgSqDtype: 'fp16', storeParamRemainders: false }),
  ),
} as const satisfies Record<string, RunOptions>;
type Mode = keyof typeof modes;
const listed = Object.keys(modes) as Mode[];

const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
const pipeline: RunOptions = { layout: { pipelineModelParallelSize: 2 } };
const distributed: RunOptions = {
  layout: { useDistributedOptimizer: true, overlapGradReduce: true, overlapParamGather: true },
};

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create({ training: { trainIterations: numSteps, evalInterval: numSteps } });
  await runs.run(
    1,
    listed.flatMap((mode) => [
      { name: mode, options: modes[mode] },
      {
        name: `half-${mode}`,
        options: mergeOptions(modes[mode], {
          training: { exitInterval: 6 },
          checkpoint: { saveInterval: 3 },
        }),
      },
      { name: `half-${mode}`, options: { checkpoint: { load: runs.locate(`half-${mode}`) } } },
    ]),
  );
});
afterAll(() => runs.remove());

function readTensorFiles(folder: string): Buffer[] {
  const files = readdirSync(folder).filter((file) => file.endsWith('.safetensors'));
  expect(files.length).toBeGreaterThan(0);
  return files.map((file) => readFileSync(join(folder, file)));
}

function expectSame(name: string, expected: string): void {
  const { loss, norm } = runs.differences(name, expected);
  expect(loss, `loss of ${name}`).toBeLessThan(tolerances.bf16.loss);
  expect(norm, `norm of ${name}`).toBeLessThan(tolerances.bf16.norm);
}

describe.each(listed)('a GPT in bf16 whose states are %s', (mode) => {
  it('learns as with fp32 states', () => {
    const metrics = runs.readMetrics(mode);
    expect(metrics[0]!.lm_loss - metrics.at(-1)!.lm_loss).toBeGreaterThan(0.5);
    expectSame(mode, 'whole');
    if (mode !== 'whole' && mode !== 'remainders') {
      expect(listNumbers(metrics)).not.toEqual(listNumbers(runs.readMetrics('whole')));
    }
  });

  it('resumes bitwise', () => {
    expect(listNumbers(runs.readMetrics(`half-${mode}`)).slice(-6)).toEqual(
      listNumbers(runs.readMetrics(mode)).slice(-6),
    );
    const [whole, halves] = [mode, `half-${mode}`].map((name) =>
      readTensorFiles(join(runs.locate(name), `iter_00000${numSteps}`)),
    );
    expect(halves).toEqual(whole);
  });

  it('saves float32 tensors under the names that fp32 states have', async () => {
    const [own, usual] = await Promise.all(
      [mode, 'whole'].map((name) => Checkpoint.open(join(runs.locate(name), `iter_00000${numSteps}`))),
    );
    expect([...own!.tensors.keys()]).toEqual([...usual!.tensors.keys()]);
    expect([...own!.tensors.values()].every(({ dtype }) => dtype === 'F32')).toBe(true);
  });

  it.each(listed)('goes on with states that are %s', async (other) => {
    const name = `${mode}-to-${other}`;
    const off = {
      optimizer: {
        usePrecisionAwareOptimizer: false,
        expAvgDtype: 'fp32',
        expAvgSqDtype: 'fp32',
        mainGradsDtype: 'fp32',
      },
    };
    const options = mergeOptions(other === 'whole' ? mergeOptions(bf16, off as RunOptions) : modes[other], {
      checkpoint: { load: runs.locate(`half-${mode}`), checkpointStep: 6 },
    });
    await runs.run(1, [{ name, options }]);
    const rest = runs.readMetrics(name);
    expect(rest.length).toBe(numSteps - 6);
    runs
      .readMetrics('whole')
      .slice(-rest.length)
      .forEach(({ lm_loss }, index) => {
        expect(Math.abs(rest[index]!.lm_loss / lm_loss - 1)).toBeLessThan(tolerances.bf16.loss);
      });
  });
});

it('trains as in one process: 2 ranks', async () => {
  const layouts = { tensor, pipeline, data: {}, distributed };
  const kinds = listed.filter((mode) => mode !== 'whole');
  await runs.run(
    2,
    kinds.flatMap((mode) =>
      Object.entries(layouts).map(([name, layout]) => ({
        name: `${name}-${mode}`,
        options: mergeOptions(modes[mode], layout as RunOptions),
      })),
    ),
  );
  for (const mode of kinds) {
    for (const name of Object.keys(layouts)) expectSame(`${name}-${mode}`, mode);
    // fp16 states round numbers far below the largest of a parameter by the scale of a rank's part
    if (mode === 'scaled') continue;
    expect(listNumbers(runs.readMetrics(`distributed-${mode}`))).toEqual(
      listNumbers(runs.readMetrics(`data-${mode}`)),
    );
  }
});

it('keeps a model in fp32 with states of 16 bits, too', async () => {
  const options = aware({ expAvgDtype: 'bf16', expAvgSqDtype: 'fp16' });
  await runs.run(1, [{ name: 'alone-fp32' }, { name: 'lean-fp32', options }]);
  const { loss } = runs.differences('lean-fp32', 'alone-fp32');
  expect(loss).toBeLessThan(tolerances.bf16.loss);
  expect(loss).toBeGreaterThan(0);
});
