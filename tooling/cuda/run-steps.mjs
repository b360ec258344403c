import { runStep } from './run-step.mjs';

/**
 * Runs steps one after the other, also after one has failed. Each gets its own limit at most and, of the
 * `minutes` for all of them (Infinity where there is no limit), a share of what is left: equal ones, or in
 * proportion to their `weight` (default 1). A step that hangs costs its share, and what quick steps leave
 * goes to those behind. A step with `otherwise` that fails gives these variables to all behind it.
 *
 * @param logOf - the stream that a step's output is kept in, in addition to the terminal
 * @param keep - called after each step with it and the result: `status` of run-step.mjs, or 'no time left',
 *   `seconds`, and `otherwise` from here on
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
