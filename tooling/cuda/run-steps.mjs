import { runStep } from './run-step.mjs';

/**
 * Runs steps one after the other, continuing after a failure. `minutes` is the time for all steps (Infinity:
 * no limit). Each step gets a share of the remaining time, in proportion to its `weight` (default 1), but at
 * most its own limit. Therefore a step that hangs costs only its own share, and later steps get the time that
 * quick steps have not used. If a step with `otherwise` fails, all later steps get the variables in
 * `otherwise`.
 * @param logOf - the stream that receives a step's output, in addition to the terminal
 * @param keep - called after each step with the step and the result: `status`, as in run-step.mjs or 'no time
 *   left'; `seconds`; and `otherwise`, the variables for later steps
 */
export async function runSteps({ steps, minutes, logOf, keep }) {
  const deadline = performance.now() + minutes * 60_000;
  let otherwise = {};
  for (const [index, step] of steps.entries()) {
    const start = performance.now();
    const left = Math.max(0, deadline - start) / 60_000;
    const weights = steps.slice(index).map(({ weight = 1 }) => weight);
    const share = Math.min(step.minutes, (left * weights[0]) / weights.reduce((sum, one) => sum + one));
    const isLimited = Number.isFinite(minutes);
    const log = logOf(step);
    const title = `\n== ${step.stage}: ${step.name}${isLimited ? `, at most ${share.toFixed(1)} minutes` : ''}\n`;
    process.stdout.write(title);
    log.write(title);
    const more = isLimited ? (step.limited?.(60 * share) ?? []) : [];
    const limited = { ...step, args: [...step.args, ...more], minutes: share };
    const status =
      share > 0 ? await runStep({ ...limited, env: { ...step.env, ...otherwise } }, log) : 'no time left';
    if (status !== 0) otherwise = { ...otherwise, ...step.otherwise };
    keep(step, { status, seconds: Number(((performance.now() - start) / 1000).toFixed(1)), otherwise });
  }
}
