import { flopsPerToken, goals, plans } from './plans.mjs';
import { largestCommon } from './search-micro-batch.mjs';

const tflops = (tokensPerSecond, flops) => (tokensPerSecond * flops) / 1e12;

/**
 * The largest difference to expect between the first losses of two runs whose tokens and initial weights
 * differ but have the same distribution.
 */
const firstLossBound = 0.1;

function check(name, { value, goal, isReached }) {
  return { name, value, goal, reached: isReached };
}

/**
 * Returns a row of the table for a model: the best result of each side, and the result for each goal. A goal
 * without a measurement counts as missed, with the value null, because a side did not fit into the GPU or
 * PyTorch was not measured. `peakTflops` is the GPU's peak (see gpu-data-sheets.mjs). Without it, the row has
 * no fraction of the peak. `predicted` is the planner's prediction for our best result (see
 * predict-step.mjs); undefined without a profile.
 */
export function judge({ preset, ours, theirs, predicted, peakTflops }) {
  const [our, their] = [ours.best, theirs?.best];
  const flops = flopsPerToken(preset);
  const rates = (run) =>
    run && {
      tflops: tflops(run.tokens_per_s, flops.full),
      tflops_halved: tflops(run.tokens_per_s, flops.halved),
      ...(peakTflops !== undefined && {
        peak_share: tflops(run.tokens_per_s, flops.full) / peakTflops,
        peak_share_halved: tflops(run.tokens_per_s, flops.halved) / peakTflops,
      }),
    };
  const common = our && their ? largestCommon(ours, theirs) : undefined;
  const speed = our && their ? our.tokens_per_s / their.tokens_per_s : null;
  const memory = common ? common.ours.peak_bytes / common.theirs.peak_bytes : null;
  const host = our ? our.host_ms / our.step_ms : null;
  const share = rates(our)?.peak_share ?? null;
  const firstLoss = our && their ? Math.abs(our.losses[0] - their.losses[0]) : null;
  const { peakShare } = plans[preset];
  const reached = (value, test) => value !== null && Number.isFinite(value) && test(value);
  const checks = [
    check('speed', { value: speed, goal: goals.speed, isReached: reached(speed, (x) => x >= goals.speed) }),
    check('memory', {
      value: memory,
      goal: goals.memory,
      isReached: reached(memory, (x) => x <= goals.memory),
    }),
    check('host', { value: host, goal: goals.host, isReached: reached(host, (x) => x <= goals.host) }),
    check('first loss', {
      value: firstLoss,
      goal: firstLossBound,
      isReached: reached(firstLoss, (x) => x <= firstLossBound),
    }),
    ...(predicted === undefined || !our
      ? []
      : [
          check('prediction', {
            value: predicted.step_ms / our.step_ms,
            goal: 1,
            isReached: Math.abs(predicted.step_ms / our.step_ms - 1) <= goals.prediction,
          }),
        ]),
    ...(peakShare === undefined
      ? []
      : [
          check('share of peak', {
            value: share,
            goal: peakShare,
            isReached: reached(share, (x) => x >= peakShare),
          }),
        ]),
  ];
  return {
    preset,
    ours: our && { ...our, ...rates(our) },
    theirs: their && { ...their, ...rates(their) },
    predicted: predicted ?? null,
    same_micro_batch: common?.ours.micro_batch ?? null,
    speed,
    memory,
    host,
    checks,
  };
}
