import { hasValues, Tensor } from '@mtl/kernels';
import type { ComputedStep } from '../extensions/trainer-extension.js';
import { computedStep, type EnqueuedStep, type RunningStep, type StepResults } from './running-step.js';
import type { StepPasses } from './step-passes.js';

/**
 * Runs the passes of a step, repeats them if an extension requests it, and updates the weights if all
 * extensions accept the results. Each step waits for its losses and its gradient norm before the update.
 */
export async function decideStep<Batch>(
  step: RunningStep<Batch>,
  passes: StepPasses<Batch>,
): Promise<EnqueuedStep> {
  const { extensions, ranks } = passes;
  const { optimizer, device } = passes.options;
  const { rates, lossScale } = step;
  const first = await measure(step, passes);
  const { step: measured, events } = await extensions.repeated({
    iteration: step.iteration,
    first,
    isSuspicious: !passes.isForScaler(first) && extensions.isSuspicious(first),
    again: async () => {
      optimizer.discardGradients();
      return await measure(step, passes);
    },
    ranks,
  });
  const { verdict, ...results } = passes.judged(step, measured);
  using gradientNorm = Tensor.empty({ shape: [1], dtype: 'float64', device });
  if (verdict.action !== 'update') optimizer.discardGradients();
  else
    extensions.span('optimizer', () => {
      optimizer.launchStep({ ...rates, lossScale, gradientNorm });
      optimizer.finishStep(results.gradientNorm);
    });
  return computedStep(step, {
    ...results,
    verdict: { ...verdict, events: [...events, ...verdict.events] },
  });
}

/**
 * Runs the passes and returns their results. Afterwards, the gradients are reduced, and the parameters are
 * unchanged.
 */
async function measure<Batch>(
  step: RunningStep<Batch>,
  passes: StepPasses<Batch>,
): Promise<StepResults & ComputedStep> {
  const { optimizer, device } = passes.options;
  using losses = passes.makeLosses(step.batches);
  using own = Tensor.zeros({ shape: [1], dtype: 'float64', device });
  if (passes.extensions.repeat) optimizer.recordOwnGradients(own);
  await passes.run(step, losses);
  const { read, ...found } = passes.read(step, losses, () => {
    const squares = optimizer.measureGradients();
    return [...losses.read(), ...(hasValues(device) ? [own.item(), squares.item()] : [0, 0])];
  });
  const gradientNorm = Math.sqrt(read.at(-1)!) / step.lossScale;
  return { ...found, gradientNorm, own: read.slice(0, -1) };
}
