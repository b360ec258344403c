import { type Layout, listedProfile, loadProfile, type ModelSize, predictStepTime } from '../../src/index.js';
import { gpt } from './paper-rows.js';

/** A statement of a paper about a figure that was not read point by point. */
interface PaperOrder {
  readonly figure: string;
  readonly statement: string;
  /** The predicted speeds, by setting. */
  readonly predicted: Readonly<Record<string, number>>;
  readonly holds: boolean;
}

const profile = listedProfile(loadProfile('a100-80gb-megatron-2021'));

/** 64 GPUs, micro-batch 1 and full recomputation, as in examples/sc21 of Megatron-LM. */
const base: Layout = {
  tp: 1,
  pp: 1,
  dp: 1,
  microBatchSize: 1,
  globalBatchSize: 32,
  recomputation: 'full',
};

/** Returns samples per second. */
function speed(
  model: ModelSize,
  layout: Partial<Layout>,
  software: Partial<typeof profile.software> = {},
): number {
  const whole = { ...base, ...layout };
  const { seconds } = predictStepTime({
    model,
    layout: whole,
    profile: { ...profile, software: { ...profile.software, ...software } },
  });
  return whole.globalBatchSize / seconds;
}

/** Returns the speeds of settings by their names. */
function speeds(
  values: readonly number[],
  { name, of }: { readonly name: string; readonly of: (value: number) => number },
): Record<string, number> {
  return Object.fromEntries(values.map((value) => [`${name} ${value}`, of(value)]));
}

const isFalling = (predicted: Readonly<Record<string, number>>): boolean => {
  const values = Object.values(predicted);
  return values.every((value, i) => i === 0 || value < values[i - 1]!);
};

const findBest = (predicted: Readonly<Record<string, number>>): string =>
  Object.entries(predicted).reduce((best, each) => (each[1] > best[1] ? each : best))[0];

/**
 * Returns the statements of Narayanan et al. 2021, sections 5.4 to 5.6, with the settings of examples/sc21.
 */
export function paperOrders(): PaperOrder[] {
  const widths = [2, 4, 8, 16, 32];
  const large = gpt(32, 20_480, 128);
  const small = gpt(32, 3840, 32);
  const tensorAndPipeline = [32, 128].map((batch): PaperOrder => {
    const predicted = speeds(widths, {
      name: 't',
      of: (t) => speed(large, { tp: t, pp: 64 / t, globalBatchSize: batch }),
    });
    const statement = `batch ${batch}: tensor 8 x pipeline 8 is the fastest`;
    return { figure: '13', statement, predicted, holds: findBest(predicted) === 't 8' };
  });
  const pipelineAndData = [32, 512].map((batch): PaperOrder => {
    const predicted = speeds(widths, {
      name: 'p',
      of: (p) => speed(small, { pp: p, dp: 64 / p, globalBatchSize: batch }),
    });
    return {
      figure: '14',
      statement: `batch ${batch}: more stages are slower`,
      predicted,
      holds: isFalling(predicted),
    };
  });
  const tensorAndData = [128, 512].map((batch): PaperOrder => {
    const predicted = speeds(widths, {
      name: 't',
      of: (t) =>
        speed(
          small,
          { tp: t, dp: 64 / t, globalBatchSize: batch },
          // --DDP-impl local, also without a pipeline
          { dataOverlap: 'never' },
        ),
    });
    const statement = `batch ${batch}: more tensor-parallel ranks are slower`;
    return { figure: '15', statement, predicted, holds: isFalling(predicted) };
  });
  const microBatches = [128, 512].map((batch): PaperOrder => {
    const predicted = speeds([1, 2, 4, 8], {
      name: 'b',
      of: (b) =>
        speed(gpt(32, 15_360, 128), {
          tp: 8,
          pp: 8,
          microBatchSize: b,
          globalBatchSize: batch,
        }),
    });
    const statement = `batch ${batch}: micro-batch 2 is the fastest`;
    return { figure: '16', statement, predicted, holds: findBest(predicted) === 'b 2' };
  });
  return [...tensorAndPipeline, ...pipelineAndData, ...tensorAndData, ...microBatches, recomputation()];
}

/** Returns the statement about recomputation: its additional forward pass costs small batches up to 33 %. */
function recomputation(): PaperOrder {
  const model = gpt(80, 12_288, 96);
  const layout = { tp: 8, pp: 16, globalBatchSize: 1 };
  const full = speed(model, layout);
  const none = speed(model, { ...layout, recomputation: 'none' });
  const predicted = { 'none over full': none / full };
  // predictions for points in figures may be off by 12 %
  const holds = Math.abs(none / full / 1.33 - 1) < 0.12;
  return {
    figure: '17',
    statement: 'batch 1: recomputation takes 1.33 times as long',
    predicted,
    holds,
  };
}
